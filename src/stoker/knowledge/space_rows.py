"""What can be tuned in each engine, as data: knobs with their choices, and what excludes what.

Called by :mod:`stoker.knowledge.spaces`, which makes a space for one deployment of it. A row says
everything in the engine's own words and carries a source; a choice that a release does not have is
left out by the release's own flags, so rows need no range for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.conditions import Condition, parse_condition
from stoker.knowledge.datafiles import check_source, list_data, read_toml
from stoker.knowledge.structure import structure
from stoker.model.facts import Plain
from stoker.model.finding import Source

_FOLDER = "spaces"
#: Before a choice's id: all choices but this one.
NOT = "!"
#: The name of a setting that is no flag: the deployment's own key for a model that drafts.
DRAFT_KEY = "draft"
_PARTS = frozenset({"knob", "cut"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRow:
    """One value of a knob.

    ``settings`` by the flags' names without dashes; a name with a dot is an entry of the JSON
    object that the flag takes. ``along``: what is written with them and says nothing of which
    choice a deployment has. ``leaves_out``: flags, variables, or ``draft``, that are not set then.
    ``when``: where it is a choice at all.
    """

    id: str
    settings: Mapping[str, Plain] = field(default_factory=dict)
    along: Mapping[str, Plain] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    leaves_out: tuple[str, ...] = ()
    when: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorRow:
    """How much better than the default some choices are thought to be, where ``when`` holds.

    ``value``: the logarithm of the ratio of the objective's values.
    """

    choices: tuple[str, ...]
    value: float
    because: str
    source: Source
    when: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a knob is like. ``within``: a path of the description; larger numbers than stands there
    are no choices. ``changes_answers``: other choices may answer otherwise, and wait for the
    owner's consent."""

    is_ordered: bool = False
    restarts: bool = True
    changes_answers: bool = False
    spread: float = 0.1
    within: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobRow:
    """One thing that can be set.

    ``name`` with ``values`` is short for one choice a value; a name in capitals is a variable.
    ``unset`` names the choice that leaves it out, empty where there is none. ``default``: the
    choice that counts where the knob is not set at all and the engine names no default.
    """

    id: str
    title: str
    name: str = ""
    values: tuple[Plain, ...] = ()
    unset: str = ""
    default: str = ""
    choice: tuple[ChoiceRow, ...] = ()
    prior: tuple[PriorRow, ...] = ()
    when: Condition | None = None
    only_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    traits: Traits = Traits()
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRow:
    """Choices that exclude each other where ``when`` holds."""

    where: Mapping[str, tuple[str, ...]]
    because: str
    source: Source
    when: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceRows:
    """All rows about one engine."""

    engine: str
    knob: tuple[KnobRow, ...]
    cut: tuple[CutRow, ...] = ()


def space_engines() -> tuple[str, ...]:
    """The engines of which it is known what can be tuned."""
    return list_data(_FOLDER, ".toml")


@cache
def load_space_rows(engine: str) -> SpaceRows:
    """The rows about an engine; none for one that nobody has described. Raises DataError."""
    if engine not in space_engines():
        return SpaceRows(engine=engine, knob=())
    origin = f"{_FOLDER}/{engine}.toml"
    return parse_space_rows(read_toml(origin), engine=engine, origin=origin)


def parse_space_rows(data: Mapping[str, Plain], *, engine: str, origin: str) -> SpaceRows:
    """The rows in JSON-shaped data; ``origin`` names it in the DataError of a malformed row."""
    if unknown := set(data) - _PARTS:
        raise DataError(f"{origin}: unknown {', '.join(sorted(unknown))}")
    knobs = [_parse_knob(row, f"{origin}: knob {n + 1}") for n, row in enumerate(data["knob"])]
    cuts = [_parse_cut(row, f"{origin}: cut {n + 1}") for n, row in enumerate(data.get("cut", ()))]
    rows = SpaceRows(engine=engine, knob=tuple(knobs), cut=tuple(cuts))
    _check_names(rows, origin)
    return rows


def expand(wanted: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The ids that a row means, of those that there are: ``!x`` is all but x."""
    excluded = {each.removeprefix(NOT) for each in wanted if each.startswith(NOT)}
    if excluded:
        return tuple(each for each in known if each not in excluded)
    return tuple(each for each in known if each in wanted)


def name_value(value: Plain) -> str:
    """The id of the choice that a value is."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _parse_knob(row: Plain, where: str) -> KnobRow:
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: a knob is a table")
    where = f"{where} ({row.get('id', 'without an id')})"
    parts = {
        name: tuple(
            structure(kind, _with_condition(each, where), where=where) for each in row.get(name, ())
        )
        for name, kind in (("choice", ChoiceRow), ("prior", PriorRow))
    }
    written = structure(KnobRow, {**_with_condition(row, where), **parts}, where=where)
    made = replace(written, choice=(*_spell_out(written), *written.choice))
    _check_knob(made, where)
    return made


def _parse_cut(row: Plain, where: str) -> CutRow:
    cut = structure(CutRow, _with_condition(row, where), where=where)
    check_source(cut.source, where=where)
    if len(cut.where) < 1 or not cut.because.endswith("."):
        raise DataError(f"{where}: a cut names knobs and gives its reason in a sentence")
    return cut


def _with_condition(row: Plain, where: str) -> dict[str, Plain]:
    if "when" not in row:
        return dict(row)
    return {**row, "when": parse_condition(row["when"], where=f"{where}.when")}


def _spell_out(knob: KnobRow) -> Iterator[ChoiceRow]:
    """The choices that ``name``, ``values`` and ``unset`` stand for."""
    if knob.unset:
        yield ChoiceRow(id=knob.unset, leaves_out=(knob.name,))
    for value in knob.values:
        if knob.name.isupper():
            yield ChoiceRow(id=name_value(value), variables={knob.name: str(value)})
        else:
            yield ChoiceRow(id=name_value(value), settings={knob.name: value})


def _check_knob(knob: KnobRow, where: str) -> None:
    ids = [choice.id for choice in knob.choice]
    if len(ids) < 2 or len(set(ids)) < len(ids):
        raise DataError(f"{where}: a knob has two choices or more, each with a name of its own")
    if knob.default and knob.default not in ids:
        raise DataError(f"{where}: the default {knob.default} is none of its choices")
    if bool(knob.values) and not knob.name:
        raise DataError(f"{where}: values of what?")
    for each in (knob.source, *(prior.source for prior in knob.prior)):
        check_source(each, where=where)
    for prior in knob.prior:
        if lost := set(prior.choices) - {*ids, *(f"{NOT}{each}" for each in ids)}:
            raise DataError(f"{where}: a prior is about {', '.join(sorted(lost))}")


def _check_names(rows: SpaceRows, origin: str) -> None:
    """Conditions of one row on another name knobs and choices that there are."""
    known = {knob.id: {choice.id for choice in knob.choice} for knob in rows.knob}
    if len(known) < len(rows.knob):
        raise DataError(f"{origin}: two knobs have one name")
    named = [*(knob.only_with for knob in rows.knob), *(cut.where for cut in rows.cut)]
    for where in named:
        for knob, choices in where.items():
            if knob not in known:
                raise DataError(f"{origin}: there is no knob {knob}")
            if lost := {each.removeprefix(NOT) for each in choices} - known[knob]:
                raise DataError(f"{origin}: {knob} has no choice {', '.join(sorted(lost))}")
