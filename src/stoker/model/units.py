"""Small pure readings of bytes, digests, JSON and process identities.

Called from everywhere, so that one thing has one spelling: a size as a person reads it, a digest,
the one JSON text of a value, the name of one very process. Never reads or writes anything.
"""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal

from stoker.model.facts import Plain

_BINARY_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

#: Where the start time stands in /proc/PID/stat, counted from the field after the command's name
#: (proc_pid_stat(5): field 22 of the whole line; the state, field 3, is the first after the name).
_START_TICKS_AFTER_NAME = 19


def write_word(value: Plain) -> str | None:
    """A value as a command line carries it; None for a bare flag (``true`` or nothing).

    A number has the shortest digits that mean it, without an exponent: ``0.00001``, ``4096``.
    """
    if value is None or value is True:
        return None
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    return str(value)


def format_bytes(count_bytes: int) -> str:
    """A size for a person: ``93.8 MiB``; whole bytes below one KiB."""
    if abs(count_bytes) < 1024:
        return f"{count_bytes} B"
    size, unit = float(count_bytes), "B"
    for name in _BINARY_UNITS:
        size, unit = size / 1024, name
        if abs(size) < 1023.95:  # would be shown as 1024.0 of this unit
            break
    return f"{size:.1f} {unit}"


def digest_bytes(content: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest_text(text: str) -> str:
    """The SHA-256 of a text's UTF-8, in hexadecimal.

    Names of files that are not UTF-8 come with lone surrogates; they have a digest too.
    """
    return digest_bytes(text.encode("utf-8", "surrogatepass"))


def canonical_json(value: Plain) -> str:
    """The one JSON text of a value: sorted keys, no blanks, not escaped.

    Raises ValueError for numbers that JSON does not know (infinity, not-a-number) and TypeError
    for what is not JSON-shaped.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def parse_process_identity(stat_text: str, pid: int) -> str:
    """``PID:START`` from the text of /proc/PID/stat, START in clock ticks since boot.

    The command's name stands in brackets and may itself hold brackets, blanks and line ends, so
    the fields are counted from the last bracket. Raises ValueError for any other text.
    """
    _, bracket, rest = stat_text.rpartition(")")
    fields = rest.split()
    if not bracket or len(fields) <= _START_TICKS_AFTER_NAME:
        raise ValueError(f"this is not the status line of a process: {stat_text[:80]!r}")
    start_ticks = fields[_START_TICKS_AFTER_NAME]
    if not (start_ticks.isascii() and start_ticks.isdigit()):
        raise ValueError(f"a process cannot have started at {start_ticks!r}")
    return f"{pid}:{start_ticks}"
