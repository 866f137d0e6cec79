from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.hosts.recording import RecordingHost
from stoker.ports import ReadableHost
from tests.hosts.worlds import LocalWorld, MemoryWorld, ReplayedReader, World


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own lies below a private one."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def local_world(open_folder: Path) -> Iterator[LocalWorld]:
    world = LocalWorld(open_folder)
    yield world
    world.close()


@pytest.fixture
def memory_world() -> MemoryWorld:
    return MemoryWorld()


@pytest.fixture(params=["local", "memory"])
def world(request: pytest.FixtureRequest) -> World:
    """Every adapter of the whole port."""
    found: World = request.getfixturevalue(f"{request.param}_world")
    return found


@pytest.fixture(params=["direct", "recording", "replay"])
def reader(request: pytest.FixtureRequest, world: World) -> ReadableHost:
    """Every adapter of the reading half, in the same world."""
    if request.param == "recording":
        return RecordingHost(world.host)
    return ReplayedReader(world.host) if request.param == "replay" else world.host
