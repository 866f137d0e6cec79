"""Promise: without the key the server answers nobody, and with a wrong one neither.

Engines guard some of their paths and leave others open. What an open path tells strangers is said;
one that computes answers for them, or shows what others asked, breaks the promise, unless the
engine is known to leave it open whatever is set: then it is said, for it can be closed in front of
the server alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stoker.contract.completion import ask
from stoker.contract.errors import is_error_event
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.procedure import Steps, ask_each, ask_one, judge_of, plan_of
from stoker.contract.published import LIST
from stoker.contract.reply import describe_status, find_reply_flaw, parse_json
from stoker.model.contract import Exchange, Feature, Key, Request, Subject
from stoker.model.facts import Plain
from stoker.ports import Check

_EXPECTED = "HTTP 401 or 403 without the key and with a wrong one"
_REFUSED = (401, 403)
_NAMES = {
    Key.NONE: "without a key",
    Key.WRONG: "with a wrong key",
    Key.NEAR: "with the key and one more character",
    Key.OTHER_CASE: "with the key in letters of the other case",
    Key.OWN: "with the key",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Door:
    """Another path that an engine may have. ``gives``: what a stranger gets by it, empty for
    figures and settings alone."""

    path: str
    gives: str = ""
    body: dict[str, Plain] | None = None


def _doors(model: str) -> tuple[_Door, ...]:
    """Paths that were seen on SGLang 0.5.23, vLLM 0.32.0 and llama.cpp b11549."""
    answers, prompts = "computes answers", "shows what others asked"
    chat = dict(ask(model, max_tokens=1).body or {})
    words: dict[str, Plain] = {"prompt": "One", "n_predict": 1, "max_tokens": 1}
    thing: dict[str, Plain] = {"input": "One", "max_output_tokens": 16}
    text: dict[str, Plain] = {"text": "One", "sampling_params": {"max_new_tokens": 1}}
    return (
        _Door(path="/v1/completions", gives=answers, body={"model": model, **words}),
        _Door(path="/v1/responses", gives=answers, body={"model": model, **thing}),
        _Door(path="/v1/messages", gives=answers, body=chat),
        _Door(path="/completion", gives=answers, body=words),
        _Door(path="/generate", gives=answers, body=text),
        _Door(path="/invocations", gives=answers, body=chat),
        _Door(path="/slots", gives=prompts),
        _Door(path="/metrics"),
        _Door(path="/props"),
        _Door(path="/server_info"),
    )


def _try(subject: Subject) -> Steps[Judgement]:
    model = subject.published_name
    chat = ask(model, max_tokens=1)
    guarded = yield from ask_each(
        [replace(each, key=key) for each in (LIST, chat) for key in (Key.NONE, Key.WRONG)]
    )
    owned = yield from ask_each([LIST, chat])
    if not subject.promises(Feature.KEY) and all(each.status == 200 for each in guarded):
        return skipped(_EXPECTED, "the server answers everybody: no key is set")
    flaw = _first(map(_find_guard_flaw, guarded)) or _first(map(_find_own_flaw, owned))
    if flaw:
        return flaw
    # A server that guards the plain question may look at another part of it only.
    guarded += yield from ask_each(_ask_otherwise(model, chat))
    flaw = _first(map(_find_guard_flaw, guarded))
    if flaw:
        return flaw
    return (yield from _try_doors(subject, guarded))


def _ask_otherwise(model: str, chat: Request) -> list[Request]:
    """The question with keys that are nearly right, and as a stream."""
    stream = ask(model, stream=True, max_tokens=1)
    near = [replace(chat, key=key) for key in (Key.NEAR, Key.OTHER_CASE)]
    streamed = [replace(stream, key=key) for key in (Key.NONE, Key.WRONG, Key.NEAR)]
    return [*near, *streamed, replace(LIST, key=Key.NEAR)]


def _try_doors(subject: Subject, guarded: Sequence[Exchange]) -> Steps[Judgement]:
    notes: list[str] = []
    for door in _doors(subject.published_name):
        exchange = yield from _ask_at(door)
        if exchange.status != 200 or _has_error(exchange):
            continue
        if door.gives and door.path not in subject.manners.open_paths:
            return _tell_open(exchange, door.gives)
        notes.append(f"{door.path} ({door.gives})" if door.gives else door.path)
    told = f"; open to everybody all the same: {', '.join(notes)}" if notes else ""
    return passed(_EXPECTED, f"{', '.join(sorted(_statuses(guarded)))}{told}")


def _ask_at(door: _Door) -> Steps[Exchange]:
    """The first answer that a stranger gets there, else the last refusal."""
    exchange = yield from ask_one(_knock(door, Key.NONE))
    if exchange.status not in _REFUSED or door.body is None:
        return exchange
    # A path that wants some key must not take any, nor stream without one.
    for knock in (_knock(door, Key.WRONG), _knock(door, Key.NONE, stream=True)):
        exchange = yield from ask_one(knock)
        if exchange.status == 200:
            break
    return exchange


def _first(flaws: Iterable[Judgement | None]) -> Judgement | None:
    return next(filter(None, flaws), None)


def _knock(door: _Door, key: Key, *, stream: bool = False) -> Request:
    method = "GET" if door.body is None else "POST"
    body = {**(door.body or {}), "stream": True} if stream else door.body
    return Request(method=method, path=door.path, body=body, key=key, stream=stream)


def _has_error(exchange: Exchange) -> bool:
    """Whether a stream has begun, and told an error in place of an answer."""
    return any(is_error_event(parse_json(event)) for event in exchange.events)


def _statuses(exchanges: Sequence[Exchange]) -> set[str]:
    return {f"HTTP {exchange.status}" for exchange in exchanges}


def _find_guard_flaw(exchange: Exchange) -> Judgement | None:
    """Why a request without the right key was not turned away, None if it was."""
    if exchange.error:
        return find_reply_flaw(exchange)
    if exchange.status in _REFUSED:
        return None
    if exchange.status == 200 and not _has_error(exchange):
        return _tell_open(exchange, "answers")
    where = _name_request(exchange.request)
    found = f"{describe_status(exchange)} from {where}"
    return failed(_EXPECTED, found, "key_refusal_unclear", status=exchange.status)


def _tell_open(exchange: Exchange, gives: str) -> Judgement:
    path, key = exchange.request.path, exchange.request.key
    streamed = " as a stream" if exchange.request.stream else ""
    found = f"{path} {gives}{streamed} {_NAMES[key]}"
    return failed(_EXPECTED, found, "open_without_key", path=path, key=str(key))


def _name_request(request: Request) -> str:
    streamed = " as a stream" if request.stream else ""
    return f"{request.path}{streamed} {_NAMES[request.key]}"


def _find_own_flaw(exchange: Exchange) -> Judgement | None:
    flaw = find_reply_flaw(exchange)
    return flaw and replace(flaw, expected=f"{flaw.expected} {_NAMES[Key.OWN]}")


CHECK = Check(
    id="key_required",
    title="Nobody is answered without the key",
    level="quick",
    plan=plan_of(_try),
    judge=judge_of(_try),
    needs=(Feature.KEY,),
)
