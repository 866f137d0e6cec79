"""What mends a cause here: rows of knowledge, judged and filled in for one deployment.

Called by :mod:`stoker.diagnosis.diagnose`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from stoker.diagnosis.alternatives import list_alternatives
from stoker.knowledge.causes import RepairRow, Step
from stoker.knowledge.conditions import evaluate_condition
from stoker.knowledge.subjects import name_subject
from stoker.knowledge.templates import (
    fill_template,
    list_placeholders,
    read_leaf,
    render_template,
)
from stoker.model.diagnosis import Repair
from stoker.model.facts import Plain, Unknown

_SETTINGS = "engine.settings."
_CAPTURED = "log.captured."


def find_repairs(
    rows: Sequence[RepairRow], tree: Mapping[str, Plain], *, engine: str
) -> tuple[Repair, ...]:
    """The repairs that apply, the best first; behind them those that nobody can judge yet."""
    sure: list[Repair] = []
    open_: list[Repair] = []
    untold: list[Repair] = []
    for row in rows:
        if row.engines and engine and engine not in row.engines:
            continue
        missing: tuple[str, ...] = ()
        if row.when is not None:
            answer = evaluate_condition(row.when, tree)
            if answer.truth is False:
                continue
            missing = tuple(dict.fromkeys(name_subject(path) for path in answer.missing))
        for repair in _expand(row, tree, missing, engine=engine):
            into = untold if _names_untold(row, tree) else open_ if repair.missing else sure
            into.append(repair)
    # A sentence with gaps that the log did not fill is offered only where there is no other.
    return (*sure, *open_) or tuple(untold)


def _names_untold(row: RepairRow, tree: Mapping[str, Plain]) -> bool:
    """Whether the row's sentence names a figure that the log did not say."""
    return any(
        path.startswith(_CAPTURED) and isinstance(read_leaf(tree, path), Unknown)
        for path in list_placeholders(row.text)
    )


def _expand(
    row: RepairRow, tree: Mapping[str, Plain], missing: tuple[str, ...], *, engine: str
) -> Iterator[Repair]:
    """The repairs of a row: one, or one for each of the kernels that it says to try."""
    if not row.tries:
        yield _make(row, tree, missing)
        return
    release = read_leaf(tree, "stack.version")
    known = release if isinstance(release, str) else ""
    for each in list_alternatives(row.tries, tree, engine=engine, release=known):
        repair = _make(row, {**tree, "tried": {"words": each.words}}, missing)
        yield replace(repair, changes={**repair.changes, **each.changes})


def _make(row: RepairRow, tree: Mapping[str, Plain], missing: tuple[str, ...]) -> Repair:
    lost = [name_subject(path) for path in list_unknown(row.text, tree)]
    changes = dict(_list_changes(row, tree))
    return Repair(
        text=_render_text(row.text, tree),
        changes=changes,
        # A command that would name what nobody knows is no command.
        commands=tuple(
            render_template(command, tree)
            for command in row.commands
            if not list_unknown(command, tree)
        ),
        consent=row.consent,
        missing=tuple(dict.fromkeys((*missing, *lost))),
        source=row.source,
    )


def list_unknown(text: str, tree: Mapping[str, Plain]) -> tuple[str, ...]:
    """The paths that a sentence names and nobody knows."""
    paths = list_placeholders(text)
    return tuple(path for path in paths if isinstance(read_leaf(tree, path), Unknown))


def _render_text(text: str, tree: Mapping[str, Plain]) -> str:
    """The sentence; what the log did not tell stands as ``<flag>``, for a person to fill in."""
    for path in list_unknown(text, tree):
        if path.startswith(_CAPTURED):
            text = text.replace(f"{{{path}}}", f"<{path.removeprefix(_CAPTURED)}>")
    return render_template(text, tree)


def _list_changes(row: RepairRow, tree: Mapping[str, Plain]) -> Iterator[tuple[str, Plain]]:
    for key, wanted in row.changes.items():
        value = fill_template(wanted, tree)
        if not isinstance(value, Unknown):
            yield key, value
    for key in row.takes_out:
        if _read_key(key, tree) is not None:  # what is known not to be there cannot go
            yield key, None
    for step in row.steps:
        stepped = take_step(
            step, _number_at(_key_path(step.key), tree), above=_number_at(step.above, tree)
        )
        if stepped is not None:
            yield step.key, stepped


def _number_at(path: str, tree: Mapping[str, Plain]) -> float | None:
    """What stands at a path, where it is a number that is known."""
    value = read_leaf(tree, path) if path else None
    if isinstance(value, (Unknown, bool)):
        return None
    return float(value) if isinstance(value, (int, float)) else None


def _read_key(key: str, tree: Mapping[str, Plain]) -> Plain | Unknown:
    """What a key of the deployment file is now."""
    return read_leaf(tree, _key_path(key))


def _key_path(key: str) -> str:
    return f"settings.{key.removeprefix(_SETTINGS)}" if key.startswith(_SETTINGS) else key


def take_step(
    step: Step, current: float | None, *, above: float | None = None
) -> float | int | None:
    """The next value; None where there is none to start from, or no room for a step.

    ``above``: what must be passed by a step at least.
    """
    begin = current if current is not None else step.start
    if begin is None:
        return None
    value = begin * step.multiply + step.add
    value = max(value, above + step.add) if above is not None else value
    if not isfinite(value):
        return None
    value = max(value, step.least) if step.least is not None else value
    value = min(value, step.most) if step.most is not None else value
    if step.is_whole:
        whole = int(value) // step.multiple_of * step.multiple_of
        return whole if whole > 0 and whole != begin else None
    rounded = round(value, 4)
    return rounded if rounded != begin else None
