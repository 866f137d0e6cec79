"""A Python with the hub's client, made once and kept."""

from __future__ import annotations

import subprocess
import venv

import pytest

from tests.preparing.machine import PIP, PROJECT

CLIENT = "huggingface_hub==2.4.0"


@pytest.fixture(scope="session")
def hub_python() -> str:
    """A Python that has the hub's client; made once and kept."""
    place = PROJECT / ".cache" / "hub-venv"
    python = place / "bin" / "python"
    check = [str(python), "-c", "import huggingface_hub"]
    if not python.exists() or subprocess.run(check, check=False).returncode:
        venv.create(place, clear=True)
        made = subprocess.run([*PIP, "--python", python, "install", "--quiet", CLIENT], check=False)
        if made.returncode:
            pytest.skip("the hub's client cannot be installed here")
    return str(python)
