"""Promise: the model is listed under its published name, and replies do not name a file instead.

Clients choose the model by this name, or by an alias. An engine that was not told a name publishes
the path of its weights, which breaks clients and tells strangers about the disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

from stoker.contract.chat import chat, find_form_flaw
from stoker.contract.completion import QUESTION, ask
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.procedure import Steps, ask_each, judge_of, plan_of
from stoker.contract.reply import find_reply_flaw, parse_json
from stoker.model.contract import Exchange, Request, Subject
from stoker.model.facts import Plain, read_path
from stoker.ports import Check

_LIST_PATH = "/v1/models"
_PATH_STARTS = ("/", "./", "../", "~/")
_WEIGHT_SUFFIXES = (".gguf", ".safetensors")
_SHOWN_NAMES = 5


def _procedure(subject: Subject) -> Steps[Judgement]:
    # One token is enough to see the name that the reply carries.
    listing, reply = yield from ask_each(
        [Request(method="GET", path=_LIST_PATH), ask(subject.published_name, max_tokens=1)]
    )
    names = _read_names(parse_json(listing.body))
    expected = f"the name {subject.published_name} in {_LIST_PATH}"
    return (
        find_reply_flaw(listing)
        or _find_absence(subject.published_name, names, listing.body)
        or _find_path(subject)
        or _find_listing_flaw(subject, parse_json(listing.body))
        or _find_echo_flaw(subject, reply)
        or (yield from _try_aliases(subject, names))
        or passed(expected, ", ".join(map(quote, (subject.published_name, *subject.aliases))))
    )


def _read_names(body: Plain) -> tuple[str, ...]:
    """Ids and aliases in the order of the list, each once; none where there is no list."""
    models = read_path(body, "data")
    names: list[Plain] = []
    for model in models if isinstance(models, list) else ():
        aliases = read_path(model, "aliases")
        names += [read_path(model, "id"), *(aliases if isinstance(aliases, list) else ())]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def _find_absence(name: str, names: Collection[str], body: str) -> Judgement | None:
    if name in names:
        return None
    expected, found = f"the name {name} in {_LIST_PATH}", _describe(tuple(names), body)
    return failed(expected, found, "name_not_listed", name=name, listed=list(names)[:_SHOWN_NAMES])


def _describe(names: tuple[str, ...], body: str) -> str:
    if not names:
        return f"no model in {quote(body)}"
    rest = len(names) - _SHOWN_NAMES
    more = f" and {rest} more" if rest > 0 else ""
    return f"only {', '.join(map(quote, names[:_SHOWN_NAMES]))}{more}"


def _find_listing_flaw(subject: Subject, body: Plain) -> Judgement | None:
    """Each id stands once, and none beside the wished names tells of the disk."""
    models = read_path(body, "data")
    found = [read_path(model, "id") for model in (models if isinstance(models, list) else ())]
    ids = [each for each in found if isinstance(each, str)]
    for name, count in Counter(ids).items():
        if count > 1:
            text = f"{count} times {quote(name)}"
            return failed(f"each model once in {_LIST_PATH}", text, "name_twice", name=name)
        if name not in _wished(subject) and name.startswith(_PATH_STARTS):
            text = f"the path {quote(name)}"
            return failed(f"names and no paths in {_LIST_PATH}", text, "path_in_name", name=name)
    return None


def _find_path(subject: Subject) -> Judgement | None:
    """A server that was told no name takes the path of its weights."""
    name = subject.published_name
    if subject.is_name_declared or not _is_path(name):
        return None
    return failed("a name that is no path", f"the file {quote(name)}", "path_in_name", name=name)


def _wished(subject: Subject) -> tuple[str, ...]:
    """A name that is a path is the owner's own wish."""
    return (subject.published_name, *subject.aliases)


def _find_echo_flaw(subject: Subject, reply: Exchange) -> Judgement | None:
    """Engines may echo any name, but a path is a leak. A failed reply is not for us to judge."""
    body = parse_json(reply.body)
    if find_reply_flaw(reply) or not isinstance(body, dict):
        return None
    expected = f"replies that name the model {subject.published_name}"
    model = body.get("model")
    if not isinstance(model, str):
        return failed(expected, f"the name {quote(model)}, which is no text", "wrong_shape")
    if model not in _wished(subject) and _is_path(model):
        found = f"a reply that names the file {quote(model)}"
        return failed(expected, found, "path_in_name", name=model)
    return None


def _is_path(name: str) -> bool:
    return name.startswith(_PATH_STARTS) or PurePosixPath(name).suffix in _WEIGHT_SUFFIXES


def _try_aliases(subject: Subject, names: Sequence[str]) -> Steps[Judgement | None]:
    """An alias that is not listed must answer all the same."""
    aliases = [alias for alias in subject.aliases if alias not in names]
    requests = [chat(subject, QUESTION, max_tokens=1, model=alias) for alias in aliases]
    exchanges = yield from ask_each(requests)
    for alias, exchange in zip(aliases, exchanges, strict=True):
        flaw = find_form_flaw(exchange)
        if flaw and flaw.symptom == "unreachable":
            return flaw
        if flaw:
            found = f"it is not listed, and {flaw.found}"
            return failed(f"the alias {quote(alias)}", found, "alias_missing", name=alias)
    return None


CHECK = Check(
    id="published_name",
    title="The model is published under its name",
    level="quick",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
