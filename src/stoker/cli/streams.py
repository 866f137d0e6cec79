"""Standard streams that may be closed, full or left by their reader.

What was done is done, whether anybody reads of it or not; the exit code says it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def write_or_drop(stream: TextIO, text: str) -> bool:
    """Write at once; whether it could be. After a failure the stream leads nowhere.

    Otherwise what is left in its buffer would fail again when the interpreter ends, which ends
    the program with a code of its own.
    """
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True


def open_closed_streams() -> None:
    """Give /dev/null to standard streams that we were started without (`>&-`).

    Otherwise the next file that is opened would get their numbers, and be written to.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
