"""The files: one catalogue a release, and what follows from all of an engine's catalogues."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from scripts.read_flags.engines import Reading
from scripts.read_flags.rows import Row, make_rows, make_variable_rows

#: Keys that are left out where they say nothing.
_EMPTY: tuple[object, ...] = (None, "", [], {})


def make_catalogue(reading: Reading) -> dict[str, object]:
    """A release's catalogue; options and variables are sorted by name, so that releases compare."""
    package = reading.package
    parsers = sorted({argument.member for argument in reading.arguments})
    others = len(package.used - set(parsers))
    return {
        "engine": reading.engine,
        "build": package.version,
        "source": {
            "kind": "documented",
            "where": f"{package.file}: {', '.join(parsers)}, and {others} files that they refer to",
            "version": package.version,
        },
        "options": sorted(make_rows(reading), key=lambda row: row["names"][0].lstrip("-")),
        "variables": make_variable_rows(reading.variables),
    }


def render_catalogue(catalogue: Mapping[str, object]) -> str:
    """JSON with one option a line, so that two releases can be compared line by line."""
    head = {key: value for key, value in catalogue.items() if not isinstance(value, list)}
    parts = [
        f" {json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in head.items()
    ]
    for key, value in catalogue.items():
        if isinstance(value, list):
            parts.append(f' "{key}": {_render_rows(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _render_rows(rows: Iterable[Row]) -> str:
    lines = ",\n".join(f"  {json.dumps(_strip(row), sort_keys=True)}" for row in rows)
    return f"[\n{lines}\n ]"


def _strip(row: Row) -> Row:
    """A row without what it does not say; whether it has an argument is always said."""
    kept = ("argument", "deprecated_by", "default")
    return {
        key: value
        for key, value in row.items()
        if value not in _EMPTY or key == "argument" or (key in kept and value == "")
    }


def find_lifetimes(catalogues: Sequence[Row]) -> dict[str, list[str]]:
    """For each flag the first and the last release that has it, in pairs: it may come back.

    ``catalogues`` stand in the order of their releases.
    """
    spans: dict[str, list[str]] = {}
    before = ""
    for catalogue in catalogues:
        release = str(catalogue["build"])
        for name in sorted(_names(catalogue)):
            span = spans.setdefault(name, [])
            if span and span[-1] == before:
                span[-1] = release
            else:
                span += [release, release]
        before = release
    return dict(sorted(spans.items()))


def find_renames(catalogues: Sequence[Row]) -> list[Row]:
    """What the releases themselves say about new names for flags, each at the first that says so.

    A flag is deprecated in favour of another one; or two names of one option became one; or a
    name that was there before now stands behind a new one of the same option.
    """
    found: dict[tuple[str, str], Row] = {}
    previous: Row | None = None
    before: set[str] = set()
    for catalogue in catalogues:
        last = _names(previous) if previous else set()
        said = [
            *_replaced(catalogue),
            *_dropped(previous, catalogue),
            *_joined(before, last, catalogue),
        ]
        for old, new, says in said:
            row = {"old": old, "new": new, "release": catalogue["build"], "says": says}
            found.setdefault((old, new), row)
        previous = catalogue
        before |= _names(catalogue)
    return list(found.values())


def _names(catalogue: Row) -> set[str]:
    return {name for option in catalogue["options"] for name in option["names"]}


def _replaced(catalogue: Row) -> Iterable[tuple[str, str, str]]:
    for option in catalogue["options"]:
        if option.get("deprecated_by", "").startswith("--"):
            yield (
                option["names"][0],
                option["deprecated_by"],
                "the option itself names what replaces it",
            )


def _dropped(before: Row | None, now: Row) -> Iterable[tuple[str, str, str]]:
    """Names that are gone while another name of the same option is still there."""
    names = _names(now)
    for option in before["options"] if before else ():
        own = _own_names(option)
        kept = [name for name in own if name in names]
        for name in own if kept else ():
            if name not in names:
                yield name, kept[0], "both were names of one option before"


def _joined(before: set[str], last: set[str], now: Row) -> Iterable[tuple[str, str, str]]:
    """Names from before that are now the second name of an option, which they were not.

    Either the first name is new, or the second one was gone in the release before.
    """
    for option in now["options"] if before else ():
        first, *others = _own_names(option) or [""]
        for name in others:
            if name in before and (first not in before or name not in last):
                yield name, first, "the old name stands behind the new one of the same option"


def _own_names(option: Row) -> list[str]:
    """The long names of an option, without those behind them that switch it off."""
    names = option["names"]
    negative = [name for name in names if f"--{name.removeprefix('--no-')}" in names]
    first = next((names.index(name) for name in negative if name.startswith("--no-")), len(names))
    return [name for name in names[:first] if name.startswith("--")]


def render_lifetimes(engine: str, releases: Sequence[str], spans: Mapping[str, object]) -> str:
    """JSON with one flag a line."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(span)}" for name, span in spans.items())
    head = f' "engine": {json.dumps(engine)},\n "releases": {json.dumps(list(releases))}'
    return f'{{\n{head},\n "flags": {{\n{lines}\n }}\n}}\n'


def render_renames(engine: str, renames: Iterable[Row]) -> str:
    """TOML with one table a rename."""
    text = (
        f"# Made by scripts/read_flags from the catalogues beside it: what {engine} itself says.\n"
    )
    for row in renames:
        where = f"{engine}'s own parser: {row['says']}"
        source = {"kind": "documented", "where": where, "version": row["release"]}
        shown = ", ".join(f"{key} = {json.dumps(value)}" for key, value in source.items())
        text += (
            f"\n[[rename]]\nold = {json.dumps(row['old'])}\nnew = {json.dumps(row['new'])}\n"
            f"release = {json.dumps(row['release'])}\nsource = {{ {shown} }}\n"
        )
    return text
