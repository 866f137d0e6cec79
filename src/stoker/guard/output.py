"""The engine's output: passed on byte for byte, and cut into lines for the guard.

:mod:`stoker.guard.run` runs :func:`pump` in a thread of its own, so that a reader of the guard's
output that stands still holds up the engine's log, as it would without a guard, but not the guard.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

#: Longer lines are judged by their beginning.
LINE_BYTES = 4096
_READ_BYTES = 1 << 16

#: Progress bars end their lines with a carriage return alone.
_LINE_END = re.compile(rb"[\r\n]+")

Hear = Callable[[tuple[str, ...]], None]


def pump(source: int, target: int, hear: Hear) -> None:
    """Copy until the source ends, and hand over the lines of each piece as they come.

    A target that can no longer be written is given up, and the source is read on: an engine must
    not die of a broken pipe behind its guard.
    """
    rest, is_open = b"", True
    while piece := _read(source):
        is_open = is_open and _write_all(target, piece)
        lines, rest = cut_lines(rest + piece)
        if lines:
            hear(lines)
    if rest:
        hear((_decode(rest),))


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
