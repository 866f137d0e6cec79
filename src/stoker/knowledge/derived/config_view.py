"""Looking things up in a config.json that anybody may have written.

Called by the modules beside this one that classify a checkpoint. Whatever stands in the file, an
answer is a sane value, None or Unknown with the reason in the words of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stoker.knowledge.model_types import Count, load_model_types
from stoker.model.facts import Plain, Unknown

_MOST_SHOWN_CHARACTERS = 40
_MOST_DEPTH = 3

Table = Mapping[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigView:
    """``tables``: where to look, the language part's own first. ``file``: its name for reasons."""

    tables: tuple[Table, ...]
    file: str = "config.json"

    def find(self, path: str) -> Plain:
        """What stands at a dotted path in the first table that has it; None where none has."""
        return next((found for _, found in self._all((path,))), None)

    def has(self, path: str) -> bool:
        """Whether there is a value of any weight: not null, false, zero or empty."""
        return bool(self.find(path))

    def count(self, part: str) -> int | Unknown:
        """A count by its part in the data file, or Unknown with the reason."""
        wanted = load_model_types().counts[part]
        complaint = ""
        for name, value in self._all(wanted.names):
            found = _read_count(value, wanted)
            if found is not None:
                return found
            complaint = complaint or f"{self.file} gives {name} = {shorten(value)}"
        if complaint:
            return Unknown(reason=f"{complaint}, which cannot be")
        return Unknown(reason=f"{self.file} gives no {wanted.names[0]}")

    def names_any(self, part: str) -> bool:
        """Whether any name of a count stands there, whatever it says."""
        return any(True for _ in self._all(load_model_types().counts[part].names))

    def _all(self, names: tuple[str, ...]) -> Iterator[tuple[str, Plain]]:
        for table in self.tables:
            for name in names:
                found = _walk(table, name)
                if found is not None:
                    yield name, found


def view_config(config: Table, file: str = "config.json") -> ConfigView:
    """The tables of a config.json (or of ``file``), those of the language part first."""
    inner = [_walk(config, path) for path in load_model_types().nested]
    tables = [table for table in inner if isinstance(table, Mapping)]
    # One more step: some omni models keep a text_config inside of their nested table.
    deeper = [_walk(table, "text_config") for table in tables]
    first = [table for table in deeper if isinstance(table, Mapping)]
    return ConfigView(tables=(*first, *tables, config), file=file)


def shorten(value: Plain) -> str:
    """A value of a foreign file as a person may see it."""
    shown = f'"{value}"' if isinstance(value, str) else _name_kind(value)
    shown = shown.replace("\n", " ")
    return shown if len(shown) <= _MOST_SHOWN_CHARACTERS else f"{shown[:_MOST_SHOWN_CHARACTERS]}…"


def _name_kind(value: Plain) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 10**18 else "a number beyond all measure"
    return str(value)


def _walk(table: Plain, path: str) -> Plain:
    for name in path.split("."):
        if not isinstance(table, Mapping):
            return None
        table = table.get(name)
    return table


def _read_count(value: Plain, wanted: Count) -> int | None:
    """The value as a count within its bounds; a list counts where all its items are the same."""
    if isinstance(value, (list, tuple)):
        first = value[0] if value else None
        is_one = isinstance(first, int) and all(item == first for item in value)
        value = first if is_one else None
    if isinstance(value, float) and value == value and value.is_integer():
        value = int(value) if abs(value) < 1e18 else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if wanted.least <= value <= wanted.most else None
