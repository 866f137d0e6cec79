"""The contract: promises of a server, and what was found when they were tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from stoker.model.facts import Plain

#: For all checks of a start together. A first question may wait minutes for kernels to be compiled.
CONTRACT_TIMEOUT_SECONDS = 300


class Key(StrEnum):
    """Which API key goes with a request; the key itself never stands in one.

    ``NEAR`` is the own key with one more character at its end, ``OTHER_CASE`` the own key with its
    small letters made large and its large ones small; where there is no such key, a wrong one.
    """

    OWN = "own"
    NONE = "none"
    WRONG = "wrong"
    NEAR = "near"
    OTHER_CASE = "other_case"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request to an engine. The key is added by the endpoint and never stands here.

    ``text``: sent as it is in place of a JSON body, for what no client should send. ``client``:
    empty for plain HTTP; else the name of a client library that makes the call, with ``path`` as
    the call and ``body`` as its arguments. ``stop_after_events``: the connection is closed once so
    many events of a stream have come, 0 for never. ``is_new``: an earlier exchange of the same
    request may not stand for this one.
    """

    method: str
    path: str
    body: Mapping[str, Plain] | None = None
    text: str | None = None
    stream: bool = False
    timeout_seconds: float = 60.0
    key: Key = Key.OWN
    stop_after_events: int = 0
    client: str = ""
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and what came back; enough to judge again later without a server.

    ``body`` is the raw text of a plain reply (bytes that are not UTF-8 become U+FFFD and
    ``is_utf8`` is false). ``events`` are the data lines of a streamed reply, in order, without
    the ``data: `` prefix. ``seconds`` is how long all of it took, ``first_seconds`` how long until
    the first byte of content came. ``error`` says why there was no whole reply, empty otherwise,
    and ``error_kind`` which sort it is: ``refused`` (no connection was made), ``tls`` (no trusted
    connection was made), ``timeout`` (the deadline ended it), ``protocol`` (the server broke HTTP
    or a bound) or ``client`` (the client library is not here). A connection that
    ``stop_after_events`` closed is no error. ``tries``: how often it was sent, since a server may
    ask to be asked later; ``retry_after``: when it wants that, in its own words.
    """

    request: Request
    status: int = 0
    media_type: str = ""
    body: str = ""
    events: tuple[str, ...] = ()
    is_utf8: bool = True
    seconds: float = 0.0
    first_seconds: float = 0.0
    error: str = ""
    error_kind: str = ""
    tries: int = 1
    retry_after: str = ""


class Feature(StrEnum):
    """What a server may or may not offer; a check names those that it needs."""

    KEY = "key"
    TOOLS = "tools"
    NAMED_TOOLS = "named_tools"
    REASONING = "reasoning"
    THINKING_SWITCH = "thinking_switch"
    STRUCTURED_OUTPUT = "structured_output"
    REGEX = "regex"
    SPECULATION = "speculation"
    PREFIX_CACHE = "prefix_cache"
    HOST_CACHE = "host_cache"
    VISION = "vision"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"


class Offer(StrEnum):
    """How a feature stands: it must work, it may, or it surely is not there."""

    PROMISED = "promised"
    OPEN = "open"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """How a feature stands and why, as half a sentence (``--tool-call-parser is kimi_k2``)."""

    offer: Offer = Offer.OPEN
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Where an engine tells how its speculation goes, as names of metrics.

    ``accepted`` and ``drafts`` are counters of accepted tokens and of the drafts that they were of;
    ``length`` is a gauge of the tokens per step. ``off``: fields of a request that switch it off.
    """

    accepted: tuple[str, ...] = ()
    drafts: tuple[str, ...] = ()
    length: tuple[str, ...] = ()
    off: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How an engine does what the interface leaves open. The defaults fit an unknown one.

    ``answers_any_model``: whether a request that names another model is answered all the same;
    ``keeps_seed``: whether a seed makes an answer repeat; None for both: unknown. ``open_paths``
    are answered without the key although one is set. ``running`` are gauges of the requests that
    are being computed. ``regex_path``: the dotted path of a request's field for a regular
    expression, empty where there is none. ``thinking_off``: fields of a request that ask for an
    answer without thoughts. ``stumbles_on``: malformed requests that it answers with a server
    error, by the names of the check of malformed requests; no setting changes it.
    """

    engine: str = ""
    title: str = "an unknown engine"
    answers_any_model: bool | None = None
    keeps_seed: bool | None = None
    open_paths: tuple[str, ...] = ("/health",)
    health_paths: tuple[str, ...] = ("/health",)
    metrics_path: str = "/metrics"
    running: tuple[str, ...] = ()
    regex_path: str = ""
    thinking_off: Mapping[str, Plain] = field(
        default_factory=lambda: {"chat_template_kwargs": {"enable_thinking": False}}
    )
    acceptance: Acceptance = field(default_factory=Acceptance)
    stumbles_on: tuple[str, ...] = ("a JSON array",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The server under trial, as far as it is known before the first question.

    ``context_tokens`` is what one request may hold, prompt and answer together; ``kv_tokens`` what
    the cache on the device holds. A feature that is not listed is open. ``is_name_declared``: the
    owner of the server chose the name; false where it is only what the server calls itself.
    """

    SCHEMA: ClassVar[str] = "contract-subject/1"

    published_name: str
    aliases: tuple[str, ...] = ()
    manners: Manners = field(default_factory=Manners)
    context_tokens: int | None = None
    parallel_requests: int | None = None
    kv_tokens: int | None = None
    features: Mapping[str, Offered] = field(default_factory=dict)
    is_name_declared: bool = True

    def offered(self, feature: Feature) -> Offered:
        """How a feature stands."""
        return self.features.get(feature, Offered())

    def promises(self, feature: Feature) -> bool:
        """Whether a feature must work."""
        return self.offered(feature).offer is Offer.PROMISED


