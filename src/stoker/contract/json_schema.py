"""Whether a value is valid by one of our own JSON Schemas, and whether a cut text began as JSON.

The checks of structured output and of tool calls use it. It knows exactly the keywords that their
schemas use (JSON Schema 2020-12): type, enum, const, properties, required, additionalProperties
(false alone), items, minItems, maxItems, minimum, maximum, minLength, maxLength and pattern. Any
other keyword is an error of ours. Pure; it is total over values, which may be whatever a server
sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from stoker.contract.judgement import quote
from stoker.errors import DataError
from stoker.model.facts import Plain

Schema = Mapping[str, Any]

_TYPES: Mapping[str, Callable[[Plain], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    # 2.0 is an integer as JSON Schema has it.
    "integer": lambda value: (
        not isinstance(value, bool)
        and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
}

#: Each says whether a value keeps to a bound; only values of a fitting type come here.
_BOUNDS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("number", lambda value, bound: value >= bound),
    "maximum": ("number", lambda value, bound: value <= bound),
    "minLength": ("string", lambda value, bound: len(value) >= bound),
    "maxLength": ("string", lambda value, bound: len(value) <= bound),
    "pattern": ("string", lambda value, bound: re.search(bound, value) is not None),
    "minItems": ("array", lambda value, bound: len(value) >= bound),
    "maxItems": ("array", lambda value, bound: len(value) <= bound),
}

_OBJECT_KEYWORDS = ("properties", "required", "additionalProperties")
_REMARKS = ("title", "description")


def find_schema_flaw(value: Plain, schema: Schema) -> str:
    """Why the value is not valid, with the place in it, as half a sentence; empty if it is.

    Raises DataError for a keyword that is not known here.
    """
    return _find_flaw(value, schema, "")


def _find_flaw(value: Plain, schema: Schema, place: str) -> str:
    name = place or "the whole"
    for keyword, wanted in schema.items():
        flaw = _find_keyword_flaw(value, keyword, wanted, name)
        if flaw:
            return flaw
    return _find_inner_flaw(value, schema, place)


def _find_keyword_flaw(value: Plain, keyword: str, wanted: Any, name: str) -> str:
    if keyword in (*_OBJECT_KEYWORDS, *_REMARKS, "items"):
        return ""
    if keyword == "type":
        types = [wanted] if isinstance(wanted, str) else wanted
        is_kept = any(_TYPES[each](value) for each in types)
        return "" if is_kept else f"{name} is {quote(value)}, not of the type {' or '.join(types)}"
    if keyword in ("enum", "const"):
        allowed = wanted if keyword == "enum" else [wanted]
        is_kept = any(_is_same(value, each) for each in allowed)
        return "" if is_kept else f"{name} is {quote(value)}, not one of {quote(list(allowed))}"
    if keyword not in _BOUNDS:
        raise DataError(f"the schema keyword {keyword} is not known")
    kind, keeps = _BOUNDS[keyword]
    if not _TYPES[kind](value) or keeps(value, wanted):
        return ""
    return f"{name} is {quote(value)}, against {keyword} {wanted}"


def _is_same(value: Plain, other: Plain) -> bool:
    """Whether two values are one in JSON, where true is not 1."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def _find_inner_flaw(value: Plain, schema: Schema, place: str) -> str:
    if isinstance(value, list) and "items" in schema:
        inner = ((each, schema["items"], f"{place}[{n}]") for n, each in enumerate(value))
        return next(filter(None, (_find_flaw(*each) for each in inner)), "")
    if not isinstance(value, dict):
        return ""
    properties: Mapping[str, Schema] = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            return f"{_join(place, key)} is missing"
    for key, each in value.items():
        if key in properties:
            flaw = _find_flaw(each, properties[key], _join(place, key))
        else:
            is_allowed = schema.get("additionalProperties", True) is not False
            flaw = "" if is_allowed else f"{place or 'the whole'} has the unknown key {quote(key)}"
        if flaw:
            return flaw
    return ""


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


#: What may stand where a number or a literal was cut.
_CUT_WORD = re.compile(r"-|[.]|(?:[.]\d*)?[eE][+-]?|t|tr|tru|f|fa|fal|fals|n|nu|nul", re.ASCII)


def is_json_beginning(text: str) -> bool:
    """Whether a text could be the beginning of JSON that a limit cut off, or is JSON already."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos :].strip()
        if error.msg.startswith("Unterminated string"):
            return True
        if "escape" in error.msg:
            return len(rest) < len("\\uXXXX")
        return not rest or _CUT_WORD.fullmatch(rest) is not None
    except (ValueError, RecursionError):
        return False
    return True
