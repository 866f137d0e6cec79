"""The documented exit codes, in one table. An unknown code must be treated as failure."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How the program ends. docs/reference/exit-codes.md is checked against this."""

    DONE = 0
    BUG = 1
    USAGE = 2
    BLOCKED = 3
    CHANGES_PENDING = 4
    DIFFERENT = 4  # the same code under the name that `diff` gives it
    CONTRACT_FAILED = 5
    LOCK_HELD = 6
    ROLLED_BACK = 7
    NOT_ROLLED_BACK = 8
    INTERRUPTED = 130
