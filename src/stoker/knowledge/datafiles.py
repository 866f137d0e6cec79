"""Reading the data files of our own package.

Called by the loaders of :mod:`stoker.knowledge` alone. It opens what ships with the package and
must never read anything of the host.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable

from stoker.errors import DataError
from stoker.model.facts import Plain
from stoker.model.finding import Source

_SOURCE_KINDS = ("observed", "documented", "inferred")


def list_data(folder: str, suffix: str) -> tuple[str, ...]:
    """The names without suffix of the files in a data folder, sorted."""
    names = (entry.name for entry in _locate(folder).iterdir())
    return tuple(sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix)))


def read_text(path: str) -> str:
    """The text of a data file, by its path below ``data``. Raises DataError."""
    try:
        return _locate(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"data file {path} cannot be read: {error}") from error


def read_toml(path: str) -> dict[str, Plain]:
    """A TOML data file. Raises DataError."""
    return parse_toml(read_text(path), origin=path)


def parse_toml(text: str, *, origin: str) -> dict[str, Plain]:
    """TOML text as a table; ``origin`` names it in the DataError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"data file {origin} is not TOML: {error}") from error


def read_json(path: str) -> Plain:
    """A JSON data file. Raises DataError."""
    try:
        return json.loads(read_text(path))
    except ValueError as error:
        raise DataError(f"data file {path} is not JSON: {error}") from error


def read_modules(names: Sequence[str]) -> dict[str, str]:
    """Files of the package ``stoker`` itself, their text by their path below it.

    A name that ends in ``.py`` is a file, any other a folder with all modules in it, deep down.
    Raises DataError.
    """
    package = files("stoker")
    found: dict[str, str] = {}
    for name in names:
        try:
            found |= dict(_walk_modules(package.joinpath(name), name))
        except OSError as error:
            raise DataError(f"the package has no {name}: {error}") from error
    return found


def _walk_modules(place: Traversable, path: str) -> Iterator[tuple[str, str]]:
    if path.endswith(".py"):
        yield path, place.read_text(encoding="utf-8")
        return
    for entry in sorted(place.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".py") or (entry.is_dir() and entry.name != "__pycache__"):
            yield from _walk_modules(entry, f"{path}/{entry.name}")


def check_source(source: Source, *, where: str) -> None:
    """Refuse knowledge that does not say where it comes from (DataError).

    ``observed`` needs a date, anything else a version or a date; ``where`` names the row.
    """
    if source.kind not in _SOURCE_KINDS:
        raise DataError(f"{where}: a source is one of {', '.join(_SOURCE_KINDS)}")
    if not source.where:
        raise DataError(f"{where}: the source does not say where")
    if source.kind == "observed" and not source.date:
        raise DataError(f"{where}: an observation needs its date")
    if not (source.version or source.date):
        raise DataError(f"{where}: a source needs a version or a date")


def _locate(path: str) -> Traversable:
    return files("stoker.knowledge").joinpath("data", path)
