"""The state folder: made, closed, or refused."""

from __future__ import annotations

import pytest

from stoker.errors import StateError
from stoker.model.layout import state_path
from stoker.model.plan import Folders
from stoker.state.folder import check_state_folder, open_state_folder
from tests.fakes.host import MemoryHost

FOLDERS = Folders(state="/s/stoker", environments="/e", models="/m", services="/v")


def open_it(host: MemoryHost) -> str:
    mark = open_state_folder(host, FOLDERS, me="root", version="1", new_key="ab" * 32)
    return mark.secret_key


def test_it_is_made_closed_and_found_again() -> None:
    host = MemoryHost()
    assert not check_state_folder(host, FOLDERS, me="root")
    key = open_it(host)
    stat = host.stat(FOLDERS.state)
    assert stat is not None
    assert stat.mode == 0o700
    mark = open_state_folder(host, FOLDERS, me="root", version="2", new_key="cd" * 32)
    assert mark.secret_key == key


def test_an_empty_folder_is_taken_and_closed() -> None:
    host = MemoryHost()
    host.put_folder(FOLDERS.state, mode=0o755)
    open_it(host)
    stat = host.stat(FOLDERS.state)
    assert stat is not None
    assert stat.mode == 0o700


def test_a_folder_of_somebody_is_left_alone() -> None:
    host = MemoryHost({f"{FOLDERS.state}/letter.txt": "dear"})
    before = host.snapshot()
    with pytest.raises(StateError, match="is not a state folder"):
        open_it(host)
    assert host.snapshot() == before


def test_another_owner_is_refused() -> None:
    host = MemoryHost(users=("root", "eve"))
    host.put_folder(FOLDERS.state, owner="eve")
    with pytest.raises(StateError, match="belongs to eve"):
        open_it(host)


def test_a_file_in_its_place_is_refused() -> None:
    with pytest.raises(StateError, match="not a folder"):
        open_it(MemoryHost({FOLDERS.state: "x"}))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "state/99"}', '{"schema": "plan/1"}'])
def test_a_damaged_mark_is_refused_with_its_place(text: str) -> None:
    host = MemoryHost({state_path(FOLDERS): text})
    host.set_mode(FOLDERS.state, 0o700)
    with pytest.raises(StateError):
        open_it(host)


def test_a_folder_that_cannot_be_written_says_so() -> None:
    host = MemoryHost()
    host.denied.add("/s")
    with pytest.raises(StateError, match="/s/stoker"):
        open_it(host)
