"""What `--record` and `--junit` may write: a new file or one of their own, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.commands.output_file import OutputKind, check_output, write_output
from stoker.commands.recording import KIND
from stoker.commands.verify import JUNIT, Wish, replay, verify_target, write_junit
from stoker.errors import HostError, UsageError
from stoker.fake_engine.server import EngineServer
from stoker.hosts.local import LocalHost
from tests.laws.worlds import Machine

KINDS = pytest.mark.parametrize("kind", [KIND, JUNIT], ids=lambda kind: kind.title)
HOST = LocalHost()
FOLDER = "/root"


def machine() -> Machine:
    made = Machine()
    made.host.put_folder(FOLDER)
    return made


@KINDS
def test_a_new_file_and_one_of_ours_may_be_written(kind: OutputKind, tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    assert check_output(HOST, path, kind) is False
    write_output(HOST, path, kind.mark, kind)
    assert check_output(HOST, path, kind) is True


@KINDS
@pytest.mark.parametrize(
    "what", ["fifo", "link to a fifo", "folder", "stranger", "dangling link", "no folder"]
)
def test_nothing_else_is_and_it_stays_as_it_was(
    kind: OutputKind, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    match what:
        case "fifo":
            path = fifo
        case "link to a fifo":
            path.symlink_to(fifo)
        case "folder":
            path.mkdir()
        case "stranger":
            path.write_text("mine")
        case "dangling link":
            path.symlink_to(tmp_path / "nowhere")
        case _:
            path = tmp_path / "missing" / "a"
    before = sorted((each.name, os.lstat(each).st_mode) for each in tmp_path.iterdir())
    for act in (
        lambda: check_output(HOST, str(path), kind),
        lambda: write_output(HOST, str(path), kind.mark, kind),
    ):
        with pytest.raises(UsageError):
            act()
    assert sorted((each.name, os.lstat(each).st_mode) for each in tmp_path.iterdir()) == before


@pytest.mark.parametrize("option", ["record", "junit"])
def test_a_bad_place_is_told_before_anything_is_asked(option: str) -> None:
    with EngineServer() as server:
        url = f"http://127.0.0.1:{server.port}"
        wish = Wish(target=url, **{option: "/nowhere/a"})  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="there is no folder"):
            verify_target(machine().world(), wish)
    assert server.asked == []


def test_both_cannot_be_one_file() -> None:
    wish = Wish(target="http://127.0.0.1:1", record="/root/a", junit="/root/./a")
    with pytest.raises(UsageError, match="the same file"):
        verify_target(machine().world(), wish)


def test_a_replay_writes_no_stranger_either() -> None:
    made = machine()
    made.host.put("/root/mine", "mine")
    with pytest.raises(UsageError, match="no JUnit file"):
        replay(made.world(), "/root/a", junit="/root/mine")


def test_what_could_not_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made = machine()

    def full(path: str, content: bytes, mode: int, owner: str = "") -> None:
        raise HostError("no space is left")

    monkeypatch.setattr(made.host, "write_file", full)
    with EngineServer() as server:
        wish = Wish(
            target=f"http://127.0.0.1:{server.port}", only=("chat_answer",), record="/root/a"
        )
        tried = write_junit(made.world(), verify_target(made.world(), wish), "/root/b")
    assert tried.verification.has_passed
    assert tried.unwritten == ("/root/a", "/root/b")
    assert any("/root/b could not be written: no space" in x for x in tried.verification.notes)
