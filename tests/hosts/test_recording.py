"""What is remembered of a host, what never is, and what a replay makes of bad memories."""

from __future__ import annotations

import copy
import json
import sys
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import AccessDenied, HostError, NotFound
from stoker.hosts.recording import WITHHELD, RecordingHost
from stoker.hosts.replay import ReplayHost
from stoker.ports import Command, CommandResult, ReadableHost
from tests.fakes.host import MemoryHost

LS = Command(argv=("/bin/ls", "-l"), timeout_seconds=5, env={"TOKEN": "hunter2"})


def make_host() -> MemoryHost:
    return MemoryHost(
        {
            "/etc/keys/api": "hunter2",
            "/etc/keys-of-others": "open",
            "/proc/7/environ": "KEY=hunter2",
            "/proc/7/task/8/environ": "KEY=hunter2",
            "/proc/7/cmdline": "server\0--api-key\0hunter2",
            "/proc/7/comm": "server",
            "/data/model": "0123456789",
        },
        {LS.argv: "total 0\n"},
        name="far",
    )


def read_much(host: RecordingHost) -> None:
    host.read_text("/proc/7/comm")
    host.read_bytes("/data/model", 2, 6)
    host.list_folder("/etc")
    host.stat("/data/model")
    host.stat("/missing")
    host.free_bytes("/data")
    host.find_command("ls")
    host.run(LS)
    for path in ("/missing", "/etc"):
        with suppress(HostError):
            host.read_text(path)


def test_a_record_is_plain_data_of_a_named_schema() -> None:
    host = RecordingHost(make_host())
    read_much(host)
    record = host.record()
    assert json.loads(json.dumps(record)) == record
    assert (record["schema"], record["host"]) == ("recording/1", "far")


def test_no_secret_is_recorded_though_it_is_read() -> None:
    host = RecordingHost(make_host(), withheld=["/etc/keys/"])
    for path in (
        "/etc/keys/api",
        "/etc/keys/../keys/api",
        "/proc/7/environ",
        "/proc/7/task/8/environ",
        "/proc/7/cmdline",
    ):
        assert "hunter2" in host.read_text(path)
        assert b"hunter2" in host.read_bytes(path, 0, 99)
    host.run(LS)
    assert "hunter2" not in json.dumps(host.record())
    assert "aHVudGVyM" not in json.dumps(host.record()), "nor as base64"
    replay = ReplayHost(host.record())
    assert replay.read_text("/etc/keys/api") == WITHHELD
    assert replay.read_bytes("/etc/keys/api", 0, 99) == WITHHELD.encode()


def test_a_path_that_only_begins_like_a_withheld_one_is_recorded() -> None:
    host = RecordingHost(make_host(), withheld=["/etc/keys"])
    host.read_text("/etc/keys-of-others")
    assert ReplayHost(host.record()).read_text("/etc/keys-of-others") == "open"


def test_what_was_never_recorded_is_not_found() -> None:
    replay = ReplayHost(RecordingHost(make_host()).record())
    with pytest.raises(NotFound, match="the recording of far has nothing about /proc/7/comm"):
        replay.read_text("/proc/7/comm")
    with pytest.raises(NotFound, match="nothing about /bin/ls -l"):
        replay.run(LS)
    with pytest.raises(NotFound):
        replay.stat("/proc/7/comm")


def test_a_longer_read_answers_shorter_ones_and_not_the_other_way() -> None:
    host = RecordingHost(make_host())
    host.read_bytes("/data/model", 2, 6)
    host.read_text("/data/model", 4)
    host.read_text("/proc/7/comm", 4096)
    replay = ReplayHost(host.record())
    assert replay.read_bytes("/data/model", 3, 2) == b"34"
    assert replay.read_text("/data/model", 2) == "01"
    assert replay.read_text("/proc/7/comm", 1 << 20) == "server", "it was read whole"
    for ask in (
        lambda: replay.read_bytes("/data/model", 3, 6),
        lambda: replay.read_text("/data/model", 5),
    ):
        with pytest.raises(NotFound):
            ask()


def test_the_last_answer_counts() -> None:
    memory = make_host()
    host = RecordingHost(memory)
    host.read_text("/proc/7/comm")
    memory.denied.add("/proc/7")
    with pytest.raises(AccessDenied):
        host.read_text("/proc/7/comm")
    with pytest.raises(AccessDenied, match="/proc/7"):
        ReplayHost(host.record()).read_text("/proc/7/comm")


def test_a_child_of_our_own_interpreter_is_found_where_that_lies_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = RecordingHost(MemoryHost(commands={(sys.executable, "-m", "reader"): "answer"}))

    def ask(readable: ReadableHost) -> CommandResult:
        argv = (sys.executable, "-m", "reader")
        return readable.run(Command(argv=argv, timeout_seconds=5, env={}))

    assert ask(host).stdout == "answer"
    monkeypatch.setattr(sys, "executable", "/opt/elsewhere/python3")
    found = ask(ReplayHost(host.record()))
    assert (found.stdout, found.argv[0]) == ("answer", "/opt/elsewhere/python3")


def test_an_interrupted_read_leaves_no_entry() -> None:
    memory = make_host()
    host = RecordingHost(memory)

    def interrupt(*_: str) -> None:
        raise KeyboardInterrupt

    memory.fuse = interrupt
    with pytest.raises(KeyboardInterrupt):
        host.run(LS)
    assert host.record()["runs"] == []


@pytest.mark.parametrize("recording", [{}, {"schema": "recording/2", "host": "a"}])
def test_other_data_is_no_recording(recording: dict[str, Any]) -> None:
    with pytest.raises(HostError, match="not a recording"):
        ReplayHost(recording)


@given(st.data())
def test_a_damaged_recording_raises_nothing_but_host_errors(data: st.DataObject) -> None:
    host = RecordingHost(make_host())
    read_much(host)
    record = copy.deepcopy(host.record())
    values: st.SearchStrategy[object] = st.one_of(
        st.none(), st.integers(), st.text(), st.lists(st.integers()), st.just({})
    )
    kind = data.draw(st.sampled_from(["texts", "bytes", "folders", "stats", "runs", "commands"]))
    entry = data.draw(st.sampled_from([*record[kind], record]))
    place = data.draw(st.sampled_from(sorted(entry)))
    if isinstance(entry[place], dict) and entry[place]:
        entry, place = entry[place], data.draw(st.sampled_from(sorted(entry[place])))
    entry[place] = data.draw(values)
    with suppress(HostError):
        replay = ReplayHost(record)
        for ask in (
            lambda: replay.read_text("/proc/7/comm"),
            lambda: replay.read_text("/missing"),
            lambda: replay.read_bytes("/data/model", 2, 6),
            lambda: replay.list_folder("/etc"),
            lambda: replay.stat("/data/model"),
            lambda: replay.run(LS),
            lambda: replay.find_command("ls"),
        ):
            with suppress(HostError):
                ask()
