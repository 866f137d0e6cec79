"""A log as lines: without colours, progress bars, and the prefixes of whoever carried it.

Called by the commands. Pure: chunks of bytes in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.diagnosis.inputs import LogLine


def read_lines(chunks: Iterable[bytes], origin: str) -> tuple[LogLine, ...]:
    """The lines of a log; text that is no UTF-8 is shown as such."""
    text = b"".join(chunks).decode("utf-8", "replace")
    return tuple(
        LogLine(number=number, text=line, origin=origin)
        for number, line in enumerate(text.splitlines(), 1)
    )
