"""The space of one deployment: from what is known of its engine, and from what it sets now.

Called where a search is prepared. Pure: rows, a description and a launch in, a space out. What the
release does not have, what is for other models or machines, what the deployment file itself says
and what may change answers stays out, and each of these is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.knowledge.conditions import Answer, Condition, evaluate_condition
from stoker.knowledge.engines import load_variables
from stoker.knowledge.lifetimes import lifetime_kinds, load_lifetimes
from stoker.knowledge.present import Present, to_number
from stoker.knowledge.repair_consents import load_repair_consents
from stoker.knowledge.space_cutting import fold
from stoker.knowledge.space_rows import (
    DRAFT_KEY,
    ChoiceRow,
    KnobRow,
    SpaceRows,
    expand,
)
from stoker.knowledge.templates import read_leaf
from stoker.model.facts import Unknown
from stoker.model.finding import Source
from stoker.model.tuning import Choice, Cut, Knob, Space

_PRESENT, _UNSET = "present", "unset"
_ANSWERS = "its other choices may make answers worse"
_TRUE = Answer(truth=True)
#: Variables that an engine declares itself begin so; others are those of libraries.
_OWN_VARIABLES = ("SGLANG_", "VLLM_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is not varied, and why.

    ``kind``: fixed (the deployment file says it), consent (it waits for the owner), release (the
    engine that is there lacks it), elsewhere (it is for other models or machines), cut (it cannot
    be).
    """

    knob: str
    choices: tuple[str, ...]
    kind: str
    because: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A space, what was left out of it, and the present choice of each knob that is none of its."""

    space: Space
    left: tuple[Left, ...]
    constants: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the owner says of a search. ``free``: knobs, or flags, that may be varied though the
    deployment file sets them; ``consents``: those that may be varied though answers may change."""

    free: frozenset[str] = frozenset()
    consents: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    knob: Knob
    left: tuple[Left, ...]


def tell_source(source: Source) -> str:
    """Where a piece of knowledge comes from, in one line."""
    return ", ".join(filter(None, (source.kind, source.where, source.version, source.date)))


def build_space(rows: SpaceRows, present: Present, wishes: Wishes) -> Built:
    """What may be tried for a deployment; the default of each knob is what it has now."""
    knobs: list[Knob] = []
    left: list[Left] = []
    constants: dict[str, str] = {}
    depends: dict[str, Mapping[str, tuple[str, ...]]] = {}
    for row in rows.knob:
        made = _make_knob(row, present)
        left += made.left
        if not made.knob.choices:
            constants[row.id] = ""
            continue
        depends[row.id] = _closure(row, depends)
        if held := _hold(row, made.knob, present, wishes):
            left.append(held)
        if held or len(made.knob.choices) < 2:
            constants[row.id] = made.knob.default
        else:
            knobs.append(made.knob)
    space = Space(
        engine=rows.engine,
        release=_release(present),
        knobs=tuple(
            replace(knob, only_with=_expand_all(depends[knob.id], knobs, constants))
            for knob in knobs
        ),
        cuts=tuple(_make_cuts(rows, present, knobs, constants=constants, depends=depends)),
    )
    folded = fold(space, constants)
    return Built(space=folded, left=(*left, *_tell_folded(space, constants)), constants=constants)


def _release(present: Present) -> str:
    version = read_leaf(present.tree, "stack.version")
    return version if isinstance(version, str) else present.subject.build


# Knobs


def _make_knob(row: KnobRow, present: Present) -> _Made:
    """A knob with the choices that there are here; without any where it is for others."""
    knob = Knob(
        id=row.id,
        title=row.title,
        choices=(),
        default="",
        is_ordered=row.traits.is_ordered,
        restarts=row.traits.restarts,
        only_with=row.only_with,
        spread=row.traits.spread,
        source=tell_source(row.source),
    )
    answer = _judge(row.when, present)
    if answer.truth is not True:
        return _Made(knob=knob, left=(_elsewhere(row.id, (), answer),))
    left: list[Left] = []
    there: list[ChoiceRow] = []
    for choice in row.choice:
        why = _find_lack(choice, row, present)
        if why is None:
            there.append(choice)
        else:
            left.append(why)
    told = tuple(_merge(left))
    if not there:
        return _Made(knob=knob, left=told)
    choices, default = _find_default(row, there, present)
    weighed = tuple(_weigh(row, choices, default, present))
    return _Made(knob=replace(knob, choices=weighed, default=default), left=told)


def _merge(left: Sequence[Left]) -> Iterator[Left]:
    """One sentence for choices that are missing for one reason."""
    groups: dict[tuple[str, str], list[Left]] = {}
    for each in left:
        groups.setdefault((each.kind, "" if each.kind == "release" else each.because), []).append(
            each
        )
    for (kind, because), group in groups.items():
        choices = tuple(name for each in group for name in each.choices)
        lost = dict.fromkeys(each.because for each in group)
        words = because or f"this release has no {', '.join(lost)}"
        yield Left(knob=group[0].knob, choices=choices, kind=kind, because=words)


