"""A trial as a document: writing it down while it runs, and judging it again without a server.

Called by `stoker verify --record` and `--replay`. What is written holds no secret, as far as one
can see from outside: the key never stands in an exchange, and whatever has the looks of one is
taken out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto

from stoker.commands.folders import absolute_path
from stoker.commands.output_file import OutputKind, check_output, write_output
from stoker.contract.evidence import keep_evidence, read_text
from stoker.contract.judgement import quote
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
from stoker.model.visible import visible
from stoker.ports import Check, Host, ReadableHost, Stat

#: Of a file; what is kept of a trial fits in.
LIMIT_BYTES = 64 << 20
_KEPT_BYTES = 48 << 20
#: Above what any server holds.
_MOST_TOKENS = 10**15
#: What the last line says where exchanges are missing.
CUT = "recording_cut"
_WORDS = 80
NOT_WHOLE = "the recording is not whole"
KIND = OutputKind(title="recording", mark=f'"schema": "{Recording.SCHEMA}"', mode=0o600)
REDACTED = "[redacted]"

#: What is not written as it is: all that is not ASCII, and the last control character of ASCII.
_NO_ASCII = re.compile("[^\x00-\x7e]+")
#: The indentation of a text in a file.
_LINE_BYTES = 16

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


def redact_details(details: Mapping[str, Plain]) -> Mapping[str, Plain]:
    """The details of a result without what has the looks of a secret."""
    return {name: _redact_plain(value) for name, value in details.items()}


def _redact_plain(value: Plain) -> Plain:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {key: _redact_plain(each) for key, each in value.items()}
    return [_redact_plain(each) for each in value] if isinstance(value, list) else value


class Recorder:
    """Keeps all that every check saw, within a bound."""

    def __init__(self, limit_bytes: int = _KEPT_BYTES) -> None:
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
    """About so much in a file, where each text is escaped and each event has a line."""
    request = exchange.request
    texts = (exchange.body, exchange.error, request.text or "", *exchange.events)
    asked = 2 * len(json.dumps(request.body)) if request.body is not None else 0
    return asked + sum(len(json.dumps(each)) + _LINE_BYTES for each in texts if each)


# --- the file ---


def check_target(host: ReadableHost, path: str) -> bool:
    """Whether a recording would replace another one. Raises UsageError as check_output does."""
    return check_output(host, path, KIND)


def write_recording(host: Host, path: str, recording: Recording) -> None:
    """Write a recording for its owner alone. Raises HostError, and UsageError as before a trial."""
    write_output(host, path, escape_non_ascii(render_document(recording)), KIND)


def escape_non_ascii(document: str) -> str:
    """A JSON document in ASCII: it says the same, and a terminal takes nothing in it for orders."""
    return _NO_ASCII.sub(
        lambda found: json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f"), document
    )


def read_recording(host: ReadableHost, path: str) -> Recording:
    """The recording in a file. Raises UsageError where there is none."""
    absolute = absolute_path(path)
    try:
        stat = host.stat(absolute)
        if stat is not None:
            _check_readable(path, stat)
        text = host.read_text(absolute, LIMIT_BYTES)
    except NotFound:
        raise UsageError(f"there is no file {path}", "--replay takes what --record wrote") from None
    except HostError as error:
        raise UsageError(f"{path} cannot be read: {error.summary}", error.hint) from error
    try:
        recording = parse_document(text, Recording, origin=path)
    except StateError as error:
        raise UsageError(error.summary, error.hint) from error
    if flaw := _find_flaw(recording):
        raise UsageError(f"{path} is no recording that can be judged: {flaw}", "record it again")
    return recording


def _check_readable(path: str, stat: Stat) -> None:
    """Before it is opened: a device may be read without end. Raises UsageError."""
    if stat.kind != "file":
        raise UsageError(f"{path} is no regular file", "--replay takes what --record wrote")
    if stat.size_bytes > LIMIT_BYTES:
        raise UsageError(
            f"{path} is larger than {LIMIT_BYTES >> 20} MiB, which no recording is",
            "--replay takes what --record wrote",
        )


def _find_flaw(recording: Recording) -> str:
    """What no trial can have written, empty where nothing is: somebody else may have been there."""
    if recording.level not in LEVELS:
        return f"there is no level {quote(recording.level)}"
    for name in ("context_tokens", "parallel_requests", "kv_tokens"):
        value = getattr(recording.subject, name)
        if value is not None and not 0 < value <= _MOST_TOKENS:
            return f"{name} is {quote(value)}"
    return ""


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
            results.append(_judge(check, recording, recorded[check.id]))
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
        cut_short=_describe_cut(recording, results),
    )


def _describe_cut(recording: Recording, results: Sequence[CheckResult]) -> str:
    if recording.cut_short:
        return visible(recording.cut_short)[:_WORDS]
    return NOT_WHOLE if any(each.symptom == CUT for each in results) else ""


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


def _judge(check: Check, recording: Recording, recorded: RecordedCheck) -> CheckResult:
    exchanges = recorded.exchanges
    absence = find_absence(check, recording.subject)
    if absence and not exchanges:
        return _skipped(check, absence)
    fit = _Fit.WHOLE if was_refused(exchanges) else _fits(check, recording, exchanges)
    if not exchanges and recorded.verdict is Verdict.SKIPPED and fit is _Fit.CUT:
        return _skipped(check, "it was not reached", expected="a server that can be reached")
    if fit is not _Fit.WHOLE:
        return _tell_unfit(check, fit)
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


class _Fit(Enum):
    """How what was recorded stands to what the check, as it is today, would have asked."""

    WHOLE = auto()
    CUT = auto()
    OTHER = auto()


def _tell_unfit(check: Check, fit: _Fit) -> CheckResult:
    """Why a check cannot be judged again. What was cut is no promise kept, so it must not pass."""
    expected = "the questions that this check asks"
    if fit is _Fit.OTHER:
        found = "today's check asks other questions than were recorded; record it again"
        return _skipped(check, found, expected)
    found = "fewer exchanges were recorded than this check asks for; record it again"
    broken_off = replace(_skipped(check, found, expected), verdict=Verdict.ERROR)
    return replace(broken_off, symptom=CUT)


def _fits(check: Check, recording: Recording, exchanges: Sequence[Exchange]) -> _Fit:
    """Whether the check, as it is today, would have asked just this."""
    seen = 0
    while batch := check.plan(recording.subject, exchanges[:seen]):
        asked = [exchange.request for exchange in exchanges[seen : seen + len(batch)]]
        if not all(map(_is_same, batch, asked)):
            return _Fit.OTHER
        if len(asked) < len(batch):
            return _Fit.CUT
        seen += len(batch)
    return _Fit.WHOLE if seen == len(exchanges) else _Fit.OTHER


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
