"""A trial as a document: writing it down while it runs, and judging it again without a server.

Called by `stoker verify --record` and `--replay`. What is written holds no secret, as far as one
can see from outside: the key never stands in an exchange, and whatever has the looks of one is
taken out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from stoker.commands.folders import absolute_path
from stoker.contract.evidence import keep_evidence, read_text
from stoker.contract.run import ANSWER_CHECK, find_absence, judge_check, was_refused
from stoker.contract.selection import LEVELS, discover_checks
from stoker.errors import HostError, NotFound, StateError, UsageError
from stoker.model.contract import (
    CheckResult,
    Exchange,
    RecordedCheck,
    Recording,
    Request,
    Verdict,
    Verification,
)
from stoker.model.document import parse_document, render_document
from stoker.model.facts import Plain
from stoker.ports import Check, Host, ReadableHost

RECORDING_MODE = 0o600
LIMIT_BYTES = 256 << 20
REDACTED = "[redacted]"

#: What has the looks of a secret: behind `Bearer`, as a value of a key that is named so, or by its
#: own first letters.
_SECRETS = re.compile(
    r"(?P<before>\bbearer\s+|\\?\"[a-z_]*(?:api_?key|secret|password|access_token)\\?\"\s*:\s*\\?\")"
    r"[^\s\"\\]+"
    r"|\b(?:sk|hf|ghp|nvapi)[-_][A-Za-z0-9_-]{16,}",
    re.IGNORECASE,
)


def redact_text(text: str) -> str:
    """The text without what has the looks of a secret."""
    return _SECRETS.sub(lambda found: (found["before"] or "") + REDACTED, text)


def redact(exchange: Exchange) -> Exchange:
    """The exchange without what has the looks of a secret, in the request and in the reply."""
    request = exchange.request
    body = _redact_plain(request.body) if request.body is not None else None
    text = redact_text(request.text) if request.text is not None else None
    return replace(
        exchange,
        request=replace(request, body=body, text=text),
        body=redact_text(exchange.body),
        events=tuple(map(redact_text, exchange.events)),
        error=redact_text(exchange.error),
    )


def _redact_plain(value: Plain) -> Plain:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {key: _redact_plain(each) for key, each in value.items()}
    return [_redact_plain(each) for each in value] if isinstance(value, list) else value


class Recorder:
    """Keeps all that every check saw, within a bound."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES // 2) -> None:
        self._left_bytes = limit_bytes
        self._checks: list[RecordedCheck] = []
        self.left_out: list[str] = []

    def keep(self, recorded: RecordedCheck) -> None:
        """Take one check; one that would be too much is left out, and named in ``left_out``."""
        size = sum(map(_size_bytes, recorded.exchanges))
        if size > self._left_bytes:
            self.left_out.append(recorded.check)
            return
        self._left_bytes -= size
        exchanges = tuple(map(redact, recorded.exchanges))
        self._checks.append(replace(recorded, exchanges=exchanges))

    @property
    def checks(self) -> tuple[RecordedCheck, ...]:
        """What was kept, in the order of the trial."""
        return tuple(self._checks)


def _size_bytes(exchange: Exchange) -> int:
    return len(exchange.body) + sum(map(len, exchange.events)) + len(str(exchange.request.body))


# --- the file ---


def check_target(host: ReadableHost, path: str) -> bool:
    """Whether a recording would replace another one.

    Asked before a trial, which may take long. Raises UsageError for a file that is no recording.
    """
    absolute = absolute_path(path)
    try:
        stat = host.stat(absolute)
        head = "" if stat is None or stat.kind != "file" else host.read_text(absolute, 4096)
    except HostError as error:
        raise UsageError(f"{path} cannot be written: {error.summary}", error.hint) from error
    if stat is None:
        return False
    if f'"schema": "{Recording.SCHEMA}"' not in head:
        raise UsageError(
            f"{path} is there already, and is no recording of Stoker's",
            "name another file, or move it away",
        )
    return True


def write_recording(host: Host, path: str, recording: Recording) -> None:
    """Write a recording for its owner alone. Raises HostError."""
    host.write_file(absolute_path(path), render_document(recording).encode(), RECORDING_MODE)


