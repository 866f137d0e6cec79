"""An engine's own file of settings (YAML or JSON): each key is a flag.

Called by :mod:`stoker.recipes.notes.manifest`. Which engine it is for is told, or follows from the
names of its keys where one engine alone has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from stoker.knowledge.servers import Server, Started, load_servers
from stoker.model.facts import Plain
from stoker.recipes.notes.excerpt import Excerpt, Found
from stoker.recipes.notes.flag_names import known_kinds, open_book
from stoker.recipes.notes.invocation import Invocation
from stoker.recipes.notes.shell import Command, Word
from stoker.recipes.notes.text import harmless

#: The least part of a file's keys that must be flags of an engine.
_KNOWN_ENOUGH = 0.8


def read_settings(data: Mapping[str, Plain], line: int, *, kind: str | None) -> Excerpt:
    """The flags of a file; nothing where it is for no engine, or may be for several."""
    kind = kind or _guess_kind(data)
    if kind is None:
        return Excerpt()
    words = tuple(_words(data))
    started = Started(interpreter="", program="", module="", words=())
    title = next((form.title for form in load_servers().form if form.kind == kind), kind)
    server = Server(
        kind=kind, title=title, started=started, flags=tuple(word.text for word in words)
    )
    command = Command(words=words, line=line)
    found = Found(
        invocation=Invocation(server=server, command=command), place="file of settings", line=line
    )
    return Excerpt(found=(found,))


def _guess_kind(data: Mapping[str, Plain]) -> str | None:
    """The engine of which most keys are flags; None where that is not one alone."""
    shares = {kind: _share(data, kind) for kind in known_kinds()}
    best = [kind for kind, share in shares.items() if share == max(shares.values())]
    return best[0] if len(best) == 1 and shares[best[0]] >= _KNOWN_ENOUGH else None


def _share(data: Mapping[str, Plain], kind: str) -> float:
    book = open_book(kind)
    known = [key for key in data if book.resolve(f"--{key}").flag is not None]
    return len(known) / len(data) if data else 0.0


def _words(data: Mapping[str, Plain]) -> Iterator[Word]:
    for key, value in data.items():
        if value is None or value is False:
            continue
        yield Word(text=f"--{harmless(key)}")
        if value is True:
            continue
        for item in value if isinstance(value, list) else [value]:
            yield Word(text=_text(item))


def _text(value: Plain) -> str:
    if isinstance(value, (Mapping, list)):
        return harmless(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
    return harmless(str(value))
