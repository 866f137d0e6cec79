"""The real engine and the real model of these tests, made once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.engines.environment import ensure_environment, ensure_model


@pytest.fixture(scope="session")
def environment() -> Path:
    try:
        return ensure_environment()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"no environment of the engine can be made here: {error}")


@pytest.fixture(scope="session")
def model() -> Path:
    try:
        return ensure_model()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"the model cannot be fetched here: {error}")
