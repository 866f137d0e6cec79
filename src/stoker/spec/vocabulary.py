"""The keys of a deployment file: which are known where, and which one a wrong key may mean.

Read from the pydantic model, so that it cannot drift. Called where an unknown key is explained
and where a new file is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args

from stoker.model.deployment import Deployment, Part
from stoker.spec.phrases import join_names, nearest
from stoker.spec.plain import Path, dotted

#: What people write who know the thing by another word. Words only: engine flags are not ours.
SYNONYMS: Mapping[str, str] = {
    "address": "serve.host",
    "alias": "serve.published_name",
    "api_key": "serve.api_key_file",
    "autostart": "service.on_boot",
    "backend": "engine.kind",
    "bind": "serve.host",
    "checks": "contract.require",
    "concurrency": "serve.parallel_requests",
    "context": "serve.context_tokens",
    "context_length": "serve.context_tokens",
    "context_size": "serve.context_tokens",
    "devices": "gpus",
    "drafter": "draft",
    "enabled": "service.on_boot",
    "env_vars": "engine.env",
    "flags": "engine.settings",
    "ip": "serve.host",
    "listen": "serve.host",
    "objectives": "goals",
    "options": "engine.settings",
    "replicas": "serve.parallel_requests",
    "server": "serve",
    "slots": "serve.parallel_requests",
    "source": "model.ref",
    "timeout": "service.start_timeout_seconds",
    "type": "engine.kind",
    "variables": "engine.env",
    "weights": "model",
}


def find_part(path: Path) -> type[Part] | None:
    """The part of the file at this path, None where there is no group of known keys."""
    part: type[Part] | None = Deployment
    for name in path:
        if isinstance(name, int):
            continue  # the items of a list have the keys that the list's field names
        known = part.model_fields if part else {}
        part = _part_of(known[name].annotation) if name in known else None
    return part


def _part_of(annotation: Any) -> type[Part] | None:
    """The part in a field's type, also where it is optional or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    parts = (_part_of(argument) for argument in get_args(annotation))
    return next((part for part in parts if part), None)


def explain_unknown_key(path: Path) -> tuple[str, str]:
    """A sentence about the unknown key at the end of the path, and a hint, maybe empty."""
    key, parent = str(path[-1]), dotted(path[:-1])
    meant = guess_keys(path)
    if not meant:
        part = find_part(path[:-1])
        return (
            f"unknown key `{key}`",
            f"known keys here: {', '.join(part.model_fields if part else ())}",
        )
    group, _, name = meant[0].rpartition(".")
    if meant == [key] and group:
        return f"unknown key `{key}`", f"write `{name}: ...` on a line below `{group}:`, indented"
    if name == key:
        homes = [_home(guess) for guess in meant]
        return f"unknown key `{key}` here; it belongs {join_names(homes, 'or')}", ""
    shown = name if group == parent else meant[0]
    return f"unknown key `{key}`; did you mean `{shown}`?", ""


def guess_keys(path: Path) -> list[str]:
    """The known keys, as dotted paths, that an unknown one may mean; several of one name only."""
    key, parent = str(path[-1]), path[:-1]
    if key in every_key():
        return [key]
    if elsewhere := [place for place in every_key() if place.rpartition(".")[2] == key]:
        return elsewhere
    part = find_part(parent)
    if near := nearest(key, part.model_fields if part else ()):
        return [dotted((*parent, near))]
    meant = SYNONYMS.get(key.lower().replace("-", "_"), "")
    return [meant] if meant else []


def _home(place: str) -> str:
    parent = place.rpartition(".")[0]
    return f"under `{parent}`" if parent else "at the left margin"


@cache
def every_key() -> tuple[str, ...]:
    """All known keys as dotted paths."""
    return tuple(_walk(Deployment, ""))


def _walk(part: type[Part], prefix: str) -> Iterator[str]:
    for name, about in part.model_fields.items():
        yield f"{prefix}{name}"
        if inner := _part_of(about.annotation):
            yield from _walk(inner, f"{prefix}{name}.")
