"""Taking choices out of a space, and whether a configuration may be.

Called by :mod:`stoker.knowledge.spaces` and by the command that cuts a space down. Pure. A knob
that is left with one choice is no knob any more: what its choice meant for the others is worked in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from stoker.model.tuning import Configuration, Cut, Knob, Space

#: Up to so many configurations of knobs that depend on each other are counted one by one.
_MOST_COUNTED = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many configurations there are. Where ``is_exact`` is false there are at most so many."""

    number: int
    is_exact: bool


def is_active(knob: Knob, configuration: Configuration) -> bool:
    """Whether the knob means something in a configuration."""
    return all(configuration.get(name) in choices for name, choices in knob.only_with.items())


def default_configuration(space: Space) -> dict[str, str]:
    """What the deployment has now."""
    return {knob.id: knob.default for knob in space.knobs}


def find_cut(space: Space, configuration: Configuration) -> Cut | None:
    """The first constraint that forbids a configuration; None where none does."""
    return next((cut for cut in space.cuts if excludes(cut, configuration)), None)


def excludes(cut: Cut, configuration: Configuration) -> bool:
    """Whether a constraint forbids a configuration."""
    return all(configuration.get(name) in choices for name, choices in cut.where.items())


def take_out(space: Space, knob_id: str, choices: Collection[str]) -> Space:
    """The space without these choices; the default of a knob is never taken out."""
    knobs = tuple(_without(knob, choices) if knob.id == knob_id else knob for knob in space.knobs)
    return fold(replace(space, knobs=knobs), {})


def fold(space: Space, constants: Mapping[str, str]) -> Space:
    """The space with what is no longer open worked in.

    ``constants``: the choice of each knob that is none of the space's. A knob that can have one
    choice only goes, and so does one that can never mean anything; a constraint that speaks of one
    knob takes its choices.
    """
    known = dict(constants)
    while True:
        known |= {knob.id: knob.default for knob in space.knobs if len(knob.choices) < 2}
        open_ones = [knob for knob in space.knobs if len(knob.choices) > 1]
        narrowed = [(knob, _narrow(knob, open_ones, known)) for knob in open_ones]
        known |= {knob.id: "" for knob, found in narrowed if found is None}
        knobs, cuts = _work_in([found for _, found in narrowed if found], space.cuts, known)
        folded = replace(space, knobs=knobs, cuts=cuts)
        if folded == space:
            return folded
        space = folded


def count_configurations(space: Space) -> Count:
    """How many configurations are different and not forbidden; a knob that means nothing in one
    makes no difference there."""
    number, is_exact = 1, True
    for group in _groups(space):
        knobs = [knob for knob in space.knobs if knob.id in group]
        size = 1
        for knob in knobs:
            size *= len(knob.choices)
        if size > _MOST_COUNTED:
            number, is_exact = number * size, False
        else:
            number *= _count_group(knobs, space.cuts)
    return Count(number=number, is_exact=is_exact)


def _without(knob: Knob, choices: Collection[str]) -> Knob:
    kept = (each for each in knob.choices if each.id == knob.default or each.id not in choices)
    return replace(knob, choices=tuple(kept))


def _narrow(knob: Knob, knobs: Collection[Knob], known: Mapping[str, str]) -> Knob | None:
    """The knob with its dependence on what is still open; None where it can mean nothing."""
    by_id = {each.id: each for each in knobs}
    only: dict[str, tuple[str, ...]] = {}
    for name, choices in knob.only_with.items():
        if name in by_id:
            ids = tuple(each.id for each in by_id[name].choices)
            kept = tuple(each for each in ids if each in choices)
            if not kept:
                return None
            if kept != ids or by_id[name].only_with:
                only[name] = kept
        elif known.get(name, "") not in choices:
            return None
    return replace(knob, only_with=only)


def _work_in(
    knobs: Collection[Knob], cuts: Collection[Cut], known: Mapping[str, str]
) -> tuple[tuple[Knob, ...], tuple[Cut, ...]]:
    """Constraints about what is open alone; those about one knob have taken its choices."""
    by_id = {knob.id: knob for knob in knobs}
    kept: list[Cut] = []
    for cut in cuts:
        where = _open_part(cut, by_id, known)
        if where is None:
            continue
        if len(where) == 1:
            ((name, choices),) = where.items()
            by_id[name] = _without(by_id[name], choices)
        elif where:
            kept.append(replace(cut, where=where))
    return tuple(by_id[knob.id] for knob in knobs), tuple(kept)


def _open_part(
    cut: Cut, knobs: Mapping[str, Knob], known: Mapping[str, str]
) -> dict[str, tuple[str, ...]] | None:
    """What a constraint says of the knobs that are open; None where it can never hold."""
    where: dict[str, tuple[str, ...]] = {}
    for name, choices in cut.where.items():
        if name not in knobs:
            if known.get(name, "") not in choices:
                return None
            continue
        ids = tuple(each.id for each in knobs[name].choices)
        kept = tuple(each for each in ids if each in choices)
        if not kept:
            return None
        if kept != ids:
            where[name] = kept
    return where


def _groups(space: Space) -> list[set[str]]:
    """Knobs that depend on each other, by their ids."""
    links = [{knob.id, *knob.only_with} for knob in space.knobs]
    links += [set(cut.where) for cut in space.cuts]
    groups: list[set[str]] = []
    for link in links:
        touched = [group for group in groups if group & link]
        groups = [group for group in groups if not group & link]
        groups.append(link.union(*touched))
    return groups


def _count_group(knobs: Collection[Knob], cuts: Collection[Cut]) -> int:
    names = [knob.id for knob in knobs]
    own = [cut for cut in cuts if set(cut.where) <= set(names)]
    seen: set[tuple[str, ...]] = set()
    for values in product(*([each.id for each in knob.choices] for knob in knobs)):
        configuration = dict(zip(names, values, strict=True))
        if not any(excludes(cut, configuration) for cut in own):
            seen.add(tuple(_effective(knobs, configuration)))
    return len(seen)


def _effective(knobs: Collection[Knob], configuration: Configuration) -> Iterator[str]:
    for knob in knobs:
        yield configuration[knob.id] if is_active(knob, configuration) else ""
