from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.lab.tree import MARK
from tests.supervisors.worlds import FakeWorld, SupervisordWorld, SystemdWorld, World

SUPERVISOR = "supervisor==4.3.0"
_ENVIRONMENT = PROJECT / ".cache" / "supervisord-venv"
_WHEELS = PROJECT / ".cache" / "wheels"

#: What can be killed, and comes and goes with our services.
MORTAL = ("fake", "supervisord")
#: Nobody's own services are ever touched: systemd is tested in the lab's containers alone.
ADAPTERS = (*MORTAL, "systemd") if Path(MARK).exists() else MORTAL


@pytest.fixture(scope="session")
def supervisord_folder() -> Path:
    """The ``bin`` folder of an environment with supervisord in it, kept for later sessions."""
    folder = _ENVIRONMENT / "bin"
    if not _works(folder / "supervisord"):
        venv.create(_ENVIRONMENT, clear=True, symlinks=True, with_pip=False)
        if not _install("--no-index", "--find-links", str(_WHEELS)):
            assert _install(), "supervisord cannot be installed"
    return folder


@pytest.fixture
def runtime_folder() -> Iterator[str]:
    """A folder with a short path, private to this user; pytest's own are too long for sockets."""
    folder = tempfile.mkdtemp(prefix="stoker-run-")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def supervisord_world(
    tmp_path: Path, supervisord_folder: Path, runtime_folder: str
) -> Iterator[SupervisordWorld]:
    world = SupervisordWorld(
        tmp_path, daemon=str(supervisord_folder / "supervisord"), runtime_folder=runtime_folder
    )
    yield world
    world.close()


@pytest.fixture
def fake_world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def systemd_world(tmp_path: Path) -> Iterator[SystemdWorld]:
    if "systemd" not in ADAPTERS:
        pytest.skip("runs in the lab's containers, see tests/lab")
    world = SystemdWorld(tmp_path)
    yield world
    world.close()


@pytest.fixture(params=ADAPTERS)
def world(request: pytest.FixtureRequest) -> World:
    """Every adapter of the port."""
    found: World = request.getfixturevalue(f"{request.param}_world")
    return found


@pytest.fixture(params=MORTAL)
def mortal_world(request: pytest.FixtureRequest) -> World:
    """Every adapter whose manager is our own."""
    found: World = request.getfixturevalue(f"{request.param}_world")
    return found


def _works(program: Path) -> bool:
    """Whether it runs: an environment does not survive a move of the checkout."""
    try:
        subprocess.run([program, "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _install(*options: str) -> bool:
    pip = [sys.executable, "-m", "pip", "--python", str(_ENVIRONMENT / "bin" / "python")]
    command = [*pip, "install", "--quiet", "--disable-pip-version-check", *options, SUPERVISOR]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
