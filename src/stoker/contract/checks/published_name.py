"""Promise: the model is listed under its published name, and replies do not name a file instead.

Clients choose the model by this name. An engine that was not told a name publishes the path of
its weights, which breaks clients and tells strangers about the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from stoker.contract.completion import ask
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.plans import in_order
from stoker.contract.reply import find_reply_flaw, parse_json
from stoker.model.contract import Exchange, Request, Subject
from stoker.model.facts import Plain, read_path
from stoker.ports import Check

_LIST_PATH = "/v1/models"
_PATH_STARTS = ("/", "./", "../", "~/")
_WEIGHT_SUFFIXES = (".gguf", ".safetensors")
_SHOWN_NAMES = 5


def _requests(subject: Subject) -> Sequence[Request]:
    # One token is enough to see the name that the reply carries.
    return (Request(method="GET", path=_LIST_PATH), ask(subject.published_name, max_tokens=1))


def _judge(subject: Subject, exchanges: Sequence[Exchange]) -> Judgement:
    published_name = subject.published_name
    listing, reply = exchanges
    names = _read_names(parse_json(listing.body))
    expected = f"the name {published_name} in {_LIST_PATH}"
    return (
        find_reply_flaw(listing)
        or (None if published_name in names else failed(expected, _describe(names, listing.body)))
        or _find_echo_flaw(published_name, reply)
        or passed(expected, quote(published_name))
    )


def _read_names(body: Plain) -> tuple[str, ...]:
    """Ids and aliases in the order of the list, each once; none where there is no list."""
    models = read_path(body, "data")
    names: list[Plain] = []
    for model in models if isinstance(models, list) else ():
        aliases = read_path(model, "aliases")
        names += [read_path(model, "id"), *(aliases if isinstance(aliases, list) else ())]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def _describe(names: tuple[str, ...], body: str) -> str:
    if not names:
        return f"no model in {quote(body)}"
    rest = len(names) - _SHOWN_NAMES
    more = f" and {rest} more" if rest > 0 else ""
    return f"only {', '.join(map(quote, names[:_SHOWN_NAMES]))}{more}"


def _find_echo_flaw(published_name: str, reply: Exchange) -> Judgement | None:
    """Engines may echo any name, but a path is a leak. A failed reply is not for us to judge."""
    body = parse_json(reply.body)
    if find_reply_flaw(reply) or not isinstance(body, dict):
        return None
    expected = f"replies that name the model {published_name}"
    model = body.get("model")
    if not isinstance(model, str):
        return failed(expected, f"the name {quote(model)}, which is no text")
    if model != published_name and _is_path(model):
        return failed(expected, f"a reply that names the file {quote(model)}")
    return None


def _is_path(name: str) -> bool:
    return name.startswith(_PATH_STARTS) or PurePosixPath(name).suffix in _WEIGHT_SUFFIXES


CHECK = Check(
    id="published_name",
    title="The model is published under its name",
    level="quick",
    plan=in_order(_requests),
    judge=_judge,
)
