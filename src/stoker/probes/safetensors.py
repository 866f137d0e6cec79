"""The header of a safetensors file: which tensors it has, and how large it has to be.

Used by the model probe. The file may come from anybody: whatever stands in it, the answer is a
description or ValueError, within bounds of size and time.
"""

from __future__ import annotations

import json
from math import prod
from typing import Any

#: The header begins with its own length, little-endian.
LENGTH_BYTES = 8
#: The format allows 100 MB; the largest in use, of a model with 60,000 tensors, has some 8 MB.
_MOST_HEADER_BYTES = 32 << 20
_MOST_BYTES = 1 << 60
_MOST_DIMENSIONS = 16


def parse_length(prefix: bytes) -> int:
    """The length in bytes of the header from the first eight bytes of the file."""
    if len(prefix) < LENGTH_BYTES:
        raise ValueError("the file is shorter than any safetensors file")
    length = int.from_bytes(prefix[:LENGTH_BYTES], "little")
    if not 2 <= length <= _MOST_HEADER_BYTES:
        raise ValueError("it does not begin as a safetensors file does")
    return length


def measure_header(header: str) -> dict[str, Any]:
    """Sums over the tensors of one header.

    ``tensor_count``; ``parameter_count``: elements, of which a packed type may hold several
    weights each; ``data_bytes``: where the last tensor ends, counted from the end of the header;
    ``tensor_types``: bytes by the name of the type. Raises ValueError.
    """
    rows = [row for name, row in parse_table(header).items() if name != "__metadata__"]
    sizes: dict[str, int] = {}
    parameters = end = 0
    for kind, shape, begin, stop in map(_read_row, rows):
        parameters += prod(shape)
        sizes[kind] = sizes.get(kind, 0) + stop - begin
        end = max(end, stop)
    if parameters > _MOST_BYTES:
        raise ValueError("its tensors are larger than any model's")
    return {
        "tensor_count": len(rows),
        "parameter_count": parameters,
        "data_bytes": end,
        "tensor_types": dict(sorted(sizes.items())),
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
    return row["dtype"], shape, offsets[0], offsets[1]


def _sizes(value: Any) -> list[int]:
    is_list = isinstance(value, list) and len(value) <= _MOST_DIMENSIONS
    if not is_list or not all(type(size) is int and 0 <= size <= _MOST_BYTES for size in value):
        raise ValueError("an entry of its header is not a tensor")
    sizes: list[int] = value
    return sizes
