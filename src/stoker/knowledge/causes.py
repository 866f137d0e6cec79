"""Causes: what can go wrong, in a sentence, and what mends it, as data.

Called by :mod:`stoker.diagnosis`. Signatures name a cause by its ``kind``; so does a rule that
fires. Repairs stand in order of worth: the surest and least costly first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.conditions import Condition, parse_condition
from stoker.knowledge.datafiles import check_source, list_data, parse_toml, read_text
from stoker.knowledge.structure import structure
from stoker.model.diagnosis import Gravity
from stoker.model.facts import Plain
from stoker.model.finding import Source

_FOLDER = "causes"
#: What lies deeper breaks what lies above it: the first one is looked for here in this order.
LAYERS = ("hardware", "driver", "system", "files", "network", "library", "engine", "service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A number to be changed by a step: ``add`` or ``multiply``, from what is set now or else from
    ``start``, kept between ``least`` and ``most``. ``is_whole`` cuts it to a whole number, of
    which ``multiple_of`` is a part. ``above`` is a path of the tree: where a number stands there,
    the next value is ``add`` above it at least, however little is set now."""

    key: str
    add: float = 0.0
    multiply: float = 1.0
    start: float | None = None
    least: float | None = None
    most: float | None = None
    is_whole: bool = False
    multiple_of: int = 1
    above: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRow:
    """One way to mend.

    ``text``, texts in ``changes`` and ``commands`` may name paths of the tree in braces;
    ``changes`` whose value is not known are left out, and a repair without the words of its text
    is offered last. ``takes_out`` are keys of the deployment file that go. ``when``: only where it
    holds; where that cannot be judged, it is offered behind those that surely apply.
    ``engines``: kinds it is for, all where empty. ``consent``: what the owner must agree to.
    ``tries``: choices of kernels (``knowledge/data/backends``); the row then stands for one repair
    each of the names that fit here, and its text names them as ``{tried.words}``.
    """

    text: str
    when: Condition | None = None
    engines: tuple[str, ...] = ()
    changes: Mapping[str, Plain] = field(default_factory=dict)
    takes_out: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    commands: tuple[str, ...] = ()
    consent: str = ""
    tries: tuple[str, ...] = ()
    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """One cause. ``meaning`` is a sentence that may name paths of the tree in braces; ``rules``
    speak for it where they fire."""

    kind: str
    title: str
    meaning: str
    layer: str
    gravity: Gravity = Gravity.ERROR
    settled_by: str = ""
    rules: tuple[str, ...] = ()
    source: Source
    repair: tuple[RepairRow, ...] = ()


@cache
def load_causes() -> Mapping[str, CauseRow]:
    """All causes by their kinds. Raises DataError."""
    found: dict[str, CauseRow] = {}
    for topic in list_data(_FOLDER, ".toml"):
        origin = f"{_FOLDER}/{topic}.toml"
        for row in parse_causes(read_text(origin), origin=origin):
            if row.kind in found:
                raise DataError(f"{origin}: there are two causes named {row.kind}")
            found[row.kind] = row
    return found


def parse_causes(text: str, *, origin: str) -> tuple[CauseRow, ...]:
    """The causes of one TOML text; ``origin`` names it in the DataError."""
    data = parse_toml(text, origin=origin)
    rows = data.get("cause")
    if set(data) != {"cause"} or not isinstance(rows, list):
        raise DataError(f"{origin}: expected [[cause]] blocks and nothing else")
    return tuple(_parse_cause(row, f"{origin}: cause {n + 1}") for n, row in enumerate(rows))


def _parse_cause(row: Plain, where: str) -> CauseRow:
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: expected a table")
    where = f"{where} ({row.get('kind', 'without a kind')})"
    repairs = [_parse_repair(each, where) for each in row.get("repair", [])]
    cause = structure(CauseRow, {**row, "repair": repairs}, where=where)
    check_source(cause.source, where=where)
    if cause.layer not in LAYERS:
        raise DataError(f"{where}: a layer is one of {', '.join(LAYERS)}")
    return cause


def _parse_repair(row: Plain, where: str) -> RepairRow:
    if isinstance(row, Mapping) and "when" in row:
        row = {**row, "when": parse_condition(row["when"], where=f"{where}.repair.when")}
    repair = structure(RepairRow, row, where=f"{where}.repair")
    if repair.source is not None:
        check_source(repair.source, where=f"{where}.repair")
    return repair
