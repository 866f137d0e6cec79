"""What is read out of journalctl's JSON, whatever stands in it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stoker.ports import Command, CommandResult
from stoker.supervisors.systemd_journal import last_errors, parse_journal, read_journal
from tests.fakes.host import MemoryHost


def row(text: Any, **fields: Any) -> str:
    return json.dumps({"MESSAGE": text, "__REALTIME_TIMESTAMP": "1700000000000000", **fields})


def test_messages_have_their_time_and_their_words() -> None:
    (message,) = parse_journal(row("Failed at step EXEC", PRIORITY="3", INVOCATION_ID="a"))
    assert str(message) == "2023-11-14T22:13:20Z Failed at step EXEC"
    assert (message.is_error, message.start) == (True, "a")


def test_bytes_and_control_characters_harm_nobody() -> None:
    lines = [row([27, 91, 51, 49, 109, 104, 105]), row("a\x1b[2J\nb\u202ec"), row([1, "x"])]
    assert [each.text for each in parse_journal("\n".join(lines))] == ["[31mhi", "a [2J b c", ""]


@given(st.text(max_size=200) | st.recursive(st.none() | st.integers(), st.lists).map(json.dumps))
def test_nothing_breaks_it(text: str) -> None:
    for message in parse_journal(text):
        assert str(message).isprintable()


@given(st.dictionaries(st.sampled_from(["PRIORITY", "INVOCATION_ID"]), st.text() | st.integers()))
def test_strange_fields_break_nothing(fields: dict[str, Any]) -> None:
    (message,) = parse_journal(row("text", **fields))
    assert message.text == "text"


def test_only_the_last_start_is_told_of() -> None:
    lines = [
        row("old failure", PRIORITY="3", INVOCATION_ID="a"),
        row("Starting", PRIORITY="6", INVOCATION_ID="b"),
        row("new failure", PRIORITY="3", INVOCATION_ID="b"),
        row("new failure", PRIORITY="3", INVOCATION_ID="b"),
        row("Reloading", PRIORITY="6"),
    ]
    assert last_errors(parse_journal("\n".join(lines))) == ("new failure",)
    assert last_errors(()) == ()


def test_one_user_listens_to_that_users_manager_alone() -> None:
    asked: list[tuple[str, ...]] = []

    def answer(command: Command) -> CommandResult:
        asked.append(command.argv)
        return CommandResult(argv=(), exit_status=0, stdout=row("hello"), stderr="")

    host = MemoryHost(commands=answer)
    assert read_journal(host, "a.service", user_id=0, line_count=5) == ()
    assert asked == [], "there is no journalctl"
    host.put("/usr/bin/journalctl", "", mode=0o755)
    (message,) = read_journal(host, "a.service", user_id=1000, line_count=5)
    assert message.text == "hello"
    assert asked[0] == ("journalctl", "--sync")
    assert asked[1][-2:] == ("USER_UNIT=a.service", "_UID=1000")
    read_journal(host, "a.service", user_id=0, line_count=5)
    assert asked[-1][-2:] == ("UNIT=a.service", "_UID=0")
