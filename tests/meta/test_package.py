"""The wheel: built from this checkout, installed with the pinned dependencies, and run.

What a person gets from an index is this wheel, not the checkout that the other tests run on.
"""

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import stoker
from tests.meta.source import PACKAGE, PROJECT

pytest.importorskip("hatchling", reason="the build backend comes with `make dev`")


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command outside the checkout and return what it prints; its failure fails the test."""
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONPATH": "", "STOKER_STATE": str(folder)}
    ended = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | quiet,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built by the pinned backend."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    run([sys.executable, "-m", "pip", "wheel", *options, PROJECT], folder)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    files = {path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*.*")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name for name in files if "__pycache__" not in name} - names == set()
    assert [name for name in names if name.endswith("licenses/LICENSE")] != []


def test_the_wheel_runs_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("stoker.cli.main")
    run([sys.executable, "-m", "venv", "--without-pip", "own"], tmp_path)
    pip = [sys.executable, "-m", "pip", "--python", "own/bin/python"]
    pins = PROJECT / "requirements" / "runtime.txt"
    run([*pip, "install", "--quiet", "--require-hashes", "--requirement", pins], tmp_path)
    run([*pip, "install", "--quiet", "--no-deps", wheel], tmp_path)

    where = "import stoker; print(stoker.__file__)"
    assert "No broken requirements" in run([*pip, "check"], tmp_path)
    assert run(["own/bin/python", "-c", where], tmp_path).startswith(str(tmp_path))
    assert stoker.__version__ in run(["own/bin/stoker", "--version"], tmp_path)
