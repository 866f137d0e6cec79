"""YAML text as a tree of nodes, each of which knows where it stands.

Called by the parser and by the editor of deployment files. It builds on the events of the YAML
library, because only they keep every position and cost nothing for an alias; it never makes an
object of a tag, never expands an alias and never reads more than a deployment file may hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StreamMark
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
from ruamel.yaml.reader import ReaderError

from stoker.errors import Problem, SpecError
from stoker.spec.syntax import explain_character, explain_syntax

#: A deployment file holds a few dozen values. These bounds are far above that, and low enough
#: that no file can keep the parser busy for more than moments.
MAX_BYTES = 1 << 20
MAX_LINE_CHARACTERS = 1 << 16
MAX_DEPTH = 32
MAX_NODES = 10_000

BYTE_ORDER_MARK = "\ufeff"


class Kind(StrEnum):
    """What a node is. The closed list."""

    SCALAR = "scalar"
    MAPPING = "mapping"
    SEQUENCE = "sequence"
    ALIAS = "alias"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place in the text. ``index`` counts characters from 0, ``line`` and ``column`` from 1."""

    index: int
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One value as it is written.

    ``text`` is the content of a scalar; the name, for an alias, whose ``target`` is the node it
    stands for. ``children`` of a mapping are key, value, key, value. ``is_plain`` is false for
    quoted and block text. ``is_flow`` is true for ``[...]`` and ``{...}``. ``end`` of a
    collection in block style lies before the next token, so comments may come before it.
    """

    kind: Kind
    start: Mark
    end: Mark
    text: str = ""
    tag: str = ""
    is_plain: bool = False
    is_flow: bool = False
    children: tuple[Node, ...] = ()
    target: Node | None = None

    @property
    def entries(self) -> tuple[tuple[Node, Node], ...]:
        """The keys and values of a mapping."""
        return tuple(zip(self.children[::2], self.children[1::2], strict=True))

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is written here."""
        return self.kind is Kind.SCALAR and self.start.index == self.end.index


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet."""

    event: Any
    children: list[Node] = field(default_factory=list)


def read_tree(text: str, origin: str) -> Node:
    """The one document of the text, without a byte order mark. Raises SpecError, one problem."""
    _check_size(text, origin)
    root = _build(_events(text, origin), text, origin)
    if root is None:
        hint = "`stoker init` writes one to begin with"
        raise SpecError(
            origin, [Problem(message="the file has no content", line=1, column=1, hint=hint)]
        )
    return root


def _check_size(text: str, origin: str) -> None:
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if size_bytes > MAX_BYTES:
        message = f"the file has {size_bytes} bytes; a deployment file has at most {MAX_BYTES}"
        raise SpecError(origin, [Problem(message=message, hint="is this the right file?")])
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > MAX_LINE_CHARACTERS:
            message = f"this line has {len(line)} characters, more than {MAX_LINE_CHARACTERS}"
            raise SpecError(origin, [Problem(message=message, line=number, column=1)])


def _events(text: str, origin: str) -> Iterator[Event]:
    """The library's events; what it raises becomes a SpecError."""
    last = None
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            last = event
            yield event
    except ReaderError as error:
        raise SpecError(origin, [explain_character(text, error.position)]) from error
    except MarkedYAMLError as error:
        raise SpecError(origin, [explain_syntax(error, text)]) from error
    except (AssertionError, OverflowError, ValueError) as error:
        # The library lets these out for absurd numbers in directives and escapes.
        mark = _mark(last.end_mark if last else StreamMark("", 0, 0, 0))
        message = "a number in a %YAML line or in an escape behind this place is out of bounds"
        raise SpecError(
            origin, [Problem(message=message, line=mark.line, column=mark.column)]
        ) from error


