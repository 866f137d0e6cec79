"""Which kernels an engine lets one choose, and what each of them needs: data.

Called by the derived facts (:mod:`stoker.knowledge.derived.backends`). One folder an engine under
``data/backends``: the choices there are, and the limits of each name. A release that lifts a limit
is a row with another range; nothing here names a kernel, a GPU or a release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.conditions import Condition, list_paths, parse_condition
from stoker.knowledge.datafiles import check_source, list_data, read_json, read_toml
from stoker.knowledge.structure import structure
from stoker.knowledge.versions import parse_version, parse_version_range
from stoker.model.facts import Plain
from stoker.model.finding import Source

#: What becomes of a choice that does not fit: the engine ends at once; it fails or answers
#: nonsense later; it takes another one or does without something, and serves.
REFUSES, BREAKS, CHANGES = "refuses", "breaks", "changes"
EFFECTS = (REFUSES, BREAKS, CHANGES)
_FOLDER = "backends"
_PARTS = ("stack", "hardware", "checkpoint", "parallel", "settings", "env")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One thing that an engine lets one choose by name.

    ``flags`` without dashes, ``env`` the variables, ``tables`` flags whose value is a JSON table,
    each with the key in it. ``model``: the path of what the model itself says, for what is not a
    setting. ``names`` are those that are known where the engine's catalogue does not list them;
    ``aside`` those that nobody is advised to take, ``first`` those that are tried first, in this
    order, where another one answered nonsense. ``advises``: whether other names are offered.
    """

    id: str
    title: str
    flags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    names: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    advises: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What some names of a choice need, in some releases.

    It counts where ``where`` holds (always without one), and is broken unless ``needs`` holds
    (always, without one). ``flags`` narrows it to some flags of the choice. ``because`` is what
    a person reads, and may name paths in braces.
    """

    choice: str
    names: tuple[str, ...]
    versions: str = ""
    where: Condition | None = None
    needs: Condition | None = None
    because: str
    effect: str
    flags: tuple[str, ...] = ()
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The least compute capability that one quantization method asks for, first to last release."""

    name: str
    capability: int
    first: str
    last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """All choices of one engine and all their limits.

    ``index`` holds them by choice and name, ``asked`` the names below one part of the tree
    (``settings``) that some limit asks about.
    """

    engine: str
    choices: Mapping[str, Choice]
    limits: tuple[Limit, ...]
    index: Mapping[tuple[str, str], tuple[Limit, ...]]
    asked: Mapping[str, frozenset[str]]

    def limits_of(self, choice: str, name: str) -> tuple[Limit, ...]:
        """The limits that speak of one name, in their order."""
        return self.index.get((choice, normalise(name)), ())


def _index(limits: Sequence[Limit]) -> dict[tuple[str, str], tuple[Limit, ...]]:
    found: dict[tuple[str, str], tuple[Limit, ...]] = {}
    for limit in limits:
        for name in map(normalise, limit.names):
            found[limit.choice, name] = (*found.get((limit.choice, name), ()), limit)
    return found


def _asked(limits: Sequence[Limit], part: str) -> frozenset[str]:
    conditions = [each for limit in limits for each in (limit.where, limit.needs) if each]
    paths = (path for condition in conditions for path in list_paths(condition))
    return frozenset(path.split(".", 1)[1] for path in paths if path.startswith(f"{part}."))


def normalise(name: str) -> str:
    """A name as it is compared: engines take capitals and dashes for the same."""
    return name.strip().lower().replace("-", "_")


def backend_engines() -> tuple[str, ...]:
    """The engines whose kernels are known, sorted."""
    return tuple(sorted({name.partition("-")[0] for name in list_data(_FOLDER, ".toml")}))


