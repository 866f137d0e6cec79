"""The engine's output: passed on byte for byte but for secrets, and cut into lines for the guard.

:mod:`stoker.guard.run` runs :func:`pump` in a thread of its own, so that a reader of the guard's
output that stands still holds up the engine's log, as it would without a guard, but not the guard.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence

#: Longer lines are judged by their beginning.
LINE_BYTES = 4096
_READ_BYTES = 1 << 16

#: Progress bars end their lines with a carriage return alone.
_LINE_END = re.compile(rb"[\r\n]+")

#: Shorter ones stand in words that are no secrets.
_LEAST_CHARACTERS = 4
_HIDDEN = b"[hidden]"

Hear = Callable[[tuple[str, ...]], None]


def pump(source: int, target: int, hear: Hear, secrets: Sequence[str] = ()) -> None:
    """Copy until the source ends, and hand over the lines of each piece as they come.

    Engines print the settings that they were started with, their key among them: ``secrets`` are
    hidden. A target that can no longer be written is given up, and the source is read on: an
    engine must not die of a broken pipe behind its guard.
    """
    words = spell_secrets(secrets)
    rest, held, is_open = b"", b"", True
    while piece := _read(source):
        piece, held = hide_secrets(held + piece, words)
        is_open = is_open and _write_all(target, piece)
        lines, rest = cut_lines(rest + piece)
        if lines:
            hear(lines)
    if held:
        is_open = is_open and _write_all(target, held)
    if rest + held:
        hear((_decode(rest + held),))


def spell_secrets(secrets: Sequence[str]) -> tuple[bytes, ...]:
    """How secrets may stand in a log: as they are, and with the escapes of Python and JSON."""
    spelled = {
        form.encode("utf-8", "surrogateescape")
        for secret in secrets
        if len(secret) >= _LEAST_CHARACTERS
        for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1])
    }
    # The longest first: one may be the beginning of another.
    return tuple(sorted(spelled, key=lambda word: (-len(word), word)))


def hide_secrets(data: bytes, words: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The data without these words, and an end of it that may be the beginning of one."""
    for word in words:
        data = data.replace(word, _HIDDEN)
    held = max((_common_end(data, word) for word in words), default=0)
    return (data[:-held], data[-held:]) if held else (data, b"")


def _common_end(data: bytes, word: bytes) -> int:
    """How many bytes at the end of the data are the beginning of the word, but not all of it."""
    lengths = range(min(len(word) - 1, len(data)), 0, -1)
    return next((length for length in lengths if data.endswith(word[:length])), 0)


def cut_lines(data: bytes) -> tuple[tuple[str, ...], bytes]:
    """The whole lines, bounded and without empty ones, and the bounded beginning of the last."""
    *whole, rest = _LINE_END.split(data)
    return tuple(_decode(line) for line in whole if line.strip()), rest[:LINE_BYTES]


def _decode(line: bytes) -> str:
    return line[:LINE_BYTES].decode("utf-8", "replace")


def _read(source: int) -> bytes:
    try:
        return os.read(source, _READ_BYTES)
    except OSError:
        return b""


def _write_all(target: int, data: bytes) -> bool:
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(target, left) :]
    except OSError:
        return False
    return True
