"""The front matter of a model's card: what it was made from, its licence, its tags.

Used by the model probe. The card may come from anybody: only single values and lists of them are
taken from the events of the YAML library, so that no tag becomes an object and no alias grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

_FENCE = "---"
_MOST_CHARACTERS = 32 << 10
_MOST_EVENTS = 10_000
_MOST_ITEMS = 64
_MOST_DEPTH = 32
#: What is kept: a name in the card -> our name, for lists and for single values.
_LISTS = {"base_model": "base_models", "tags": "tags", "language": "languages"}
_WORDS = {
    "license": "license",
    "license_name": "license_name",
    "library_name": "library",
    "pipeline_tag": "pipeline",
    "base_model_relation": "relation",
}


def parse_card(text: str) -> dict[str, Any] | None:
    """``base_models``, ``tags`` and ``languages`` (lists), ``license``, ``library``, ``pipeline``,
    ``relation``; None for a card without front matter that can be read."""
    front = _front_matter(text)
    if front is None:
        return None
    try:
        rows = _read_rows(front)
    except (YAMLError, ValueError, AssertionError, OverflowError):
        return None
    found: dict[str, Any] = {ours: rows.get(name, []) for name, ours in _LISTS.items()}
    for name, ours in _WORDS.items():
        found[ours] = next(iter(rows.get(name, [])), None)
    return found


def _front_matter(text: str) -> str | None:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.startswith(f"{_FENCE}\n"):
        return None
    end = text.find(f"\n{_FENCE}", len(_FENCE))
    return text[len(_FENCE) + 1 : end + 1] if 0 < end <= _MOST_CHARACTERS else None


def _read_rows(text: str) -> dict[str, list[str]]:
    """The single values and the lists of them that stand at the top, each as a list."""
    rows: dict[str, list[str]] = {}
    depth, key, items = 0, "", list[str]()
    for event in _events(text):
        if isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            depth += 1
        elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            depth -= 1
        is_done = depth == 1 and bool(key)
        if isinstance(event, ScalarEvent) and depth == 1 and not key:
            key, items = event.value, []
            continue
        if isinstance(event, ScalarEvent) and depth <= 2 and len(items) < _MOST_ITEMS:
            items.append(event.value[: _MOST_ITEMS * 4])
        if is_done:
            rows[key], key = items, ""
    return rows


def _events(text: str) -> Iterator[Event]:
    depth = 0
    for number, event in enumerate(YAML(typ="safe", pure=True).parse(text)):
        depth += isinstance(event, (MappingStartEvent, SequenceStartEvent))
        depth -= isinstance(event, (MappingEndEvent, SequenceEndEvent))
        if number > _MOST_EVENTS or depth > _MOST_DEPTH or isinstance(event, AliasEvent):
            raise ValueError("a card's front matter holds single values and lists of them")
        yield event
