"""New names for keys of a deployment file, in their places and with the comments beside them.

Called where flags get the names of another release. Like :mod:`stoker.spec.edit` it reads its
result again, and never returns a text that says anything else than was wanted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from stoker.errors import SpecError, UsageError
from stoker.model.facts import Plain
from stoker.spec.plain import read_plain
from stoker.spec.tree import BYTE_ORDER_MARK, Kind, Node


def rename_keys(
    text: str, path: Sequence[str], names: Mapping[str, str], *, origin: str = "the deployment file"
) -> str:
    """The text with other names for keys of the group at ``path``, and else as it was.

    ``names`` maps old names to new ones. Raises SpecError for a text that is no readable file, and
    UsageError where the keys are written in a way that does not allow it (inside of an alias).
    """
    body = text.removeprefix(BYTE_ORDER_MARK)
    reading = read_plain(body, origin)
    if reading.problems:
        raise SpecError(origin, reading.problems)
    group = _find(reading.tree, path)
    keys = [key for key, _ in group.entries] if group is not None else []
    for key in reversed(keys):
        if key.text in names:
            new = names[key.text] if key.is_plain else json.dumps(names[key.text])
            body = body[: key.start.index] + new + body[key.end.index :]
    wanted = _renamed(reading.value, path, names)
    try:
        result = read_plain(body, origin)
    except SpecError as error:
        raise _not_by_us(origin, names) from error
    if result.problems or json.dumps(result.value) != json.dumps(wanted):
        raise _not_by_us(origin, names)
    return BYTE_ORDER_MARK * text.startswith(BYTE_ORDER_MARK) + body


def _find(tree: Node, path: Sequence[str]) -> Node | None:
    """The mapping at a path, where it is written there and not elsewhere under an alias."""
    node: Node | None = tree
    for part in path:
        if node is None or node.kind is not Kind.MAPPING:
            return None
        node = next((value for key, value in node.entries if key.text == part), None)
    return node if node is not None and node.kind is Kind.MAPPING else None


def _renamed(values: Plain, path: Sequence[str], names: Mapping[str, str]) -> Plain:
    if not isinstance(values, Mapping):
        return values
    if not path:
        return {names.get(key, key): value for key, value in values.items()}
    return {
        key: _renamed(value, path[1:], names) if key == path[0] else value
        for key, value in values.items()
    }


def _not_by_us(origin: str, names: Mapping[str, str]) -> UsageError:
    wishes = ", ".join(f"{old} becomes {new}" for old, new in names.items())
    return UsageError(
        f"{origin} is written in a way that Stoker cannot change without changing more",
        f"change it by hand: {wishes}",
    )
