"""The header of a safetensors file: which tensors it has, and how large it has to be.

Used by the model probe. The file may come from anybody: whatever stands in it, the answer is a
description or ValueError, within bounds of size and time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

#: The header begins with its own length, little-endian.
LENGTH_BYTES = 8
#: What the format allows (MAX_HEADER_SIZE of the safetensors library).
_MOST_HEADER_BYTES = 100_000_000
_MOST_BYTES = 1 << 60
_MOST_DIMENSIONS = 16
#: How many bits a value of each type has; of a type that is not here nothing is expected.
_BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
#: A model of 60,000 tensors has some 150 forms of names; what is beyond is counted as one.
_MOST_FORMS = 2000
_OTHERS = "..."
_MOST_NAME = 256

#: What stands before the number of a layer.
_OF_LAYERS = ("layers", "h", "blocks")
_MOST_DIGITS = 7

#: Name with ``*`` for numbers, type, how many tensors, bytes.
Form = Sequence[Any]


def parse_length(prefix: bytes) -> int:
    """The length in bytes of the header from the first eight bytes of the file."""
    if len(prefix) < LENGTH_BYTES:
        raise ValueError("the file is shorter than any safetensors file")
    length = int.from_bytes(prefix[:LENGTH_BYTES], "little")
    if not 2 <= length <= _MOST_HEADER_BYTES:
        raise ValueError("it does not begin as a safetensors file does")
    return length


def form_of(name: str, layers: int | None = None) -> str:
    """A tensor's name with ``*`` for each number in it, and ``+`` for that of a layer which is
    none of the first ``layers``: those draft tokens, and are not loaded unless asked for."""
    parts = name.split(".")
    for place, part in enumerate(parts):
        if part.isdecimal():
            is_layer = layers is not None and place > 0 and parts[place - 1] in _OF_LAYERS
            is_behind = is_layer and len(part) < _MOST_DIGITS and int(part) >= (layers or 0)
            parts[place] = "+" if is_behind else "*"
    return ".".join(parts)


def join_forms(all_forms: Iterable[Iterable[Form]]) -> list[list[Any]]:
    """The forms of several files as those of one model."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for name, kind, count, size in (form for forms in all_forms for form in forms):
        key = (name, kind) if (name, kind) in sums or len(sums) < _MOST_FORMS else (_OTHERS, kind)
        before = sums.get(key, (0, 0))
        sums[key] = (before[0] + count, before[1] + size)
    return sorted([name, kind, count, size] for (name, kind), (count, size) in sums.items())


def measure_header(header: str, *, layers: int | None = None) -> dict[str, Any]:
    """Sums over the tensors of one header.

    ``tensor_count``; ``parameter_count``: elements, of which a packed type may hold several
    weights each; ``data_bytes``: where the last tensor ends, counted from the end of the header;
    ``tensor_types``: bytes by the name of the type; ``forms``: the same by :func:`form_of` the
    name and type, as a list of four (form, type, tensors, bytes). Raises ValueError.
    """
    rows = {name: row for name, row in parse_table(header).items() if name != "__metadata__"}
    sizes: dict[str, int] = {}
    forms: dict[tuple[str, str], tuple[int, int]] = {}
    parameters = end = 0
    for name, row in rows.items():
        kind, shape, begin, stop = _read_row(row)
        parameters += prod(shape)
        sizes[kind] = sizes.get(kind, 0) + stop - begin
        form = (form_of(name[:_MOST_NAME], layers), kind)
        count, size = forms.get(form, (0, 0))
        forms[form] = (count + 1, size + stop - begin)
        end = max(end, stop)
    if parameters > _MOST_BYTES:
        raise ValueError("its tensors are larger than any model's")
    if sum(sizes.values()) != end:
        raise ValueError("its tensors overlap, or leave holes between them")
    return {
        "tensor_count": len(rows),
        "parameter_count": parameters,
        "data_bytes": end,
        "tensor_types": dict(sorted(sizes.items())),
        "forms": join_forms([[(*form, *sums) for form, sums in forms.items()]]),
    }


def parse_table(text: str) -> dict[str, Any]:
    """A JSON object from a file that may come from anybody. Raises ValueError."""
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"its JSON cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("its JSON is not an object")
    return found


def _read_row(row: Any) -> tuple[str, list[int], int, int]:
    """Type, shape, begin and end of one tensor."""
    if not isinstance(row, dict) or not isinstance(row.get("dtype"), str):
        raise ValueError("an entry of its header is not a tensor")
    shape, offsets = _sizes(row.get("shape")), _sizes(row.get("data_offsets"))
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError("a tensor of its header ends before it begins")
    bits = _BITS.get(row["dtype"])
    if bits is not None and prod(shape) * bits != 8 * (offsets[1] - offsets[0]):
        raise ValueError("a tensor of its header has other bytes than its shape takes")
    return row["dtype"], shape, offsets[0], offsets[1]


def _sizes(value: Any) -> list[int]:
    if not isinstance(value, list) or len(value) > _MOST_DIMENSIONS:
        raise ValueError("an entry of its header is not a tensor")
    # A plain loop, since this is asked twice of each of some hundred thousand tensors.
    for size in value:
        if type(size) is not int or not 0 <= size <= _MOST_BYTES:
            raise ValueError("an entry of its header is not a tensor")
    return value
