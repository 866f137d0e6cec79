"""Real environments, made once for all tests of this folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builds.recipes import LLAMACPP, SUPERVISORD, make
from tests.preparing.machine import ListedEvents, folders_in


@pytest.fixture(scope="session")
def open_place() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    place = Path(tempfile.mkdtemp(prefix="stoker-builds-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def supervisord(open_place: Path) -> str:
    """A real environment of the supervisor."""
    return make(SUPERVISORD, folders_in(open_place))


@pytest.fixture(scope="session")
def engine(open_place: Path) -> tuple[str, ListedEvents]:
    """A real environment of the engine, in a place with a blank in its name."""
    events = ListedEvents()
    return make(LLAMACPP, folders_in(open_place / "two words"), events=events), events
