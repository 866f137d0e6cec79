"""The one hierarchy of errors: broken expectations of the operator.

Answers of the world (a failed check, a fired rule, a fact nobody could read) are values, not
errors. Every error here carries one clear sentence, an optional hint that says what to do, and
the exit code of the documented table. Nothing in this module prints, logs or exits; only the
command line and the web layer turn an error into words for a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong in a file: where it is, what it is, what would mend it.

    ``line`` and ``column`` count from 1; both are 0 where the place is not known.
    ``path`` is the dotted path of the value (``serve.port``), empty for the whole file.
    """

    message: str
    path: str = ""
    line: int = 0
    column: int = 0
    hint: str = ""


class StokerError(Exception):
    """The root: one sentence, a hint, and the exit code it ends the program with."""

    exit_code = 1

    def __init__(self, summary: str, hint: str = "") -> None:
        super().__init__(summary)
        self.summary = summary
        self.hint = hint


class UsageError(StokerError):
    """The command was asked for something it cannot do as it was asked."""

    exit_code = 2


class SpecError(StokerError):
    """A deployment file is wrong; all of its problems at once."""

    exit_code = 2

    def __init__(self, origin: str, problems: Sequence[Problem]) -> None:
        count = len(problems)
        noun = "problem" if count == 1 else "problems"
        super().__init__(f"{origin}: {count} {noun} in the deployment file")
        self.origin = origin
        self.problems = tuple(problems)


class StateError(StokerError):
    """The state folder cannot be used: another owner, read-only, unreadable document."""

    exit_code = 2


class DataError(StokerError):
    """A data file of our own package is malformed: a bug of ours."""

    exit_code = 1


class Blocked(StokerError):
    """Rules forbid this plan; ``reasons`` are the sentences of the findings that block it."""

    exit_code = 3

    def __init__(self, summary: str, reasons: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(summary, hint)
        self.reasons = tuple(reasons)


class StalePlan(StokerError):
    """The host or the file changed since the plan was made."""

    exit_code = 3

    def __init__(self, differences: Sequence[str]) -> None:
        super().__init__(
            "this plan is stale: the host or the file changed since it was made",
            "run `stoker plan` again and read what it shows now",
        )
        self.differences = tuple(differences)


class ContractFailed(StokerError):
    """A running server breaks a promise of its contract."""

    exit_code = 5


class LockHeld(StokerError):
    """Another Stoker works on the same state folder."""

    exit_code = 6


class HostError(StokerError):
    """A read, a write or a command on the host failed where it was expected to work."""

    exit_code = 7


class NotFound(HostError):
    """The path does not exist."""


class AccessDenied(HostError):
    """The path exists, but this user may not read, write or enter it."""


class NoSpace(HostError):
    """The file system is full."""


class SupervisorError(StokerError):
    """The service manager refused or failed."""

    exit_code = 7


class EndpointError(StokerError):
    """The engine's HTTP server could not be talked to. ``kind``: refused, timeout, protocol."""

    exit_code = 5

    def __init__(self, kind: str, summary: str, hint: str = "") -> None:
        super().__init__(summary, hint)
        self.kind = kind


class PreparationFailed(StokerError):
    """Something that comes before any change failed (a download, an environment)."""

    exit_code = 7


class ApplyFailed(StokerError):
    """A change or an activation failed and the host was rolled back to what it was."""

    exit_code = 7


class Interrupted(StokerError):
    """Ctrl-C or a polite signal while the host was being changed; says how the host stands."""

    exit_code = 130


class RollbackFailed(StokerError):
    """The roll-back failed too: the host is between two states, and ``left`` says where."""

    exit_code = 8

    def __init__(self, summary: str, left: Sequence[str], hint: str = "") -> None:
        super().__init__(summary, hint)
        self.left = tuple(left)
