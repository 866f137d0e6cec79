"""Changes of single entries in the text of a YAML file; every other byte stays as it is.

Called by :mod:`stoker.spec.edit` alone, which reads the result again and compares: what is
written here may be refused there, and is never trusted. Comments on lines of their own survive
every change, those inside of what is removed included. All functions raise LookupError when the
text has no place for the change.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from stoker.model.facts import Plain
from stoker.spec.plain import Path
from stoker.spec.render import is_inline, render_inline, render_yaml
from stoker.spec.tree import Kind, Node

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """An entry of a mapping, or an item of a sequence, which is its own key."""

    parent: Node
    key: Node
    value: Node
    before: Node | None
    """The value of the entry above it."""
    after: Node | None
    """The key of the entry below it."""


def put_value(text: str, tree: Node, path: Path, value: Plain) -> str:
    """The text with this value at this path, whose parent is written in the text."""
    parent = _find_node(tree, path[:-1])
    entry = _find_entry(parent, path[-1])
    if entry is None:
        return _insert(text, parent, f"{_render_key(str(path[-1]), parent)}:", value)
    start, end = entry.value.start.index, _end(entry.value)
    if parent.is_flow:
        kept = _comments(text, tree, (start, end), _column(entry.key))
        return _splice(text, (start, end), " " * (start == end) + _json(value), kept)
    if is_inline(value) and (entry.value.is_flow or not entry.value.children):
        kept = _comments(text, tree, (start, end), _column(entry.key))
        line_end = "\n" if text[start:end].endswith("\n") else ""
        new = " " * (start == end) + render_inline(value) + line_end
        return _splice(text, (start, end), new, kept)
    return _replace_lines(text, tree, entry, value)


def append_item(text: str, tree: Node, path: Path, value: Plain) -> str:
    """The text with one more item at the end of the list at this path."""
    return _insert(text, _find_node(tree, path), "-", value)


def cut_entry(text: str, tree: Node, path: Path) -> str:
    """The text without the entry or item at this path, which is not the only one there."""
    entry = _find_entry(_find_node(tree, path[:-1]), path[-1])
    if entry is None:
        raise LookupError(f"nothing is written at {path}")
    start, end = entry.key.start.index, _end(entry.value)
    line = _line_start(text, start)
    is_item = entry.parent.kind is Kind.SEQUENCE
    if not entry.parent.is_flow and text[line:start].strip(" ") == "-" * is_item:
        column = _column(entry.parent) if is_item else start - line
        end = _after_deeper_comments(text, _line_end(text, end), column)
        return _splice(text, (line, end), "", _comments(text, tree, (line, end), column))
    if entry.after is not None:
        end = entry.after.start.index
    elif entry.before is not None:
        start = _end(entry.before)
    kept = _comments(text, tree, (start, end), _column(entry.key))
    return _splice(text, (start, end), "", kept)


def _find_node(tree: Node, path: Path) -> Node:
    node = tree
    for part in path:
        entry = _find_entry(node, part)
        if entry is None:
            raise LookupError(f"nothing is written at {part}")
        node = entry.value
    return node


def _find_entry(parent: Node, part: str | int) -> _Entry | None:
    if parent.kind is Kind.SEQUENCE:
        pairs = [(child, child) for child in parent.children]
        position = part if isinstance(part, int) and part < len(pairs) else None
    elif parent.kind is Kind.MAPPING:
        pairs = list(parent.entries)
        texts = [key.text for key, _ in pairs]
        position = texts.index(part) if part in texts else None
    else:
        raise LookupError(f"no group of keys is written where {part} belongs")
    if position is None:
        return None
    key, value = pairs[position]
    before = pairs[position - 1][1] if position else None
    after = pairs[position + 1][0] if position + 1 < len(pairs) else None
    return _Entry(parent=parent, key=key, value=value, before=before, after=after)


def _insert(text: str, parent: Node, head: str, value: Plain) -> str:
    """The text with one more entry behind the last one; ``head`` is its key and colon, or -."""
    if parent.kind not in (Kind.MAPPING, Kind.SEQUENCE):
        raise LookupError("nothing can be put into a single value")
    if parent.is_flow:
        item = _json(value) if head == "-" else f"{head} {_json(value)}"
        if not parent.children:
            return _splice(text, (parent.start.index + 1,) * 2, item)
        return _splice(text, (_end(parent.children[-1]),) * 2, f", {item}")
    # What is commented out below the last entry belongs to it.
    last_line = _line_end(text, _end(parent.children[-1]))
    place = _after_deeper_comments(text, last_line, _column(parent))
    lines = _block(head, value, _column(parent))
    if place and text[place - 1] != "\n":
        lines = "\n" + lines
    return _splice(text, (place, place), lines)


def _replace_lines(text: str, tree: Node, entry: _Entry, value: Plain) -> str:
    """The text with an entry written anew from its colon to its last line."""
    if entry.parent.kind is not Kind.MAPPING:
        raise LookupError("only the values of keys are written anew")
    colon = text.index(":", entry.key.end.index) + 1
    column = _column(entry.key)
    is_block = bool(entry.value.children) and not entry.value.is_flow
    key_line_end = _line_end(text, colon)
    end = _line_end(text, max(_end(entry.value), colon))
    if is_block:
        end = _after_deeper_comments(text, end, column)
        behind = text[colon:key_line_end]
    else:
        behind = text[_end(entry.value) : end] if end == key_line_end else ""
    kept = _comments(text, tree, (colon, end), column)
    if is_inline(value):
        first, below = f" {render_inline(value)}", ""
    else:
        first, below = "", _lines_of(value, column + 2)
    return _splice(text, (colon, end), f"{first}{behind.rstrip()}\n{kept}{below}")


def _block(head: str, value: Plain, column: int) -> str:
    """The lines of an entry at this column."""
    margin = " " * column
    if is_inline(value):
        return f"{margin}{head} {render_inline(value)}\n"
    if head == "-":
        return _lines_of([value], column)
    return f"{margin}{head}\n{_lines_of(value, column + 2)}"


def _lines_of(value: Plain, column: int) -> str:
    """The lines of a group or a list that begins at this column."""
    return textwrap.indent(textwrap.dedent(render_yaml(value)), " " * column)


def _json(value: Plain) -> str:
    """A value inside brackets, where JSON is always right."""
    return json.dumps(value, ensure_ascii=False)


def _render_key(key: str, parent: Node) -> str:
    """A key in the manner of its neighbours: in quotes where the whole is JSON."""
    is_json = bool(parent.is_flow and parent.children and not parent.children[0].is_plain)
    return _json(key) if is_json else render_inline(key)


def _splice(text: str, span: Span, new: str, kept: str = "") -> str:
    """The text with a span replaced; ``kept`` lines go before the line where the span begins."""
    start, end = span
    line = _line_start(text, start)
    if "\r\n" in text:
        new, kept = new.replace("\n", "\r\n"), kept.replace("\n", "\r\n")
    return text[:line] + kept + text[line:start] + new + text[end:]


def _column(node: Node) -> int:
    return node.start.column - 1


def _end(node: Node) -> int:
    """Where what is written of a node ends; for a block collection, that of its last child."""
    if node.children and not node.is_flow:
        return _end(node.children[-1])
    return node.end.index


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _line_end(text: str, index: int) -> int:
    """The start of the next line; the index itself where a line starts already."""
    if index and text[index - 1] == "\n":
        return index
    newline = text.find("\n", index)
    return len(text) if newline < 0 else newline + 1


def _after_deeper_comments(text: str, index: int, column: int) -> int:
    """The end of the comment lines that belong to what ends here, since they are indented more.

    Left where they are, they could become part of a text block above.
    """
    end = index
    for start, line in _lines(text, index):
        bare = line.strip()
        if bare and (not bare.startswith("#") or len(line) - len(line.lstrip(" ")) <= column):
            break
        end = start + len(line) if bare else end
    return end


def _comments(text: str, tree: Node, span: Span, column: int) -> str:
    """The comments on lines of their own within a span, as lines at this column."""
    start, end = span
    scalars = [(node.start.index, node.end.index) for node in _scalars(tree)]
    kept = [
        " " * column + line.strip() + "\n"
        for place, line in _lines(text, start)
        if place < end and line.strip().startswith("#") and place == _line_start(text, place)
        if not any(first < place < last for first, last in scalars)
    ]
    return "".join(kept)


def _lines(text: str, index: int) -> Iterator[tuple[int, str]]:
    """The lines from an index on, with where each begins; the first may be the rest of a line."""
    while index < len(text):
        newline = text.find("\n", index)
        end = len(text) if newline < 0 else newline + 1
        yield index, text[index:end]
        index = end


def _scalars(node: Node) -> Iterator[Node]:
    if node.kind is Kind.SCALAR:
        yield node
    for child in node.children:
        yield from _scalars(child)
