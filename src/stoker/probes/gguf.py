"""The header of a GGUF file: what the model is, and how large the file has to be.

Used by the model probe. Reads through a function that it is given, piece by piece and within
bounds, because the file may come from anybody: whatever stands in it, the answer is a description
or ValueError, and never much work. Understands versions 2 and 3, little-endian.
"""

from __future__ import annotations

import struct
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from math import prod
from typing import Any

from stoker.probes.safetensors import Form, form_of, join_forms

MAGIC = b"GGUF"

#: (offset, length) -> the bytes there, fewer at the end of the file.
Fetch = Callable[[int, int], bytes]
Scalar = str | int | float | bool

_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32  # the format's own, where general.alignment is missing

# Bounds, each far above what real files have: the largest vocabularies hold some 300,000 words
# and as many merges in less than 20 MiB, the largest models have some thousand tensors.
_MOST_HEADER_BYTES = 128 << 20
_MOST_WALKED_ITEMS = 4_000_000
_MOST_KEYS = 1 << 16
_MOST_TENSORS = 1 << 17
_MOST_DIMENSIONS = 4
_MOST_ARRAY_DEPTH = 2
_MOST_ELEMENTS = 1 << 60

#: Longer texts (a chat template) and arrays (a vocabulary) are described by their length alone.
_KEPT_TEXT_BYTES = 512
_KEPT_ITEMS = 1024
_CHUNK_BYTES = 1 << 20
#: The one long text that is kept whole, for the markers in it.
_TEMPLATE = "tokenizer.chat_template"

_STRING, _ARRAY = 8, 9
#: Number of a value type -> how struct unpacks it.
_NUMBERS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}


class EndsEarly(ValueError):
    """The file ends inside its own header."""


