"""Changes of a deployment file by dotted paths, keeping what the person wrote around them.

Called where a finding's remedy, a tuned value or an accepted rule goes into the file. It must
never return a text that says anything else than the old one with the changes applied: the result
is read again and compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from stoker.errors import SpecError, UsageError
from stoker.model.facts import Plain
from stoker.spec.complaints import explain_other_file
from stoker.spec.plain import Path, read_plain
from stoker.spec.splice import append_item, cut_entry, put_value
from stoker.spec.tree import BYTE_ORDER_MARK, read_tree

#: Below these every name is one key, dots and all: the names are the engine's, not ours.
_FREE_NAMES = (("engine", "settings"), ("engine", "env"))
#: These may be written as text, which then is their ``ref``.
_REFERENCES = ("model", "draft")


class _Action(StrEnum):
    PUT = "put"
    APPEND = "append"
    CUT = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One change of the text."""

    action: _Action
    path: Path
    value: Plain = None


def edit_deployment(
    text: str, changes: Mapping[str, Plain], *, origin: str = "the deployment file"
) -> str:
    """The text with the changes, and with everything else as it was, byte for byte.

    ``changes`` maps dotted paths (``serve.port``, ``goals.0.at_most``, ``engine.settings.NAME``)
    to JSON-shaped values; None removes the entry, and its parents where nothing else is left in
    them. Missing parents are made. A model that is written as text stays text while it can. The
    result is not validated: parse it.

    Raises SpecError when the text is not a readable deployment file, UsageError when it is
    written in a way that does not allow the change (inside of an alias, for example).
    """
    body = text.removeprefix(BYTE_ORDER_MARK)
    reading = read_plain(body, origin)
    if other := explain_other_file(reading.tree, body):
        raise SpecError(origin, [other])
    if reading.problems:
        raise SpecError(origin, reading.problems)
    wanted = apply_changes(reading.value, changes)
    try:
        for step in _steps(reading.value, wanted, ()):
            body = _apply(body, step, origin)
        result = read_plain(body, origin)
    except (LookupError, SpecError) as error:
        raise _not_by_us(origin, changes) from error
    if result.problems or not _same(result.value, wanted):
        raise _not_by_us(origin, changes)
    return BYTE_ORDER_MARK * text.startswith(BYTE_ORDER_MARK) + body


def apply_changes(values: Mapping[str, Plain], changes: Mapping[str, Plain]) -> Plain:
    """The plain data of a deployment with the changes of :func:`edit_deployment` applied."""
    changed: Plain = values
    for path, value in changes.items():
        # Through JSON: tuples become lists, and what is not JSON-shaped is the caller's mistake.
        changed = _changed(changed, split_path(path), json.loads(json.dumps(value)))
    return {} if changed is None else changed


def split_path(path: str) -> tuple[str, ...]:
    """The keys of a dotted path; the names of settings and variables may have dots in them."""
    parts = tuple(path.split("."))
    if parts[:2] in _FREE_NAMES and len(parts) > 3:
        return (*parts[:2], ".".join(parts[2:]))
    return parts


def _changed(values: Plain, parts: Sequence[str], value: Plain) -> Plain:
    """The values with one change; None when nothing is left of them."""
    if not parts:
        return value
    name, rest = parts[0], parts[1:]
    if isinstance(values, list):
        return _changed_list(values, name, rest, value)
    entries = dict(values) if isinstance(values, Mapping) else {}
    old = entries.get(name)
    if name in _REFERENCES and rest and isinstance(old, str):
        new = _changed({"ref": old}, rest, value)
        new = new["ref"] if isinstance(new, dict) and list(new) == ["ref"] else new
    else:
        new = _changed(old, rest, value)
    if new is not None:
        return {**entries, name: new}
    # An empty key that nobody asked to remove stays.
    if value is None and (not rest or old is not None):
        entries.pop(name, None)
    return entries or None


def _changed_list(values: list[Plain], name: str, rest: Sequence[str], value: Plain) -> Plain:
    if not name.isdecimal() or int(name) > len(values):
        message = f"{name} is no item of the list, which has {len(values)}"
        raise UsageError(message, "items are counted from 0; the next number appends one")
    index = int(name)
    old = values[index] if index < len(values) else None
    new = _changed(old, rest, value)
    items = [] if new is None else [new]
    return [*values[:index], *items, *values[index + 1 :]] or None


def _steps(before: Plain, after: Plain, path: Path) -> Iterator[_Step]:
    """What to do to a text that says ``before`` so that it says ``after``."""
    if _same(before, after):
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping) and before and after:
        yield from _mapping_steps(before, after, path)
    elif isinstance(before, list) and isinstance(after, list) and before and after:
        yield from _list_steps(before, after, path)
    else:
        yield _Step(action=_Action.PUT, path=path, value=after)


def _mapping_steps(
    before: Mapping[str, Plain], after: Mapping[str, Plain], path: Path
) -> Iterator[_Step]:
    # What comes goes in before what leaves goes: a group is never empty in between.
    for key, value in after.items():
        if key not in before:
            yield _Step(action=_Action.PUT, path=(*path, key), value=value)
        else:
            yield from _steps(before[key], value, (*path, key))
    for key in before:
        if key not in after:
            yield _Step(action=_Action.CUT, path=(*path, key))


def _list_steps(before: list[Plain], after: list[Plain], path: Path) -> Iterator[_Step]:
    if _same(before, after[: len(before)]):
        for item in after[len(before) :]:
            yield _Step(action=_Action.APPEND, path=path, value=item)
        return
    if len(before) == len(after) + 1:
        kept = [_same(before[:index] + before[index + 1 :], after) for index in range(len(before))]
        if any(kept):
            yield _Step(action=_Action.CUT, path=(*path, kept.index(True)))
            return
    pairs = list(zip(before, after, strict=False))
    alike = [type(old) is type(new) and not isinstance(old, list) for old, new in pairs]
    if len(before) == len(after) and all(alike):
        for index, (old, new) in enumerate(pairs):
            yield from _steps(old, new, (*path, index))
    else:
        yield _Step(action=_Action.PUT, path=path, value=after)


def _apply(text: str, step: _Step, origin: str) -> str:
    tree = read_tree(text, origin)
    match step.action:
        case _Action.PUT:
            return put_value(text, tree, step.path, step.value)
        case _Action.APPEND:
            return append_item(text, tree, step.path, step.value)
        case _Action.CUT:
            return cut_entry(text, tree, step.path)


def _same(one: Plain, other: Plain) -> bool:
    """Equal in type too: 1, 1.0 and true are three values."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _not_by_us(origin: str, changes: Mapping[str, Plain]) -> UsageError:
    wishes = [
        f"remove {path}" if value is None else f"{path}: {json.dumps(value)}"
        for path, value in changes.items()
    ]
    return UsageError(
        f"{origin} is written in a way that Stoker cannot change without changing more",
        f"change it by hand: {'; '.join(wishes)}",
    )
