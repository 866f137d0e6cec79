"""Trials that did not see everything, and recordings that somebody else may have changed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.commands.recording import (
    LIMIT_BYTES,
    NOT_WHOLE,
    judge_recording,
    read_recording,
    write_recording,
)
from stoker.commands.verify import Wish, verify_target
from stoker.endpoints.limited import MOST_BREACHES, LimitedEndpoint
from stoker.errors import UsageError
from stoker.fake_engine.server import EngineServer
from stoker.hosts.local import LocalHost
from stoker.model.contract import Exchange, RecordedCheck, Recording, Request, Subject, Verdict
from stoker.report.verification_text import render_verification
from tests.endpoints.raw_server import read_request, serving
from tests.laws.worlds import FakeClock, Machine

pytestmark = pytest.mark.timeout(60)
PATH = "/root/recording.json"
REQUEST = Request(method="GET", path="/")


def recorded(**fields: Any) -> Recording:
    return Recording(engine="e", subject=Subject(published_name="m"), checks=(), **fields)


def last_line(recording: Recording) -> str:
    return render_verification(judge_recording(recording)).splitlines()[-1]


# --- recordings ---


@pytest.mark.parametrize("level", ["\x1b[2J", "quikc", ""])
def test_a_level_that_is_none(level: str) -> None:
    machine = Machine()
    write_recording(machine.host, _place(machine), recorded(level=level))
    with pytest.raises(UsageError, match="there is no level") as caught:
        read_recording(machine.host, PATH)
    assert "\x1b" not in caught.value.summary


def _place(machine: Machine) -> str:
    machine.host.put_folder("/root")
    return PATH


@pytest.mark.parametrize("name", ["context_tokens", "kv_tokens", "parallel_requests"])
@pytest.mark.parametrize("value", [-5, 0, 10**30])
def test_figures_that_no_server_has(name: str, value: int) -> None:
    machine = Machine()
    fields: dict[str, Any] = {name: value}
    subject = replace(Subject(published_name="m"), **fields)
    write_recording(machine.host, _place(machine), replace(recorded(), subject=subject))
    with pytest.raises(UsageError, match=name):
        read_recording(machine.host, PATH)


def test_what_is_no_regular_file_or_too_large_is_not_opened(tmp_path: Path) -> None:
    fifo, large = tmp_path / "fifo", tmp_path / "large"
    os.mkfifo(fifo)
    large.touch()
    os.truncate(large, LIMIT_BYTES + 1)
    for path, words in ((fifo, "no regular file"), (large, "larger than 64 MiB")):
        with pytest.raises(UsageError, match=words):
            read_recording(LocalHost(), str(path))


def test_it_is_ascii_and_reads_back() -> None:
    machine = Machine()
    text = "\u202e\u009b31m\x7f\U0001f600 \u4e2d"
    exchange = Exchange(request=REQUEST, status=200, body=text)
    check = RecordedCheck(check="gone", verdict=Verdict.PASSED, exchanges=(exchange,))
    write_recording(machine.host, _place(machine), replace(recorded(), checks=(check,)))
    raw = machine.host.read_bytes(PATH, 0, 1 << 20)
    assert all(each == 0x0A or 0x20 <= each < 0x7F for each in raw)
    assert read_recording(machine.host, PATH).checks[0].exchanges[0].body == text


def test_one_that_was_cut_is_not_verified() -> None:
    machine = Machine()
    _place(machine)
    only = ("chat_answer", "stream_ends_done")
    with EngineServer() as server:
        wish = Wish(target=f"http://127.0.0.1:{server.port}", only=only, record=PATH)
        verify_target(machine.world(), wish)
    recording = read_recording(machine.host, PATH)
    assert last_line(recording).startswith("verified")
    first, second = recording.checks
    cut = replace(recording, checks=(first, replace(second, exchanges=second.exchanges[:1])))
    assert NOT_WHOLE in last_line(cut)
    assert last_line(replace(recording, cut_short="interrupted")).startswith("interrupted: 2 of 2")


# --- servers that break the same bound again and again ---


class Scripted:
    """Answers each request with the next error, and then without one."""

    url = "http://127.0.0.1:1"

    def __init__(self, *errors: str) -> None:
        self.errors = list(errors)
        self.asked = 0

    def exchange(self, request: Request) -> Exchange:
        """See :class:`stoker.ports.Endpoint`."""
        self.asked += 1
        return Exchange(request=request, error=self.errors.pop(0) if self.errors else "")


LARGE = "the reply is larger than 8 MiB"
PACKED = "the reply is packed (gzip)"


@pytest.mark.parametrize(
    ("errors", "asked"),
    [
        ((LARGE, LARGE, LARGE), MOST_BREACHES),
        ((LARGE, PACKED, PACKED, PACKED), 4),
        ((LARGE, LARGE, "", LARGE), 10),
        ((LARGE, LARGE, PACKED, PACKED), 10),
        (("no whole reply within 1 s",) * 5, 10),
    ],
)
def test_three_running_are_enough(errors: tuple[str, ...], asked: int) -> None:
    server = Scripted(*errors)
    limited = LimitedEndpoint(server, FakeClock(), 100.0)
    for _ in range(10):
        limited.exchange(REQUEST)
    assert server.asked == asked
    assert bool(limited.given_up) == (asked < 10)


def test_such_a_trial_ends_early_and_says_so() -> None:
    packed = b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b"
    models = b'{"data": [{"id": "m"}]}'
    plain = b"Content-Length: %d\r\n\r\n" % len(models) + models
    asked: list[bytes] = []

    def script(connection: Any, ended: Any) -> None:
        asked.append(read_request(connection))
        content = plain if asked[-1].startswith(b"GET") else packed
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + content)

    with serving(script) as port:
        wish = Wish(target=f"http://127.0.0.1:{port}")
        found = verify_target(Machine().world(), wish).verification
    assert sum(each.startswith(b"POST") for each in asked) == MOST_BREACHES
    assert found.results[-1].verdict is Verdict.SKIPPED
    assert any("3 times running the reply is packed" in note for note in found.notes)
    assert render_verification(found).splitlines()[-1].startswith("NOT verified, ended early: ")
