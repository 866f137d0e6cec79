"""Find the flags of an engine that are named otherwise than the fields they fill.

Notes and issues often name a field of the engine's arguments where they mean its flag. The
published packages are read as `scripts.read_flags` reads them; nothing of them is run.

    python scripts/fetch_flag_sources.py sglang 0.5.22 0.5.23
    python -m scripts.read_field_names .cache/flag-sources/sglang/*

writes `field_names/ENGINE.json` anew from all the packages that are named: give every release.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from scripts.read_flags.engines import Reading, read_engine
from scripts.read_flags.package import open_package
from scripts.read_flags.values import Argument
from stoker.knowledge.lifetimes import order_releases

DATA = Path(__file__).resolve().parents[1] / "src" / "stoker" / "knowledge" / "data"
#: Functions of a package call each other deeper than Python's own limit.
_RECURSION_LIMIT = 10_000

#: By field: its flag, and the first and last release that says so.
Fields = dict[str, list[str]]


def read_fields(arguments: Iterable[Argument]) -> dict[str, str]:
    """The first long flag of each field whose own name, with dashes, is no flag at all."""
    listed = list(arguments)
    flags = {str(name) for argument in listed for name in argument.names}
    found: dict[str, str] = {}
    for argument in listed:
        long = [str(name) for name in argument.names if str(name).startswith("--")]
        field = argument.options.get("dest")
        if isinstance(field, str) and long and f"--{field.replace('_', '-')}" not in flags:
            found[field] = long[0]
    return found


def merge_fields(readings: Mapping[str, Mapping[str, str]]) -> Fields:
    """The fields of all releases, by field; a field whose flag changed has its newest one."""
    merged: Fields = {}
    for release in order_releases(readings):
        for field, flag in readings[release].items():
            known = merged.get(field)
            first = known[1] if known and known[0] == flag else release
            merged[field] = [flag, first, release]
    return dict(sorted(merged.items()))


def render_fields(engine: str, releases: Sequence[str], fields: Fields) -> str:
    """The data file: one field a line."""
    source = {
        "kind": "documented",
        "where": f"the destinations of the parser's arguments, {len(releases)} published packages",
        "version": f"{releases[0]} to {releases[-1]}",
    }
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in fields.items())
    return (
        f'{{\n "engine": {json.dumps(engine)},\n "source": {json.dumps(source)},\n'
        f' "fields": {{\n{lines}\n }}\n}}\n'
    )


def main(paths: Sequence[str]) -> None:
    """Read every package and write one file for each engine."""
    sys.setrecursionlimit(_RECURSION_LIMIT)
    readings: dict[str, dict[str, Reading]] = {}
    for path in paths:
        reading = read_engine(open_package(Path(path)))
        readings.setdefault(reading.engine, {})[reading.package.version] = reading
    for engine, found in readings.items():
        releases = order_releases(found)
        fields = merge_fields({each: read_fields(found[each].arguments) for each in releases})
        folder = DATA / "field_names"
        folder.mkdir(exist_ok=True)
        text = render_fields(engine, releases, fields)
        (folder / f"{engine}.json").write_text(text, encoding="utf-8")
        sys.stdout.write(f"{engine}: {len(fields)} fields in {len(releases)} releases\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