def _judge(when: Condition | None, present: Present) -> Answer:
    return _TRUE if when is None else evaluate_condition(when, present.tree)


def _elsewhere(knob: str, choices: tuple[str, ...], answer: Answer) -> Left:
    if answer.truth is None:
        because = f"whether it applies here is not known: {'; '.join(answer.missing.values())}"
    else:
        because = "it is for other models or machines"
    return Left(knob=knob, choices=choices, kind="elsewhere", because=because)


def _find_lack(choice: ChoiceRow, row: KnobRow, present: Present) -> Left | None:
    """Why a choice is none here; None for one that is."""
    names = [*choice.settings, *choice.variables]
    needed = names or [each for each in choice.leaves_out if each != DRAFT_KEY][:1]
    lost = [name for name in needed if not _is_there(name, present)]
    refused = [
        f"{name} {value}"
        for name, value in choice.settings.items()
        if not present.takes(name, value)
    ]
    if lost or refused:
        because = ", ".join(lost or refused)
        return Left(knob=row.id, choices=(choice.id,), kind="release", because=because)
    answer = _judge(choice.when, present)
    if answer.truth is not True:
        return _elsewhere(row.id, (choice.id,), answer)
    if _is_beyond(choice, row.traits.within, present):
        because = f"there are {read_leaf(present.tree, row.traits.within)} of it here"
        return Left(knob=row.id, choices=(choice.id,), kind="elsewhere", because=because)
    return None


def _is_there(name: str, present: Present) -> bool:
    """Whether the release reads a flag, or a variable of the engine's own."""
    kind = present.subject.table.kind
    if not name.startswith(_OWN_VARIABLES) or kind not in lifetime_kinds():
        return present.has(name)
    build = present.subject.table.catalogue.build
    known = build if build in load_lifetimes(kind).releases else load_lifetimes(kind).releases[-1]
    return name in load_variables(kind, known)


def _is_beyond(choice: ChoiceRow, within: str, present: Present) -> bool:
    most = read_leaf(present.tree, within) if within else None
    if isinstance(most, Unknown) or not isinstance(most, (int, float)):
        return False
    told = [*choice.settings.values(), *choice.variables.values()]
    return any(number > most for number in map(to_number, told) if number is not None)


def _make_choice(choice: ChoiceRow, present: Present, *, is_whole: bool = True) -> Choice:
    """A choice in full, or what of it tells whether a deployment has it."""
    out = [name for name in choice.leaves_out if present.has(name)]
    along = choice.along if is_whole else {}
    return Choice(
        id=choice.id,
        settings={**choice.settings, **along, **{each: None for each in out if not each.isupper()}},
        variables={**choice.variables, **{each: None for each in out if each.isupper()}},
    )


def _find_default(
    row: KnobRow, there: Sequence[ChoiceRow], present: Present
) -> tuple[list[Choice], str]:
    """The choices with the present one among them, and which one that is."""
    choices = [_make_choice(each, present, is_whole=False) for each in there]
    whole = [_make_choice(each, present) for each in there]
    for explicitly in (True, False):
        for choice in choices:
            if present.holds(choice, explicitly=explicitly):
                return whole, choice.id
    names = dict.fromkeys(name for each in choices for name in (*each.settings, *each.variables))
    is_set = [name for name in names if present.is_set(name)]
    if not is_set and row.default in [each.id for each in choices]:
        return whole, row.default
    made = _as_it_is(list(names), present, taken={each.id for each in choices})
    return _put_in(whole, made, is_ordered=row.traits.is_ordered), made.id


def _as_it_is(names: Sequence[str], present: Present, *, taken: Collection[str]) -> Choice:
    """What the deployment has, where that is none of the choices that are known."""
    values = {name: present.value_of(name) if present.is_set(name) else None for name in names}
    values = {name: None if name == DRAFT_KEY else value for name, value in values.items()}
    if present.is_set(DRAFT_KEY):
        values.pop(DRAFT_KEY, None)
    told = [value for value in values.values() if value is not None]
    name = str(told[0]) if len(names) == 1 and told else _PRESENT if told else _UNSET
    return Choice(
        id=name if name not in taken else _PRESENT,
        settings={name: value for name, value in values.items() if not name.isupper()},
        variables={name: value for name, value in values.items() if name.isupper()},
        because="what the deployment has now",
    )


def _put_in(choices: list[Choice], made: Choice, *, is_ordered: bool) -> list[Choice]:
    """Among choices that have an order a number goes where it belongs."""
    number = _number_of(made)
    if not is_ordered or number is None:
        return [*choices, made]
    place = sum(1 for each in choices if (found := _number_of(each)) is None or found < number)
    return [*choices[:place], made, *choices[place:]]


def _number_of(choice: Choice) -> float | None:
    told = (*choice.settings.values(), *choice.variables.values())
    return next((number for number in map(to_number, told) if number is not None), None)


