"""What to try next where a start failed: the state of a search for a deployment that serves.

Called by :mod:`stoker.commands.repair`, which makes the starts. Pure: each call takes what is known
so far and gives what is known then, so a search that is cut short anywhere has begun nothing here.

A candidate is the deployment file with some changes. It is tried at most once. Where a trial fails
for the cause that it was to mend, its change goes again and the next repair is tried in its place,
a larger step of the same one first; where it fails for another cause, the change stays and that one
is mended on top of it. What got farther (the engine served and broke a promise) is gone on with
before what did not serve at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.knowledge.repair_consents import load_repair_consents
from stoker.model.diagnosis import Cause, Diagnosis, Gravity, Repair
from stoker.model.facts import Plain
from stoker.model.units import canonical_json

_SETTINGS = "engine.settings."
_ENV = "engine.env."
#: What a repair may change by itself. Everything else is what its owner asked for or what protects
#: him: the model, the contract, findings that he accepted, keys, addresses, users.
_FREE = (
    _SETTINGS,
    _ENV,
    "serve.context_tokens",
    "serve.parallel_requests",
    "service.start_timeout_seconds",
    "service.stall_timeout_seconds",
)
_NOT_FREE = "it changes {key}, which says what is served, to whom, or what is promised"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a search may go on. ``attempts``: repairs that are tried at most. ``seconds``: no
    trial begins later, None for any time. ``consents``: what the owner agreed to, by the kind of
    the cause or by the flag or key that is changed."""

    attempts: int = 5
    seconds: float | None = None
    consents: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The next thing to try: ``changes`` are all that differs from the file, ``base`` those that
    were there before this repair. ``rank`` is that of the failure that it is to mend."""

    cause: Cause
    repair: Repair
    base: Mapping[str, Plain]
    rank: int = 0

    @property
    def changes(self) -> dict[str, Plain]:
        """The earlier changes and those of this repair."""
        return {**self.base, **self.repair.changes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """A repair that was not tried: what it needs its owner's consent for, and how to name it."""

    cause: str
    text: str
    consent: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The end of a search without a deployment that serves.

    ``reason``: attempts, time, unknown (nothing tells a cause), nothing (no repair is left).
    ``withheld`` wait for consent; ``by_hand`` are sentences of repairs that only a person can do.
    """

    reason: str
    text: str
    withheld: tuple[Withheld, ...] = ()
    by_hand: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Failure:
    """A start that failed: what to go on from, how far it came, and what is known of it.

    ``rank``: the highest is mended first; failures by one cause on one base have the same one, and
    of those the earliest knows the order of worth.
    """

    base: Mapping[str, Plain]
    has_served: bool
    diagnosis: Diagnosis
    rank: int = 0


#: The deployment as it would be with some changes, in JSON's shape: two ways to say it are equal.
Changed = Callable[[Mapping[str, Plain]], Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search so far. Begin with :func:`begin_search`."""

    limits: Limits
    failures: tuple[_Failure, ...] = ()
    tried: frozenset[str] = frozenset()
    attempts: int = 0
    latest: Candidate | None = None
    changed: Changed = field(compare=False)


def begin_search(
    diagnosis: Diagnosis, *, limits: Limits, changed: Changed, has_served: bool
) -> Search:
    """After the first start, that of the file itself, failed.

    ``changed`` gives the deployment with some changes. ``has_served``: whether it failed by a
    broken promise rather than by not loading.
    """
    first = _Failure(base={}, has_served=has_served, diagnosis=diagnosis)
    return Search(
        limits=limits,
        failures=(first,),
        tried=frozenset({canonical_json(changed({}))}),
        changed=changed,
    )


def take(search: Search, candidate: Candidate) -> Search:
    """The search once this candidate is being tried: it will not be chosen again, come what may."""
    key = canonical_json(search.changed(candidate.changes))
    return replace(
        search,
        tried=search.tried | {key},
        attempts=search.attempts + 1,
        latest=candidate,
    )


def record_failure(search: Search, diagnosis: Diagnosis | None, *, has_served: bool) -> Search:
    """The search once the candidate that was taken has failed.

    ``diagnosis`` None: it could not even be planned, which tells nothing about the fault.
    """
    candidate = search.latest
    if candidate is None or diagnosis is None:
        return replace(search, latest=None)
    now = next(iter(_list_causes(diagnosis, has_served=has_served)), None)
    rank = 1 + max(failure.rank for failure in search.failures)
    if now is not None and now.kind != candidate.cause.kind:
        found = [_Failure(candidate.changes, has_served, diagnosis, rank)]
    else:
        found = [_Failure(candidate.base, has_served, diagnosis, candidate.rank)]
        further = _only_further(diagnosis, candidate)
        if further is not None:
            found.append(_Failure(candidate.base, has_served, further, rank))
    return replace(search, failures=(*search.failures, *found), latest=None)