def _build(events: Iterator[Event], text: str, origin: str) -> Node | None:
    """Put the events together; the last node that ends while nothing is open is the root."""
    root: Node | None = None
    open_nodes: list[_Open] = []
    anchors: dict[str, Node | None] = {}
    documents = 0
    for count, event in enumerate(events):
        _check_bounds(event, depth=len(open_nodes), count=count, origin=origin)
        match event:
            case DocumentStartEvent():
                documents += 1
                _check_document(event, documents, origin)
                continue
            case MappingStartEvent() | SequenceStartEvent():
                open_nodes.append(_Open(event))
                anchors[event.anchor] = None  # an alias inside of it would be endless
                continue
            case MappingEndEvent() | SequenceEndEvent():
                opened = open_nodes.pop()
                node, anchor = _collection(opened, event, text), opened.event.anchor
            case ScalarEvent():
                node, anchor = _scalar(event), event.anchor
            case AliasEvent():
                node, anchor = _alias(event, anchors, origin), None
            case _:
                continue
        anchors[anchor] = node
        if open_nodes:
            open_nodes[-1].children.append(node)
        else:
            root = node
    return None if root is None or root.is_empty else root


def _mark(mark: Any) -> Mark:
    return Mark(index=mark.index, line=mark.line + 1, column=mark.column + 1)


def _problem(event: Event, message: str, hint: str = "") -> Problem:
    mark = _mark(event.start_mark)
    return Problem(message=message, line=mark.line, column=mark.column, hint=hint)


def _check_bounds(event: Event, *, depth: int, count: int, origin: str) -> None:
    if depth > MAX_DEPTH:
        problem = _problem(event, f"the values are nested more than {MAX_DEPTH} levels deep")
        raise SpecError(origin, [problem])
    if count > MAX_NODES:
        problem = _problem(event, f"the file holds more than {MAX_NODES} values up to here")
        raise SpecError(origin, [problem])


def _check_document(event: DocumentStartEvent, number: int, origin: str) -> None:
    if number > 1:
        hint = "remove the line `---`, or put each deployment into a file of its own"
        problem = _problem(event, "a second document begins here; a file holds one", hint)
        raise SpecError(origin, [problem])
    if event.version not in (None, (1, 2)):
        problem = _problem(event, "deployment files are YAML 1.2", "remove the line `%YAML`")
        raise SpecError(origin, [problem])


def _scalar(event: ScalarEvent) -> Node:
    return Node(
        kind=Kind.SCALAR,
        start=_mark(event.start_mark),
        end=_mark(event.end_mark),
        text=_joined(event.value),
        tag=event.tag or "",
        is_plain=not event.style,
    )


def _joined(text: str) -> str:
    """The text with the halves of its characters put together: JSON may escape them in pairs."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _alias(event: AliasEvent, anchors: dict[str, Node | None], origin: str) -> Node:
    if event.anchor not in anchors:
        problem = _problem(
            event,
            f"`*{event.anchor}` stands for a value that nothing above is marked as",
            f'text that begins with * needs quotes: "*{event.anchor}"',
        )
        raise SpecError(origin, [problem])
    target = anchors[event.anchor]
    if target is None:
        problem = _problem(event, f"`*{event.anchor}` stands for a value that it is itself part of")
        raise SpecError(origin, [problem])
    return Node(
        kind=Kind.ALIAS,
        start=_mark(event.start_mark),
        end=_mark(event.end_mark),
        text=event.anchor,
        target=target,
    )


def _collection(opened: _Open, end: Event, text: str) -> Node:
    is_mapping = isinstance(opened.event, MappingStartEvent)
    children = opened.children
    if is_mapping:
        children = [
            _after_colon(child, children[index - 1], text) if index % 2 else child
            for index, child in enumerate(children)
        ]
    return Node(
        kind=Kind.MAPPING if is_mapping else Kind.SEQUENCE,
        start=_mark(opened.event.start_mark),
        end=_mark(end.end_mark),
        tag=opened.event.tag or "",
        is_flow=bool(opened.event.flow_style),
        children=tuple(children),
    )


def _after_colon(value: Node, key: Node, text: str) -> Node:
    """An empty value, moved to its colon: the library places it at the next token."""
    colon = text.find(":", key.end.index)
    if not value.is_empty or colon < 0 or text[key.end.index : colon].strip(" "):
        return value
    index = colon + 1
    mark = Mark(index=index, line=key.end.line, column=key.end.column + index - key.end.index)
    return replace(value, start=mark, end=mark)
