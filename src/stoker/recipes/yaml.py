"""YAML of strangers as plain data, bounded: nothing is executed, and no alias can grow.

Called by the importers. It works on the events of the YAML library, so that no tag becomes an
object, and counts what an alias stands for each time that it is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from stoker.model.facts import Plain

#: The largest file of the collections has 80 KiB, some 4,000 values and 12 levels.
MAX_BYTES = 2 << 20
MAX_DEPTH = 40
MAX_VALUES = 200_000

_INTEGER = re.compile(r"^-?(?:0|[1-9][0-9]{0,17})$")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class UnreadableYaml(ValueError):
    """A text that is not read; ``place`` says where that was found (``line 3``)."""

    def __init__(self, sentence: str, place: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.place = place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """A finished value, and how many values it holds with all that is in it."""

    plain: Plain
    count: int


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet; of a mapping keys and values in turns."""

    event: Any
    parts: list[_Value] = field(default_factory=list)


def read_yaml(text: str) -> Plain:
    """The one document of a text: mappings, lists, text, whole numbers, true, false and None.

    Numbers with a fraction and dates stay text, as they are written: they end on command lines.
    Raises UnreadableYaml for a text that is not YAML, that holds a key twice or a tag, or that is
    beyond the bounds.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise UnreadableYaml(f"it has more than {MAX_BYTES} bytes")
    return _build(_events(text))


def _events(text: str) -> Iterator[Event]:
    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UnreadableYaml(f"it is not YAML: {error.problem or error.context}", place) from error
    except (YAMLError, AssertionError, OverflowError, ValueError) as error:
        if isinstance(error, UnreadableYaml):
            raise
        raise UnreadableYaml("it is not YAML: a character or a number is out of bounds") from error


def _build(events: Iterator[Event]) -> Plain:
    root, documents, total = None, 0, 0
    opened: list[_Open] = []
    anchors: dict[str, _Value | None] = {}
    for event in events:
        documents += isinstance(event, DocumentStartEvent)
        if documents > 1:
            raise _wrong(event, "a second document begins here")
        value = _take(event, opened, anchors)
        if value is None:
            continue
        total += 1 if not isinstance(event, AliasEvent) else value.count
        if total > MAX_VALUES:
            raise _wrong(event, f"it holds more than {MAX_VALUES} values, aliases counted in full")
        if opened:
            opened[-1].parts.append(value)
        else:
            root = value.plain
    return root


def _take(event: Event, opened: list[_Open], anchors: dict[str, _Value | None]) -> _Value | None:
    """The value that an event finishes, None where it finishes none."""
    match event:
        case MappingStartEvent() | SequenceStartEvent():
            if len(opened) >= MAX_DEPTH:
                raise _wrong(event, f"its values are nested more than {MAX_DEPTH} levels deep")
            _check_tag(event)
            opened.append(_Open(event))
            anchors[event.anchor] = None  # inside of itself it would be endless
            return None
        case MappingEndEvent() | SequenceEndEvent():
            done = opened.pop()
            value = _collect(done)
            anchor = done.event.anchor
        case ScalarEvent():
            value, anchor = _Value(plain=_scalar(event), count=1), event.anchor
        case AliasEvent():
            known = anchors.get(event.anchor)
            if known is None:
                raise _wrong(event, f"*{event.anchor} repeats nothing that ended before")
            return known
        case _:
            return None
    if anchor:
        anchors[anchor] = value
    return value


def _collect(done: _Open) -> _Value:
    count = 1 + sum(part.count for part in done.parts)
    if isinstance(done.event, SequenceStartEvent):
        return _Value(plain=[part.plain for part in done.parts], count=count)
    made: dict[str, Plain] = {}
    for key, value in zip(done.parts[::2], done.parts[1::2], strict=True):
        if isinstance(key.plain, (dict, list)):
            raise _wrong(done.event, "a key of this mapping is no text")
        name = "null" if key.plain is None else str(key.plain)
        if name in made:
            raise _wrong(done.event, f"this mapping has the key {name[:40]!r} twice")
        made[name] = value.plain
    return _Value(plain=made, count=count)


def _scalar(event: ScalarEvent) -> Plain:
    _check_tag(event)
    text: str = event.value
    if event.style or event.tag:
        return text
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _INTEGER.match(text) else text


def _check_tag(event: Any) -> None:
    if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
        raise _wrong(event, "it holds a tag, and no object is made of one")


def _wrong(event: Any, sentence: str) -> UnreadableYaml:
    mark = event.start_mark
    return UnreadableYaml(sentence, f"line {mark.line + 1}, column {mark.column + 1}")