class Verdict(StrEnum):
    """Never just two answers."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What would keep a promise: a sentence and, where it is one, a key of the deployment file."""

    text: str
    key: str = ""
    value: Plain = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One promise: what was expected, what was found.

    ``symptom`` is the name of what is wrong, the same on every server, with ``details`` beside it;
    remedies are found by it.
    """

    check: str
    title: str
    verdict: Verdict
    expected: str
    found: str
    symptom: str = ""
    details: Mapping[str, Plain] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryAnswer:
    """One question that was asked again and again under load, and how it was answered."""

    at_seconds: float
    verdict: Verdict
    first_seconds: float
    seconds: float
    parallel: int
    found: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCheck:
    """All that one check saw, whole, and what it said of it."""

    check: str
    verdict: Verdict
    exchanges: tuple[Exchange, ...]
    symptom: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A trial that can be judged again without a server. ``engine`` names it for persons.

    ``name``, ``url``, ``level`` and ``cut_short`` are those of the verification that it was.
    """

    SCHEMA: ClassVar[str] = "contract-recording/1"

    engine: str
    subject: Subject
    checks: tuple[RecordedCheck, ...]
    name: str = ""
    url: str = ""
    level: str = "quick"
    cut_short: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """All checks of one level against one server.

    ``process`` and ``digest`` tie the result to the very process that answered; a restarted
    process is not verified by it. Both are empty when the server is not ours. ``notes`` are
    sentences on how it was tried: what was contradicted, waited for or left out. ``cut_short`` says
    in few words why not all was tried that was to be, empty where it was.
    """

    SCHEMA: ClassVar[str] = "verification/1"

    name: str
    url: str
    level: str
    results: tuple[CheckResult, ...]
    process: str = ""
    digest: str = ""
    at_seconds: float = 0.0
    answer: str = ""
    engine: str = ""
    history: tuple[CanaryAnswer, ...] = ()
    notes: tuple[str, ...] = ()
    cut_short: str = ""

    @property
    def has_passed(self) -> bool:
        """Every promise was kept or could not apply, and at least one was kept."""
        verdicts = {result.verdict for result in self.results}
        return Verdict.PASSED in verdicts and not verdicts & {Verdict.FAILED, Verdict.ERROR}