def read_recording(host: ReadableHost, path: str) -> Recording:
    """The recording in a file. Raises UsageError where there is none."""
    try:
        text = host.read_text(absolute_path(path), LIMIT_BYTES)
    except NotFound:
        raise UsageError(f"there is no file {path}", "--replay takes what --record wrote") from None
    except HostError as error:
        raise UsageError(f"{path} cannot be read: {error.summary}", error.hint) from error
    try:
        return parse_document(text, Recording, origin=path)
    except StateError as error:
        raise UsageError(error.summary, error.hint) from error


# --- judging again ---


def judge_recording(recording: Recording, only: Collection[str] = ()) -> Verification:
    """What today's checks say of what was recorded. Promises that are none are skipped again.

    Raises UsageError for a check in ``only`` that is none or was not recorded.
    """
    known = {check.id: check for check in discover_checks()}
    recorded = {each.check: each for each in recording.checks}
    lost = [name for name in only if name not in recorded]
    if lost:
        raise UsageError(
            f"the recording holds no check {lost[0]}", f"it holds: {', '.join(recorded)}"
        )
    results: list[CheckResult] = []
    for check in _in_order(recording, known.values()):
        if only and check.id not in only:
            continue
        if check.id in recorded:
            results.append(_judge(check, recording, recorded[check.id].exchanges))
        elif absence := find_absence(check, recording.subject):
            results.append(_skipped(check, absence))
    answer = recorded.get(ANSWER_CHECK)
    return Verification(
        name=recording.name or recording.engine,
        url=recording.url,
        level=recording.level,
        results=tuple(results),
        answer=read_text(answer.exchanges[0]) if answer and answer.exchanges else "",
        engine=recording.subject.manners.engine,
        notes=tuple(_describe_strangers(recorded.keys() - known.keys())),
    )


def _in_order(recording: Recording, known: Collection[Check]) -> list[Check]:
    """The checks of the recording's level in their usual order, and the others it holds."""
    recorded = {each.check for each in recording.checks}
    level = recording.level if recording.level in LEVELS else LEVELS[-1]
    highest = LEVELS.index(level)
    return [
        check for check in known if check.id in recorded or LEVELS.index(check.level) <= highest
    ]


def _describe_strangers(names: Collection[str]) -> list[str]:
    return [f"the recording holds the check {name}, which this Stoker has not" for name in names]


def _judge(check: Check, recording: Recording, exchanges: Sequence[Exchange]) -> CheckResult:
    if not was_refused(exchanges) and not _fits(check, recording, exchanges):
        return _skipped(
            check,
            "today's check asks other questions than were recorded; record it again",
            expected="the questions that this check asks",
        )
    judgement = judge_check(check, recording.subject, exchanges)
    is_evidence = judgement.verdict in (Verdict.FAILED, Verdict.ERROR)
    return CheckResult(
        check=check.id,
        title=check.title,
        verdict=judgement.verdict,
        expected=judgement.expected,
        found=judgement.found,
        symptom=judgement.symptom,
        details=judgement.details,
        exchanges=keep_evidence(exchanges) if is_evidence else (),
        seconds=sum(exchange.seconds for exchange in exchanges),
    )


def _fits(check: Check, recording: Recording, exchanges: Sequence[Exchange]) -> bool:
    """Whether the check, as it is today, would have asked just this."""
    seen = 0
    while batch := check.plan(recording.subject, exchanges[:seen]):
        asked = [exchange.request for exchange in exchanges[seen : seen + len(batch)]]
        if len(asked) < len(batch) or not all(map(_is_same, batch, asked)):
            return False
        seen += len(batch)
    return seen == len(exchanges)


def _is_same(one: Request, other: Request) -> bool:
    """Whether two requests ask the same, whatever time they were given."""
    plain = replace(one, timeout_seconds=0.0, body=_redact_plain(one.body))
    return plain == replace(other, timeout_seconds=0.0, body=_redact_plain(other.body))


def _skipped(check: Check, found: str, expected: str = "a server that offers it") -> CheckResult:
    return CheckResult(
        check=check.id,
        title=check.title,
        verdict=Verdict.SKIPPED,
        expected=expected,
        found=found,
    )
