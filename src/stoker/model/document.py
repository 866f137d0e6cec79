"""Values as JSON documents and back: what Stoker writes into its state folder, byte for byte.

Every module that stores or reads a plan, facts, a journal or a verification calls this. Writing
is light on purpose and never imports pydantic, since `stoker status` only looks; reading checks
everything, since a document may come from another Stoker, another hand or a broken disk.

The number in ``schema`` speaks for the outermost class and all that lies in it: when a nested
class changes its shape, every class with a SCHEMA that holds it gets a new number.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeVar

from stoker.errors import StateError
from stoker.model.facts import Plain

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

Value = TypeVar("Value")
Migration = Callable[[dict[str, Plain]], dict[str, Plain]]

_SURROGATE = re.compile("[\ud800-\udfff]")


def _give_timing(data: dict[str, Plain]) -> dict[str, Plain]:
    """A service of generation/1 had the seconds of its stop as a field of its own."""
    service = dict(data.get("service") or {})
    if "stop_timeout_seconds" in service:
        service["timing"] = {"stop_seconds": service.pop("stop_timeout_seconds")}
    return {**data, "service": service}


def _keep(data: dict[str, Plain]) -> dict[str, Plain]:
    """The next number only has keys more, all of which have a default."""
    return data


def _give_served(data: dict[str, Plain]) -> dict[str, Plain]:
    """A plan of plan/2 had the deployment alone, and nothing of what fits."""
    deployment = data.pop("deployment", None)
    return {**data, "served": None if deployment is None else {"deployment": deployment}}


#: For each schema that was once written: how its data becomes that of the next number.
MIGRATIONS: Mapping[str, Migration] = {
    "capacity/1": _keep,
    "generation/1": _give_timing,
    "launch/1": _keep,
    "plan/1": _keep,
    "plan/2": _give_served,
}


def render_document(value: object) -> str:
    """The value as a JSON document: indented, unicode kept, the schema first if it has one.

    Bytes of file names that are not UTF-8 (lone surrogates) become U+FFFD, as everywhere where
    text is read. Raises ValueError for numbers that JSON does not know, TypeError for what is not
    plain.
    """
    return _render(value, indent=2)


def render_line(value: object) -> str:
    """The same document on one line, for a journal: it ends with the only newline in it."""
    return _render(value, indent=None)


def parse_document(
    text: str,
    kind: type[Value],
    *,
    origin: str = "this document",
    migrations: Mapping[str, Migration] = MIGRATIONS,
) -> Value:
    """The value that a document holds. ``origin`` names it in errors, best by its path.

    Older documents go through ``migrations``, one number after the other. Raises StateError for
    anything but a whole document of this kind: an unknown key is an error, a missing one too
    unless it has a default.
    """
    data = _load(text, origin)
    schema = getattr(kind, "SCHEMA", "")
    if schema:
        data = _migrated(data, schema, origin=origin, migrations=migrations)
    return _validated(data, kind, schema or kind.__name__, origin)


def _render(value: object, indent: int | None) -> str:
    text = json.dumps(_with_schema(value), indent=indent, ensure_ascii=False, allow_nan=False)
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text) + "\n"


def _with_schema(value: object) -> Plain:
    schema = getattr(value, "SCHEMA", "")
    plain = _plain(value)
    return {"schema": schema, **plain} if schema else plain


def _plain(value: Any) -> Plain:
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # The fields are read one by one, since dataclasses.asdict copies all that is in them.
        return {field.name: _plain(getattr(value, field.name)) for field in _fields(type(value))}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value


@cache
def _fields(kind: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)


def _load(text: str, origin: str) -> dict[str, Plain]:
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _damaged(origin, f"it is not JSON at {place}") from error
    except (RecursionError, ValueError) as error:
        raise _damaged(origin, "its numbers or its depth are out of bounds") from error
    if not isinstance(data, dict):
        raise _damaged(origin, "it is JSON, but not an object")
    return data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _damaged(origin: str, why: str) -> StateError:
    return StateError(
        f"{origin} cannot be read: {why}",
        "it was changed by hand or cut short; restore it from a copy, or move it away",
    )


def _migrated(
    data: dict[str, Plain], schema: str, *, origin: str, migrations: Mapping[str, Migration]
) -> dict[str, Plain]:
    """The data as the known schema has it, without the key ``schema``."""
    written = data.pop("schema", None)
    name, number = _split(schema)
    written_name, written_number = _split(written)
    if written_number < 0:
        raise _damaged(origin, f"it does not say that its schema is {schema}")
    if written_name != name:
        raise StateError(f"{origin} has the schema {written}, not {schema}")
    if written_number > number:
        raise StateError(
            f"{origin} was written by a newer Stoker ({written}; this one knows {schema})",
            "use that Stoker, or a later one",
        )
    for old in range(written_number, number):
        migrate = migrations.get(f"{name}/{old}")
        if migrate is None:
            raise StateError(
                f"{origin} was written by an older Stoker ({written}), and this one can no longer "
                "read it",
                "read it with the Stoker that wrote it, or move it away",
            )
        data = migrate(data)
    return data


def _split(schema: Plain) -> tuple[str, int]:
    """The name and the number of ``plan/1``; a number below zero where it is none."""
    if not isinstance(schema, str):
        return "", -1
    name, _, number = schema.partition("/")
    is_number = name != "" and number.isascii() and number.isdecimal() and len(number) < 9
    return name, int(number) if is_number else -1


def _validated(data: dict[str, Plain], kind: type[Value], schema: str, origin: str) -> Value:
    from pydantic import ValidationError

    any_kind: Any = kind
    try:
        values: tuple[Value] = _adapter(any_kind).validate_json(json.dumps([data]))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _damaged(origin, _sentence(first, schema)) from error
    return values[0]


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    # A dataclass takes the strictness of what it lies in; on its own it could not be given one.
    holder: Any = GenericAlias(tuple, (kind,))
    return TypeAdapter(holder, config=ConfigDict(extra="forbid", strict=True))


def _sentence(error: ErrorDetails, schema: str) -> str:
    path = ".".join(str(part) for part in error["loc"][1:])
    if error["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return f"`{path}` is missing"
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"`{path}` is unknown to {schema}"
    place = f" at `{path}`" if path else ""
    return f"what stands{place or ' in it'} does not belong into {schema}"
