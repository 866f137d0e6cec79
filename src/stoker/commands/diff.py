"""`stoker diff A B`: how two starts of a server differ, flag by flag and variable by variable."""

from __future__ import annotations

from dataclasses import replace

from stoker.commands.compared import Compared, find_side, find_table
from stoker.commands.engine_flags import find_version
from stoker.commands.world import World
from stoker.knowledge.variables import load_variables
from stoker.model.comparison import Comparison, Side
from stoker.model.engine_table import EngineTable
from stoker.planning.compare import compare_sides
from stoker.planning.sides import build_side, find_program, find_server
from stoker.ports import ReadableHost


def diff_sides(world: World, a: str, b: str, *, compares_all: bool = False) -> Comparison:
    """Compare what two words name; see :func:`stoker.commands.compared.find_side`.

    Reads only. Raises UsageError, and what reading a side raises.
    """
    one, other = find_side(world, a), find_side(world, b)
    one, other = _told_by(one, other), _told_by(other, one)
    return compare(world.host, one, other, compares_all=compares_all)


def compare(
    host: ReadableHost, one: Compared, other: Compared, *, compares_all: bool = False
) -> Comparison:
    """Compare two starts that were read already. Defaults of two releases are not compared."""
    tables = [_table_of(host, each) for each in (one, other)]
    a, b = _side(one, tables[0]), _side(other, tables[1])
    table = tables[0] if tables[0] == tables[1] else None
    return compare_sides(
        a,
        b,
        catalogue=table.catalogue if table else None,
        variables=load_variables(),
        compares_all=compares_all,
    )


def _told_by(one: Compared, other: Compared) -> Compared:
    """A program under a name that nobody knows is the engine that the other side says it is."""
    if find_server(one.start).kind or find_program(one.start) != find_program(other.start):
        return one
    kind = find_server(other.start).kind
    return replace(one, start=replace(one.start, kind=kind))


def _table_of(host: ReadableHost, compared: Compared) -> EngineTable | None:
    kind = find_server(compared.start).kind
    return find_table(kind, find_version(host, kind, compared.start.argv)) if kind else None


def _side(compared: Compared, table: EngineTable | None) -> Side:
    return build_side(compared.start, table, load_variables(), compared.read_text)