@dataclass(slots=True)
class _Cursor:
    """A place in the file, with the piece of it that was fetched last."""

    fetch: Fetch
    place: int = 0
    walked: int = 0
    _start: int = 0
    _piece: bytes = field(default=b"")

    def take(self, length: int) -> bytes:
        """The next bytes. Raises EndsEarly at the end, ValueError beyond the bounds."""
        begin = self.place - self._start
        if begin < 0 or begin + length > len(self._piece):
            self._refill(length)
            begin = 0
        self.place += length
        return self._piece[begin : begin + length]

    def skip(self, length: int) -> None:
        """Pass over bytes without fetching them."""
        self.place += length
        self._check()

    def unpack(self, form: str) -> Any:
        """The next number."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def walk(self, count: int) -> range:
        """So many items one by one, counted towards the bound of the whole header."""
        self.walked += count
        if self.walked > _MOST_WALKED_ITEMS:
            raise ValueError("its header has more items than any model needs")
        return range(count)

    def _refill(self, length: int) -> None:
        self._check()
        if length > _CHUNK_BYTES:
            raise ValueError(f"a piece of {length} bytes stands in its header")
        self._start, self._piece = self.place, self.fetch(self.place, _CHUNK_BYTES)
        if len(self._piece) < length:
            raise EndsEarly("the file ends inside its header")

    def _check(self) -> None:
        if self.place > _MOST_HEADER_BYTES:
            raise ValueError("its header is larger than any model needs")


def read_header(fetch: Fetch) -> dict[str, Any]:
    """The header as JSON-shaped data: ``version``, ``metadata``, ``lengths`` of what was too long
    to keep, ``template`` (the default chat template, "" without one), ``tensors`` (each elements,
    type number, offset, form of its name) and ``data_offset``.

    Raises ValueError for a file that is none, EndsEarly for one that is cut off here.
    """
    cursor = _Cursor(fetch=fetch)
    if cursor.take(4) != MAGIC:
        raise ValueError("it does not begin as a GGUF file does")
    version = cursor.unpack("<I")
    if version not in _VERSIONS:
        raise ValueError(f"GGUF version {version} is not understood, or its byte order is not")
    tensor_count = _bounded(cursor.unpack("<Q"), _MOST_TENSORS, "tensors")
    key_count = _bounded(cursor.unpack("<Q"), _MOST_KEYS, "keys")
    metadata, lengths, template = _read_metadata(cursor, key_count)
    tensors = [_read_tensor(cursor) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or not 0 < alignment < _CHUNK_BYTES:
        raise ValueError(f"an alignment of {alignment} is none")
    return {
        "version": version,
        "metadata": metadata,
        "lengths": lengths,
        "template": template,
        "tensors": tensors,
        "data_offset": -(-cursor.place // alignment) * alignment,
    }


def _read_metadata(cursor: _Cursor, count: int) -> tuple[dict[str, Any], dict[str, int], str]:
    metadata: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    template = ""
    for _ in range(count):
        key = _read_text(cursor)
        kind = cursor.unpack("<I")
        if key == _TEMPLATE and kind == _STRING:
            template, length = _read_template(cursor)
            kept: Any = template if length <= _KEPT_TEXT_BYTES else None
        else:
            kept, length = _read_value(cursor, kind)
        if key is None:
            continue  # no key of any meaning is so long
        if kept is None:
            lengths[key] = length
        else:
            metadata[key] = kept
    return metadata, lengths, template


def _read_template(cursor: _Cursor) -> tuple[str, int]:
    """A text and its length; "" for one that is longer than any template."""
    length = cursor.unpack("<Q")
    if length > _CHUNK_BYTES:
        cursor.skip(length)
        return "", length
    return cursor.take(length).decode("utf-8", "replace"), length


def _read_value(cursor: _Cursor, kind: int) -> tuple[Scalar | list[Scalar] | None, int]:
    """A value, or None and its length for one that is too long to keep."""
    if kind == _STRING:
        length = cursor.unpack("<Q")
        return _read_text_of(cursor, length), length
    if kind == _ARRAY:
        return _read_array(cursor, depth=1)
    return _finite(cursor.unpack(_form(kind))), 1


def _read_array(cursor: _Cursor, *, depth: int) -> tuple[list[Scalar] | None, int]:
    kind, count = cursor.unpack("<I"), cursor.unpack("<Q")
    if kind == _ARRAY:
        if depth >= _MOST_ARRAY_DEPTH:
            raise ValueError("arrays are nested too deeply in its header")
        for _ in cursor.walk(count):
            _read_array(cursor, depth=depth + 1)
        return None, count
    if kind == _STRING:
        # The words themselves are of no interest, but there is no other way past them.
        for _ in cursor.walk(count):
            cursor.skip(cursor.unpack("<Q"))
        return None, count
    form = _form(kind)
    if count > _KEPT_ITEMS:
        cursor.skip(count * struct.calcsize(form))
        return None, count
    return [_finite(cursor.unpack(form)) for _ in cursor.walk(count)], count


def _read_tensor(cursor: _Cursor) -> list[Any]:
    """Elements, type number, offset and the form of the name."""
    name = _read_text(cursor) or ""
    dimensions = _bounded(cursor.unpack("<I"), _MOST_DIMENSIONS, "dimensions")
    elements = prod(cursor.unpack("<Q") for _ in range(dimensions))
    kind, offset = cursor.unpack("<I"), cursor.unpack("<Q")
    return [_bounded(elements, _MOST_ELEMENTS, "elements"), kind, offset, form_of(name)]


def _read_text(cursor: _Cursor) -> str | None:
    return _read_text_of(cursor, cursor.unpack("<Q"))


def _read_text_of(cursor: _Cursor, length: int) -> str | None:
    if length > _KEPT_TEXT_BYTES:
        cursor.skip(length)
        return None
    return cursor.take(length).decode("utf-8", "replace")


def _form(kind: int) -> str:
    if kind not in _NUMBERS:
        raise ValueError(f"a value of the unknown type {kind} stands in its header")
    return _NUMBERS[kind]


def _finite(value: Any) -> Scalar:
    """The number, as text where JSON has none for it (infinity, not-a-number)."""
    is_odd = isinstance(value, float) and value - value != 0
    return str(value) if is_odd else value


def _bounded(count: int, most: int, what: str) -> int:
    if count > most:
        raise ValueError(f"{count} {what} stand in its header")
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorType:
    """How ggml packs the values of a tensor: blocks of so many elements in so many bytes."""

    name: str
    block_elements: int
    block_bytes: int


@cache
def load_types() -> Mapping[int, TensorType]:
    """The types of ggml by their number."""
    text = files("stoker.probes").joinpath("gguf_types.toml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)["types"]
    return {row.pop("number"): TensorType(**row) for row in rows}


def measure_tensors(tensors: Sequence[list[Any]]) -> dict[str, Any]:
    """Sums over the tensors of one header.

    ``tensor_count``; ``parameter_count``; ``data_bytes``: where the last tensor ends, None if a
    type is not known; ``tensor_types``: bytes by the name of the type; ``forms``: as those of
    :func:`stoker.probes.safetensors.measure_header`; ``unknown_types``: numbers.
    """
    types, parameters, end = load_types(), 0, 0
    sizes: dict[str, int] = {}
    unknown: set[int] = set()
    forms: list[Form] = []
    for elements, number, offset, *form in tensors:
        parameters += elements
        if number not in types:
            unknown.add(number)
            continue
        kind = types[number]
        size = -(-elements // kind.block_elements) * kind.block_bytes
        sizes[kind.name] = sizes.get(kind.name, 0) + size
        forms.append((form[0] if form else "", kind.name, 1, size))
        end = max(end, offset + size)
    return {
        "tensor_count": len(tensors),
        "parameter_count": parameters,
        "data_bytes": None if unknown else end,
        "tensor_types": dict(sorted(sizes.items())),
        "forms": join_forms([forms]),
        "unknown_types": sorted(unknown),
    }
