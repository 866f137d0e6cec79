"""What holds for every test: the person's own Stoker is never touched."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Point the state at a folder of this session, and large data at one that is kept.

    STOKER_DATA holds downloads (an engine, a model) that a second run shall not repeat.
    """
    data = os.environ.get("STOKER_DATA") or str(PROJECT / ".cache" / "test-data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STOKER_STATE", str(tmp_path_factory.mktemp("state")))
        patch.setenv("STOKER_DATA", data)
        patch.delenv("STOKER_MODELS", raising=False)
        yield
