"""What systemd itself has written about a unit: read from its journal with journalctl.

Called by the adapter beside it when a start fails before the service's own program runs, and for
whoever asks. The service's output goes to its own log, so what is here is the manager's. A
machine without a journal, or one that this user may not read, has nothing to say.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stoker.errors import HostError
from stoker.ports import Command, ReadableHost
from stoker.supervisors.logs import flatten

_PROGRAM = "journalctl"
_SECONDS = 10.0
#: syslog(3): LOG_ERR.
_ERROR_PRIORITY = 3
_MICROSECONDS = 1_000_000
#: The present start of a unit, in messages about a unit of the machine and of a user.
_START_KEYS = ("INVOCATION_ID", "USER_INVOCATION_ID")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One line of systemd. ``start`` names the start of the unit that it is about."""

    text: str
    seconds: float
    is_error: bool
    start: str

    def __str__(self) -> str:
        """The line with its time."""
        return f"{datetime.fromtimestamp(self.seconds, UTC):%Y-%m-%dT%H:%M:%SZ} {self.text}"


def read_journal(
    host: ReadableHost, unit: str, *, user_id: int, line_count: int
) -> tuple[Message, ...]:
    """The last messages about a unit, oldest first; none where they cannot be read.

    ``user_id``: of the user whose manager has it, 0 for the machine's. Nobody else is listened to.
    """
    if host.find_command(_PROGRAM) is None or line_count < 1:
        return ()
    # What a manager's child says before it becomes the service is not found by --unit, where the
    # child has ended before the journal could see to which unit it belonged.
    field = "USER_UNIT" if user_id else "UNIT"
    matches = (f"{field}={unit}", f"_UID={user_id}")
    # Whoever was told of a failure shall find it there: what has been written so far is waited for.
    _run(host, "--sync")
    found = _run(host, f"--lines={line_count}", "--output=json", "--no-pager", "--quiet", *matches)
    return tuple(parse_journal(found))


def parse_journal(text: str) -> Iterator[Message]:
    """The messages in journalctl's JSON, one object a line; what is none of that is left out."""
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "MESSAGE" in row:
            yield _parse_row(row)


def last_errors(messages: Iterable[Message]) -> tuple[str, ...]:
    """What went wrong with the last start that there are messages about."""
    found = [*messages]
    start = next((each.start for each in reversed(found) if each.start), "")
    texts = [each.text for each in found if each.is_error and each.start == start]
    return tuple(dict.fromkeys(texts))


def _run(host: ReadableHost, *options: str) -> str:
    command = Command(
        argv=(_PROGRAM, *options),
        timeout_seconds=_SECONDS,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    try:
        return host.run(command).stdout
    except HostError:
        return ""


def _parse_row(row: dict[str, Any]) -> Message:
    start = next((row[key] for key in _START_KEYS if isinstance(row.get(key), str)), "")
    return Message(
        text=flatten(_text(row["MESSAGE"])),
        seconds=_number(row.get("__REALTIME_TIMESTAMP")) / _MICROSECONDS,
        is_error=_number(row.get("PRIORITY", "6")) <= _ERROR_PRIORITY,
        start=start,
    )


def _text(value: object) -> str:
    """A field's text; journalctl gives one that is not printable UTF-8 as a list of bytes."""
    if isinstance(value, list) and all(isinstance(each, int) and 0 <= each < 256 for each in value):
        return bytes(value).decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 18 else 0
