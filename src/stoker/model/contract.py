"""The contract: promises of a server, and what was found when they were tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from stoker.model.facts import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request to an engine. The key is added by the endpoint and never stands here."""

    method: str
    path: str
    body: Mapping[str, Plain] | None = None
    stream: bool = False
    timeout_seconds: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and what came back; enough to judge again later without a server.

    ``body`` is the raw text of a plain reply (bytes that are not UTF-8 become U+FFFD and
    ``is_utf8`` is false). ``events`` are the data lines of a streamed reply, in order, without
    the ``data: `` prefix. ``error`` says why there was no whole reply, empty otherwise, and
    ``error_kind`` which sort it is: ``refused`` (no connection was made), ``timeout`` (the
    deadline ended it) or ``protocol`` (the server broke HTTP or a bound).
    """

    request: Request
    status: int = 0
    body: str = ""
    events: tuple[str, ...] = ()
    is_utf8: bool = True
    seconds: float = 0.0
    error: str = ""
    error_kind: str = ""


class Verdict(StrEnum):
    """Never just two answers."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One promise: what was expected, what was found."""

    check: str
    title: str
    verdict: Verdict
    expected: str
    found: str
    exchanges: tuple[Exchange, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """All checks of one level against one server.

    ``process`` and ``digest`` tie the result to the very process that answered; a restarted
    process is not verified by it. Both are empty when the server is not ours.
    """

    SCHEMA: ClassVar[str] = "verification/1"

    name: str
    url: str
    level: str
    results: tuple[CheckResult, ...]
    process: str = ""
    digest: str = ""
    at_seconds: float = 0.0
    answer: str = field(default="")

    @property
    def has_passed(self) -> bool:
        """Every promise was kept or could not apply, and at least one was kept."""
        verdicts = {result.verdict for result in self.results}
        return Verdict.PASSED in verdicts and not verdicts & {Verdict.FAILED, Verdict.ERROR}
