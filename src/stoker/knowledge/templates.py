"""Sentences of rules with values of the tree in them: ``port {launch.port} is taken``.

Called by :mod:`stoker.knowledge.rules`. A placeholder is a dotted path and nothing else: no
formats, no calls. A value that is not known reads ``unknown``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stoker.model.facts import Plain, Unknown, read_path
from stoker.model.units import format_bytes

_PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_.-]+)\}")


def list_placeholders(text: str) -> tuple[str, ...]:
    """The paths that a template names, in order."""
    return tuple(_PLACEHOLDER.findall(text))


def render_template(text: str, tree: Mapping[str, Plain]) -> str:
    """The sentence for a person. Sizes (paths that end in ``_bytes``) get a readable unit."""
    return _PLACEHOLDER.sub(lambda found: _word(found[1], read_leaf(tree, found[1])), text)


def fill_template(value: Plain, tree: Mapping[str, Plain]) -> Plain | Unknown:
    """A value for a machine: a text that is one placeholder becomes the value at its path."""
    if not isinstance(value, str):
        return value
    whole = _PLACEHOLDER.fullmatch(value)
    return read_leaf(tree, whole[1]) if whole else render_template(value, tree)


def read_leaf(tree: Mapping[str, Plain], path: str) -> Plain | Unknown:
    """The value at a path; an Unknown on the way is the answer."""
    value: Plain | Unknown = tree
    for part in path.split("."):
        value = read_path(value, part)
        if isinstance(value, Unknown):
            return value
    return value


def _word(path: str, value: Plain | Unknown) -> str:
    if isinstance(value, Unknown):
        return "unknown"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    if path.endswith("_bytes") and isinstance(value, (int, float)):
        return format_bytes(int(value))
    if isinstance(value, (list, tuple)):
        items = [str(item) for item in value]
        return ("; " if any(", " in item for item in items) else ", ").join(items)
    return str(value)
