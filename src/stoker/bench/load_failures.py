"""What goes wrong under a load, and what follows from it: a pause, or the end of the load.

Called by :mod:`stoker.bench.load`. Pure: all moments are handed in. A server that fails is not
hammered, and one that never answers is not asked for as long as the load was to take.
"""

from __future__ import annotations

import os
import ssl

#: A place that got an error waits so long before it asks again.
_PAUSE_SECONDS = 0.25
#: A load ends when so many errors, and nothing else for so long, have come; at once where nothing
#: else ever came.
_LEAST_FAILURES, _GIVE_UP_SECONDS = 8, 10.0
#: A server that asks to wait for longer is not waited for: the load would measure the waiting.
_LONGEST_WAIT_SECONDS = 60.0


class Failures:
    """The failures of one load. ``in_a_row``: since the last whole answer. ``wait_seconds``: the
    longest that the server asked to wait for."""

    def __init__(self, concurrency: int) -> None:
        self.count = self.in_a_row = 0
        self.wait_seconds = 0.0
        self._most_in_a_row = max(_LEAST_FAILURES, concurrency)
        self._answered_at = 0.0
        self._was_answered = False
        self._last = ""

    def begin(self, now: float) -> None:
        """The load begins."""
        self._answered_at = now

    def note_answer(self, now: float) -> None:
        """A whole answer has come."""
        self.in_a_row, self._answered_at, self._was_answered = 0, now, True

    def note_failure(self, why: str) -> None:
        """Something failed."""
        self.count += 1
        self.in_a_row += 1
        self._last = why

    def note_wait(self, retry_after: bytes) -> float:
        """How long to wait before the next request: what the server asks for in whole seconds (a
        date is not heeded), or a moment."""
        asked = float(retry_after) if retry_after.isdigit() and len(retry_after) < 9 else 0.0
        self.wait_seconds = max(self.wait_seconds, asked)
        return max(min(asked, _LONGEST_WAIT_SECONDS), _PAUSE_SECONDS)

    def find_end(self, now: float) -> str:
        """Why the load should end, empty where it should not."""
        if self.wait_seconds > _LONGEST_WAIT_SECONDS:
            return (
                f"ended early: the server asked to wait {self.wait_seconds:g} s before the next "
                f"request; the last error: {self._last}"
            )
        is_hopeless = not self._was_answered or now - self._answered_at > _GIVE_UP_SECONDS
        if self.in_a_row < self._most_in_a_row or not is_hopeless:
            return ""
        return (
            f"ended early: nothing but errors ({self.in_a_row:,} in a row); the last: {self._last}"
        )


def say_why(error: BaseException) -> str:
    """Why a connection was not made, in the system's own words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or error})"
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or "no answer in time"
