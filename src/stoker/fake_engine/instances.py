"""Instances: data that a JSON schema allows, and text that a regular expression matches.

Pure, and the simplest that will do: the first of an enumeration, the least of a range. A ``hint``
says what the model would like to say there; it is taken where it is allowed.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Mapping
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Schema = Any
#: What the model would say for a key of an object, None where it has no idea.
Hint = Callable[[str, Schema], Any]

_FORMATS = {
    "date": "2026-05-17",
    "date-time": "2026-05-17T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "ana@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "6f1c2f3a-0b7e-4c43-9d52-3a1f5b1c7e90",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.com",
}
_DEEPEST = 12
_LETTERS = string.ascii_letters + string.digits + " _-.,:;/@#+*'\"!?()[]{}=<>&%$|~^\\\n\t\u00e9"


def no_hint(key: str, schema: Schema) -> Any:
    """No idea of any key."""
    return None


def make_instance(schema: Schema, hint: Hint = no_hint, *, is_full: bool = True) -> Any:
    """Data that the schema allows; with ``is_full`` with its optional keys, too."""
    return _Maker(schema, hint, is_full=is_full).make("", schema, 0)


class _Maker:
    def __init__(self, root: Schema, hint: Hint, *, is_full: bool) -> None:
        self._root, self._hint, self._is_full = root, hint, is_full

    def make(self, key: str, schema: Schema, depth: int) -> Any:
        schema = self._resolve(schema)
        if not isinstance(schema, Mapping):
            return None
        if "const" in schema:
            return schema["const"]
        wish = self._hint(key, schema)
        if schema.get("enum"):
            return _pick(schema["enum"], wish)
        for word in ("anyOf", "oneOf"):
            if schema.get(word):
                rest = {name: value for name, value in schema.items() if name != word}
                return self.make(key, _merge([rest, self._choose(schema[word], depth)]), depth)
        kind = _kind(schema)
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(key, schema, wish, depth)
        return _scalar(kind, key, schema, wish)

    def _resolve(self, schema: Schema) -> Schema:
        for _ in range(_DEEPEST):
            if not isinstance(schema, Mapping):
                return schema
            if "$ref" in schema:
                rest = {name: value for name, value in schema.items() if name != "$ref"}
                schema = _merge([self._find(str(schema["$ref"])), rest])
            elif schema.get("allOf"):
                rest = {name: value for name, value in schema.items() if name != "allOf"}
                schema = _merge([rest, *map(self._resolve, schema["allOf"])])
            else:
                return schema
        return {}

    def _find(self, reference: str) -> Schema:
        place: Any = self._root
        for step in reference.lstrip("#").strip("/").split("/"):
            if step:
                place = place.get(step, {}) if isinstance(place, Mapping) else {}
        return place

    def _choose(self, branches: Iterable[Schema], depth: int) -> Schema:
        """The first branch; deep down one that ends, so that a tree does."""
        resolved = [self._resolve(branch) for branch in branches]
        if depth >= 3:
            ends = [each for each in resolved if _kind(each) not in ("object", "array")]
            return (ends or resolved)[0]
        return resolved[0]

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = list(schema.get("required") or ())
        found: dict[str, Any] = {}
        for key, part in properties.items():
            if key in required or (self._is_full and depth < 4) or self._has_idea(key, part):
                found[key] = self.make(key, part, depth + 1)
        for key in required:
            if key not in found:
                found[key] = self.make(key, schema.get("additionalProperties") or {}, depth + 1)
        return found

    def _has_idea(self, key: str, schema: Schema) -> bool:
        schema = self._resolve(schema)
        wish = self._hint(key, schema)
        if wish is None or not isinstance(schema, Mapping):
            return False
        return "enum" not in schema or wish in schema["enum"]

    def _array(self, key: str, schema: Mapping[str, Any], wish: Any, depth: int) -> list[Any]:
        items = schema.get("items")
        first = [self.make(key, part, depth + 1) for part in schema.get("prefixItems") or ()]
        least = int(schema.get("minItems", 0 if depth >= 4 else 1))
        most = int(schema.get("maxItems", max(least, 16)))
        if isinstance(wish, list) and least <= len(wish) <= most:
            return wish
        count = max(least, min(1, most)) - len(first)
        part = {} if items is None or items is True else items
        made = [self.make(key, part, depth + 1) for _ in range(max(0, count))]
        if schema.get("uniqueItems"):
            made = _distinct(made, self._resolve(part))
        return first + made


def _merge(schemas: Iterable[Schema]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for schema in schemas:
        for key, value in (schema if isinstance(schema, Mapping) else {}).items():
            if key == "properties":
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "required":
                merged[key] = [*merged.get(key, ()), *value]
            else:
                merged[key] = value
    return merged


def _kind(schema: Schema) -> str:
    if not isinstance(schema, Mapping):
        return "string"
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    if isinstance(kind, str):
        return kind
    if "properties" in schema or "required" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    return "number" if "minimum" in schema or "maximum" in schema else "string"


def _pick(values: Any, wish: Any) -> Any:
    """The value that is wished for, in whatever case it is spelled; else the first."""
    named = (each for each in values if str(each).lower() == str(wish).lower())
    return next(named, values[0]) if wish is not None else values[0]


def _scalar(kind: str, key: str, schema: Mapping[str, Any], wish: Any) -> Any:
    if kind == "boolean":
        return wish if isinstance(wish, bool) else True
    if kind == "null":
        return None
    if kind in ("integer", "number"):
        return _number(kind, schema, wish)
    return _string(key, schema, wish)


def _number(kind: str, schema: Mapping[str, Any], wish: Any) -> int | float:
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    step = schema.get("multipleOf")
    wished = _as_number(wish)
    for each in (wished, 1, least, most, above and above + 1, above, 0):
        if each is None or isinstance(each, bool):
            continue
        number = each if step is None else -(-each // step) * step
        number = int(number) if float(number).is_integer() else number
        fits = (
            (least is None or number >= least)
            and (most is None or number <= most)
            and (above is None or number > above)
            and (below is None or number < below)
        )
        if fits and (kind == "number" or isinstance(number, int)):
            return number
    lower = next((each for each in (least, above) if each is not None), 0)
    upper = next((each for each in (most, below) if each is not None), lower + 1)
    return (lower + upper) / 2 if kind == "number" else int(lower) + 1


def _as_number(value: Any) -> int | float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    match = re.search(r"-?\d+(?:\.\d+)?", value) if isinstance(value, str) else None
    if match is None:
        return None
    return float(match[0]) if "." in match[0] else int(match[0])


def _string(key: str, schema: Mapping[str, Any], wish: Any) -> str:
    pattern = schema.get("pattern")
    if pattern:
        text = str(wish) if wish is not None else ""
        return text if text and re.search(pattern, text) else make_match(pattern, search=True)
    if schema.get("format") in _FORMATS and not isinstance(wish, str):
        return _FORMATS[schema["format"]]
    text = str(wish) if wish is not None else (key.replace("_", " ").strip() or "text")
    least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
    text += " and so on" * (-(-max(0, least - len(text)) // 10))
    return text if most is None else text[: int(most)]


def _distinct(made: list[Any], schema: Schema) -> list[Any]:
    """Different ones in place of equal ones, as far as the kind of the items allows."""
    values = schema.get("enum") if isinstance(schema, Mapping) else None
    if values:
        return list(values)[: len(made)]
    return [
        value if not place else f"{value} {place}" if isinstance(value, str) else value + place
        for place, value in enumerate(made)
    ]


# --- regular expressions ---


def make_match(pattern: str, wish: str = "", *, search: bool = False) -> str:
    """A text that the expression matches whole: the wish where it does, else a short one.

    ``search``: it has to be found in the text only. Raises ValueError for what is none.
    """
    try:
        expression = re.compile(pattern)
        if wish and (expression.search(wish) if search else expression.fullmatch(wish)):
            return wish
        tree = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from None
    return _Writer(wish).write(tree)


class _Writer:
    """Writes what a parsed expression matches; of branches the one that the wish speaks of."""

    def __init__(self, wish: str) -> None:
        self._wish = wish.lower()
        self._groups: dict[int, str] = {}

    def write(self, tree: Any) -> str:
        return "".join(self._write_one(kind, value) for kind, value in tree)

    def _write_one(self, kind: Any, value: Any) -> str:
        if kind is kinds.LITERAL:
            return chr(value)
        if kind is kinds.NOT_LITERAL:
            return next(each for each in _LETTERS if each != chr(value))
        if kind is kinds.ANY:
            return "a"
        if kind is kinds.IN:
            return self._write_in(value)
        if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT):
            return self._repeat(*value)
        if kind is kinds.BRANCH:
            return self._branch([self.write(branch) for branch in value[1]])
        if kind is kinds.SUBPATTERN:
            text = self.write(value[3])
            if value[0] is not None:
                self._groups[value[0]] = text
            return text
        if kind is kinds.ATOMIC_GROUP:
            return self.write(value)
        if kind is kinds.GROUPREF:
            return self._groups.get(value, "")
        if kind is kinds.CATEGORY:
            return self._write_in([(kind, value)])
        return ""  # anchors and assertions match between characters

    def _repeat(self, least: int, most: Any, part: Any) -> str:
        wanted = max(least, 1 if least == 0 and most > 1 else 0)
        return "".join(self.write(part) for _ in range(min(wanted, most)))

    def _branch(self, written: list[str]) -> str:
        spoken = (text for text in written if text.strip() and text.lower() in self._wish)
        return next(spoken, written[0])

    def _write_in(self, members: Any) -> str:
        is_negated = bool(members) and members[0][0] is kinds.NEGATE
        plain = "0aA_ -" + _LETTERS
        for each in plain if is_negated else self._candidates(members, plain):
            if self._is_in(each, members) != is_negated:
                return each
        return ""

    def _candidates(self, members: Any, plain: str) -> Iterable[str]:
        for kind, value in members:
            if kind is kinds.LITERAL:
                yield chr(value)
            elif kind is kinds.RANGE:
                yield chr(value[0] + (1 if value[0] == ord("0") < value[1] else 0))
        yield from "1a "
        yield from plain

    def _is_in(self, character: str, members: Any) -> bool:
        code = ord(character)
        for kind, value in members:
            if kind is kinds.LITERAL and code == value:
                return True
            if kind is kinds.RANGE and value[0] <= code <= value[1]:
                return True
            if kind is kinds.CATEGORY and re.match(_CATEGORIES[value], character):
                return True
        return False


_CATEGORIES = {
    kinds.CATEGORY_DIGIT: r"\d",
    kinds.CATEGORY_NOT_DIGIT: r"\D",
    kinds.CATEGORY_SPACE: r"\s",
    kinds.CATEGORY_NOT_SPACE: r"\S",
    kinds.CATEGORY_WORD: r"\w",
    kinds.CATEGORY_NOT_WORD: r"\W",
}