@cache
def load_backends(engine: str) -> Backends:
    """What is known of an engine's kernels, empty for an engine without any. Raises DataError."""
    tables = {
        f"{_FOLDER}/{name}.toml": read_toml(f"{_FOLDER}/{name}.toml")
        for name in list_data(_FOLDER, ".toml")
        if name.partition("-")[0] == engine
    }
    has_floors = engine in list_data(_FOLDER, ".json")
    floors = read_json(f"{_FOLDER}/{engine}.json") if has_floors else None
    return parse_backends(engine, tables, floors)


def parse_backends(
    engine: str, tables: Mapping[str, Mapping[str, Plain]], floors: Plain = None
) -> Backends:
    """The tables by where they stand, and the generated floors, as one value. Raises DataError."""
    choices: list[Choice] = []
    limits: list[Limit] = []
    for where, data in tables.items():
        choices += structure(tuple[Choice, ...], data.get("choice", []), where=where)
        limits += [_parse_limit(row, where) for row in data.get("limit", [])]
    if floors is not None:
        limits += _parse_floors(floors, f"{_FOLDER}/{engine}.json")
    backends = Backends(
        engine=engine,
        choices={each.id: each for each in choices},
        limits=tuple(limits),
        index=_index(limits),
        asked={part: _asked(limits, part) for part in ("settings", "env")},
    )
    if len(backends.choices) != len(choices):
        raise DataError(f"{_FOLDER}: two choices of {engine} have the same id")
    for limit in limits:
        _check_limit(limit, backends, f"{_FOLDER}: {engine}: {limit.choice} {limit.names}")
    return backends


def _parse_limit(row: Plain, where: str) -> Limit:
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: a limit is a table, found {row!r}")
    named = f"{where}: {row.get('choice')} {row.get('names')}"
    conditions = {
        key: parse_condition(row[key], where=f"{named}.{key}")
        for key in ("where", "needs")
        if key in row
    }
    return structure(Limit, {**row, **conditions}, where=named)


def _parse_floors(data: Mapping[str, Plain], where: str) -> Iterator[Limit]:
    """The generated table of quantization methods, as limits like any other."""
    source = structure(Source, data["source"], where=where)
    for floor in structure(tuple[Floor, ...], data["floors"], where=where):
        yield Limit(
            choice="quantization",
            names=(floor.name,),
            versions=f">={_numbers(floor.first)},<={_numbers(floor.last)}",
            needs=_at_least(floor.capability, where),
            because=f"this method needs sm_{floor.capability} or newer, and this is "
            "{hardware.arch}",
            effect=REFUSES,
            source=source,
        )


def _numbers(release: str) -> str:
    """A release as ranges know it: what follows its numbers does not take part."""
    return ".".join(map(str, parse_version(release) or ()))


def _at_least(capability: int, where: str) -> Condition:
    return parse_condition({"path": "hardware.capability", "ge": capability}, where=where)


def _check_limit(limit: Limit, backends: Backends, where: str) -> None:
    check_source(limit.source, where=where)
    choice = backends.choices.get(limit.choice)
    if choice is None or not limit.names or not limit.because:
        raise DataError(f"{where}: a limit names a choice, its names, and says why")
    if not set(limit.flags) <= set(choice.flags):
        raise DataError(f"{where}: these are not flags of that choice")
    if limit.effect not in EFFECTS:
        raise DataError(f"{where}: an effect is one of {', '.join(EFFECTS)}")
    if limit.source.kind == "inferred" and limit.effect != CHANGES:
        raise DataError(f"{where}: what is only inferred may warn, never block")
    if limit.versions and parse_version_range(limit.versions) is None:
        raise DataError(f"{where}: {limit.versions} is no range of versions")
    for condition in (limit.where, limit.needs):
        if condition is not None:
            _check_paths(list_paths(condition), where)


def _check_paths(paths: Sequence[str], where: str) -> None:
    if lost := [path for path in paths if path.partition(".")[0] not in _PARTS]:
        raise DataError(f"{where}: limits read {', '.join(_PARTS)}, not {', '.join(lost)}")