def _weigh(
    row: KnobRow, choices: Sequence[Choice], default: str, present: Present
) -> Iterator[Choice]:
    """The choices with what is thought of them before anything is measured, the default being 0."""
    known = {choice.id: (0.0, "") for choice in choices}
    for prior in reversed(row.prior):
        if _judge(prior.when, present).truth is True:
            because = f"{prior.because} ({tell_source(prior.source)})"
            for name in expand(prior.choices, tuple(known)):
                known[name] = (prior.value, because)
    for choice in choices:
        value, because = known[choice.id]
        yield replace(
            choice,
            prior=0.0 if choice.id == default else round(value - known[default][0], 4),
            because=because or choice.because,
        )


# What stays as it is


def _hold(row: KnobRow, knob: Knob, present: Present, wishes: Wishes) -> Left | None:
    """Why a knob is not varied though it could be; None for one that is."""
    names = list(
        dict.fromkeys(name for each in row.choice for name in (*each.settings, *each.variables))
    )
    others = tuple(each.id for each in knob.choices if each.id != knob.default)
    named = {row.id, *names}
    fixed = [name for name in names if present.is_fixed(name)]
    if fixed and not named & wishes.free:
        because = f"the deployment file sets {', '.join(fixed)}; name {row.id} to have it varied"
        return Left(knob=row.id, choices=others, kind="fixed", because=because)
    if row.traits.changes_answers and not named & wishes.consents:
        because = f"{_find_reason(knob)}; agree to {row.id} to have it varied"
        return Left(knob=row.id, choices=others, kind="consent", because=because)
    return None


def _find_reason(knob: Knob) -> str:
    """Why a knob waits for consent, in the words that repairs use where they have some."""
    values = [
        (name, str(value))
        for choice in knob.choices
        for name, value in choice.settings.items()
        if value is not None
    ]
    found = (
        row.reason
        for row in load_repair_consents()
        if any(row.covers(name, "flag", value) for name, value in values)
    )
    return next(found, _ANSWERS)


# What depends on what


def _closure(
    row: KnobRow, depends: Mapping[str, Mapping[str, tuple[str, ...]]]
) -> dict[str, tuple[str, ...]]:
    """What a knob depends on, with what that depends on."""
    whole = dict(row.only_with)
    for parent in row.only_with:
        whole = {**depends.get(parent, {}), **whole}
    return whole


def _expand_all(
    where: Mapping[str, tuple[str, ...]], knobs: Sequence[Knob], constants: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Ids for what rows say with ``!``, also of knobs that have one choice for good."""
    ids = {knob.id: tuple(each.id for each in knob.choices) for knob in knobs}
    return {
        name: expand(choices, ids.get(name, (constants.get(name, ""),)))
        if name in ids or name in constants
        else choices
        for name, choices in where.items()
    }


def _make_cuts(
    rows: SpaceRows,
    present: Present,
    knobs: Sequence[Knob],
    *,
    constants: Mapping[str, str],
    depends: Mapping[str, Mapping[str, tuple[str, ...]]],
) -> Iterator[Cut]:
    """The constraints that hold here; each only where all of its knobs mean something."""
    for row in rows.cut:
        if _judge(row.when, present).truth is not True:
            continue
        if not all(name in depends for name in row.where):
            continue
        where = _expand_all(row.where, knobs, constants)
        for name in row.where:
            needs = _expand_all(depends[name], knobs, constants)
            for parent, choices in needs.items():
                both = where.get(parent, choices)
                where[parent] = tuple(each for each in both if each in choices)
        yield Cut(where=where, because=row.because, source=tell_source(row.source))


def _tell_folded(space: Space, constants: Mapping[str, str]) -> Iterator[Left]:
    """What dependence and constraints have taken away, with their reasons."""
    meant = fold(replace(space, cuts=()), constants)
    names = {knob.id for knob in meant.knobs}
    for knob in space.knobs:
        if knob.id not in names:
            needs = ", ".join(knob.only_with)
            because = f"it means something only with choices of {needs} that are none here"
            others = tuple(each.id for each in knob.choices if each.id != knob.default)
            yield Left(knob=knob.id, choices=others, kind="elsewhere", because=because)
    told = {knob.id: {knob.default} for knob in meant.knobs}
    for cut in space.cuts:
        after = fold(replace(meant, cuts=(cut,)), constants)
        kept = {knob.id: {each.id for each in knob.choices} for knob in after.knobs}
        for name in cut.where:
            if name not in told:
                continue
            ids = [each.id for knob in meant.knobs if knob.id == name for each in knob.choices]
            gone = [
                each for each in ids if each not in kept.get(name, ()) and each not in told[name]
            ]
            told[name] |= set(gone)
            if gone:
                yield Left(
                    knob=name,
                    choices=tuple(gone),
                    kind="cut",
                    because=cut.because,
                    source=cut.source,
                )


def list_names(knob: Knob) -> tuple[str, ...]:
    """Everything that a knob writes: flags, entries, variables, ``draft``."""
    names = (name for each in knob.choices for name in (*each.settings, *each.variables))
    return tuple(dict.fromkeys(names))
