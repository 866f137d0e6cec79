"""Under which names a model may be known: from the reference, its folder, its config and its card.

Called where a checkpoint is described (:mod:`stoker.knowledge.derived.checkpoint`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from stoker.knowledge.model_types import load_quantization_words
from stoker.model.facts import Plain

#: How the hub's client lays out what it fetched: models--ORG--NAME/snapshots/COMMIT.
_SNAPSHOT = re.compile(
    r"/models--(?P<org>[^/]+?)--(?P<name>[^/]+)/snapshots/(?P<commit>[0-9a-f]{40})(?:/|$)"
)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_PART = re.compile(r"[A-Za-z0-9][\w.-]{0,95}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MOST_NAMES = 16
#: Folders that hold models, and so are no makers of any.
_NO_ORG = frozenset({"models", "model", "weights", "snapshots", "data", "hub", "tmp", "srv", "opt"})


def find_names(reference: str, value: Mapping[str, Plain]) -> dict[str, Plain]:
    """``names``: candidates like "moonshotai/Kimi-K2.5", the surest first; a folder's bare name is
    one as well. ``base_names``: models that the card says it was made from. ``commit``: of the
    hub, None where neither the reference nor the path tells it. ``named_quantization``: what the
    names promise in the words of a checkpoint, None where they promise nothing."""
    names = list(dict.fromkeys(_candidates(reference, value)))
    card = value.get("card")
    bases = card.get("base_models") if isinstance(card, Mapping) else ()
    return {
        "names": names[:_MOST_NAMES],
        "base_names": [name for name in bases or () if isinstance(name, str)][:_MOST_NAMES],
        "commit": _find_commit(reference, value),
        "named_quantization": _find_word(names),
    }


def _find_word(names: Sequence[str]) -> str | None:
    words = load_quantization_words().names
    parts = (part for name in names for part in re.split(r"[-_./]", name.lower()))
    return next((words[part] for part in parts if part in words), None)


def _candidates(reference: str, value: Mapping[str, Plain]) -> Iterator[str]:
    kind, _, rest = reference.partition(":")
    if kind == "hf":
        yield rest.partition("@")[0]
    elif kind == "package":
        yield rest.partition("==")[0]
    path = _path(reference, value)
    snapshot = _SNAPSHOT.search(path)
    if snapshot:
        yield f"{snapshot['org']}/{snapshot['name']}"
    yield from _from_config(value.get("config"))
    if not snapshot:
        yield from _from_path(path)
    name = value.get("name")
    if isinstance(name, str) and name.strip():
        yield name.strip()[:_MOST_CHARACTERS]


_MOST_CHARACTERS = 192


def _from_config(config: Plain) -> Iterator[str]:
    named = config.get("_name_or_path") if isinstance(config, Mapping) else None
    if isinstance(named, str) and _NAME.fullmatch(named):
        yield named


def _from_path(path: str) -> Iterator[str]:
    parts = [part for part in path.split("/") if part]
    if (
        len(parts) >= 2
        and parts[-2].lower() not in _NO_ORG
        and all(map(_PART.fullmatch, parts[-2:]))
    ):
        yield "/".join(parts[-2:])
    if parts:
        yield parts[-1].removesuffix(".gguf").removesuffix(".safetensors")


def _find_commit(reference: str, value: Mapping[str, Plain]) -> str | None:
    revision = reference.partition("@")[2] if reference.startswith("hf:") else ""
    if _COMMIT.fullmatch(revision):
        return revision
    snapshot = _SNAPSHOT.search(_path(reference, value))
    return snapshot["commit"] if snapshot else None


def _path(reference: str, value: Mapping[str, Plain]) -> str:
    path = value.get("path")
    if isinstance(path, str) and not reference.startswith(("hf:", "package:")):
        return path
    return reference.removeprefix("path:") if reference.startswith("path:") else ""