def _only_further(diagnosis: Diagnosis, candidate: Candidate) -> Diagnosis | None:
    """The diagnosis with nothing but the next step of the repair that was tried, None without one:
    other values of the same numbers."""
    tried = candidate.repair.changes
    for cause in diagnosis.causes:
        steps = tuple(
            repair
            for repair in cause.repairs
            if cause.kind == candidate.cause.kind
            and repair.changes.keys() == tried.keys()
            and all(_is_number(each) for each in (*repair.changes.values(), *tried.values()))
        )
        if steps:
            return replace(diagnosis, causes=(replace(cause, repairs=steps),))
    return None


def _is_number(value: Plain) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def choose_next(search: Search, *, passed_seconds: float) -> Candidate | Stop:
    """What to try now, or why the search ends."""
    offers = list(_list_offers(search))
    allowed = [each for each in offers if not find_consents(each, search.limits.consents)]
    limits = search.limits
    if not allowed:
        return _stop_without(search, offers)
    if search.attempts >= limits.attempts:
        count = "one repair was" if search.attempts == 1 else f"{search.attempts} repairs were"
        text = f"{count} tried, and no more may be; next would be: {allowed[0].repair.text}"
        return _stop(search, offers, reason="attempts", text=text)
    if limits.seconds is not None and passed_seconds >= limits.seconds:
        text = f"the time for repairs, {limits.seconds / 60:g} minutes, is over"
        text = f"{text}; next would be: {allowed[0].repair.text}"
        return _stop(search, offers, reason="time", text=text)
    return allowed[0]


def find_consents(candidate: Candidate, given: frozenset[str]) -> tuple[str, ...]:
    """What the owner would still have to agree to, as sentences; none for an ordinary repair.

    A row of knowledge asks for it itself; whatever it says, code of others, open doors and what
    lies outside of the engine's own settings are never touched without.
    """
    if candidate.cause.kind in given:
        return ()
    changes = candidate.repair.changes
    unnamed = {key: value for key, value in changes.items() if not {key, _bare(key)} & given}
    asked = [candidate.repair.consent] if candidate.repair.consent and unnamed else []
    for key, value in unnamed.items():
        if not key.startswith(_FREE):
            asked.append(_NOT_FREE.format(key=key))
        if value is not None and value is not False:
            kind = "env" if key.startswith(_ENV) else "flag"
            rows = load_repair_consents()
            asked += [row.reason for row in rows if row.covers(_bare(key), kind, str(value))]
    return tuple(dict.fromkeys(asked))


def _list_offers(search: Search) -> Iterator[Candidate]:
    """All that was not tried: what got farther first, then what was learned last."""
    seen = set(search.tried)
    ordered = sorted(search.failures, key=lambda each: (not each.has_served, -each.rank))
    for candidate in (each for failure in ordered for each in _list_candidates(failure)):
        key = canonical_json(search.changed(candidate.changes))
        if key not in seen:
            seen.add(key)
            yield candidate


def _list_candidates(failure: _Failure) -> Iterator[Candidate]:
    """What would mend a failure by a change, in order of worth."""
    for cause in _list_causes(failure.diagnosis, has_served=failure.has_served):
        for repair in cause.repairs:
            if repair.changes:
                yield Candidate(cause=cause, repair=repair, base=failure.base, rank=failure.rank)


def _list_causes(diagnosis: Diagnosis, *, has_served: bool) -> tuple[Cause, ...]:
    """What ends a start or makes answers wrong, the first cause first.

    Of a server that answers wrongly also what only costs something elsewhere: it may be the cause.
    """
    errors = [cause for cause in diagnosis.causes if cause.gravity is Gravity.ERROR]
    warnings = [cause for cause in diagnosis.causes if cause.gravity is Gravity.WARNING]
    return (*errors, *(warnings if has_served else ()))


def _bare(key: str) -> str:
    return key.removeprefix(_SETTINGS).removeprefix(_ENV)


def _stop_without(search: Search, offers: Sequence[Candidate]) -> Stop:
    causes = [
        cause
        for each in search.failures
        for cause in _list_causes(each.diagnosis, has_served=each.has_served)
    ]
    if not causes:
        told = (each.diagnosis.unknown for each in search.failures)
        said = next(filter(None, told), "nothing that was read tells a cause")
        return _stop(search, offers, reason="unknown", text=f"the cause is not known: {said}")
    by_hand = dict.fromkeys(
        repair.text for cause in causes for repair in cause.repairs if not repair.changes
    )
    if offers:
        text = "what is left to try needs your consent"
    elif by_hand and not search.attempts:
        text = "no change of the deployment file mends this"
    else:
        text = "no repair is left to try"
    return _stop(search, offers, reason="nothing", text=text, by_hand=tuple(by_hand))


def _stop(
    search: Search,
    offers: Sequence[Candidate],
    *,
    reason: str,
    text: str,
    by_hand: tuple[str, ...] = (),
) -> Stop:
    withheld = tuple(
        Withheld(
            cause=each.cause.kind,
            text=each.repair.text,
            consent="; ".join(consents),
            names=tuple(map(_bare, each.repair.changes)),
        )
        for each in offers
        if (consents := find_consents(each, search.limits.consents))
    )
    return Stop(reason=reason, text=text, withheld=withheld, by_hand=by_hand)
