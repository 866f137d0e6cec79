"""The files that hold a model's weights: which there are, their headers, and whether all is there.

Used by the model probe. Reads headers alone and follows no name out of the model's folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.errors import HostError
from stoker.ports import ReadableHost
from stoker.probes import gguf, safetensors

SAFETENSORS = ".safetensors"
INDEX = "model.safetensors.index.json"
INDEX_BYTES = 256 << 20  # 512 experts in 60 layers, four tensors each matrix: 44 MB

_SPLIT_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_MOST_PARTS = 1000
_MOST_REASONS = 3
#: A file of git-lfs in place of the real one; the text has some 130 bytes.
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n.*?^size (\d{1,18})$", re.DOTALL | re.MULTILINE
)
_POINTER_BYTES = 512

Raw = Mapping[str, str]
Part = dict[str, Any]
Value = dict[str, Any]


def split_paths(path: str) -> list[str]:
    """The files of a model that was split for its size, by the name of any of them."""
    match = _SPLIT_NAME.fullmatch(path)
    count = int(match["count"]) if match else 0
    if match is None or not 0 < count <= _MOST_PARTS:
        return [path]
    return [f"{match['stem']}-{n:05}-of-{match['count']}.gguf" for n in range(1, count + 1)]


def shard_names(raw: Raw) -> list[str]:
    """The weight files of a folder: those that its index names, else those that are there.

    Some folders hold the same weights twice, once more under a maker's own names; then only the
    usual names count. A name with a folder in it is not followed.
    """
    if "index" in raw:
        mapping = safetensors.parse_table(raw["index"]).get("weight_map")
        named = mapping.values() if isinstance(mapping, dict) else ()
        # One name a tensor, few different: looked at closely is each once.
        files = {name for name in named if isinstance(name, str)}
        shards = [name for name in files if name.endswith(SAFETENSORS) and "/" not in name]
        return sorted(shards)[:_MOST_PARTS]
    names = [name for name in raw["names"].splitlines() if name.endswith(SAFETENSORS)]
    return [name for name in names if name.startswith("model")] or names


def read_stat(host: ReadableHost, path: str) -> Part:
    """The name, size and time of a file; a size of None for one that is not there."""
    try:
        found = host.stat(path)
    except HostError:
        found = None  # a link that leads in a circle is as good as none
    return {
        "name": posixpath.basename(path),
        "size_bytes": found.size_bytes if found else None,
        "modified_ns": found.modified_ns if found else None,
    }


def find_pointer(host: ReadableHost, path: str, size_bytes: int) -> int | None:
    """How large the file is that a git-lfs pointer stands for; None for any other file."""
    if size_bytes > _POINTER_BYTES:
        return None
    match = _POINTER.match(host.read_bytes(path, 0, _POINTER_BYTES))
    return int(match[1]) if match else None


def read_gguf(host: ReadableHost, path: str) -> Part:
    """A file of the GGUF format with its header, or with what is wrong with it."""
    part = read_stat(host, path)
    if part["size_bytes"] is None:
        return part
    pointer = find_pointer(host, path, part["size_bytes"])
    if pointer is not None:
        return {**part, "pointer_bytes": pointer}
    try:
        header = gguf.read_header(lambda offset, length: host.read_bytes(path, offset, length))
    except gguf.EndsEarly:
        return {**part, "ends_early": True}
    except ValueError as error:
        return {**part, "problem": str(error)}
    return {**part, "header": header}


def read_safetensors(host: ReadableHost, path: str) -> Part:
    """A file of the safetensors format with its header, or with what is wrong with it."""
    part = read_stat(host, path)
    if part["size_bytes"] is None:
        return part
    pointer = find_pointer(host, path, part["size_bytes"])
    if pointer is not None:
        return {**part, "pointer_bytes": pointer}
    begin = safetensors.LENGTH_BYTES
    try:
        length = safetensors.parse_length(host.read_bytes(path, 0, begin))
    except ValueError as error:
        return {**part, "problem": str(error)}
    if part["size_bytes"] < begin + length:
        return {**part, "ends_early": True}
    header = host.read_bytes(path, begin, length).decode("utf-8", "replace")
    return {**part, "header": header, "data_offset": begin + length}


def sum_sizes(parts: Sequence[Part]) -> Value:
    """``size_bytes`` of what is there, the newest ``modified_ns``, ``part_count``."""
    return {
        "size_bytes": sum(part["size_bytes"] or 0 for part in parts),
        "modified_ns": max(part["modified_ns"] or 0 for part in parts),
        "part_count": len(parts),
    }


def judge_sizes(
    parts: Sequence[Part], ends: Sequence[int | None], complaints: Sequence[str]
) -> Value:
    """Whether all files are there and as long as their headers say. ``ends``: by header."""
    whole = [part for part in parts if "header" in part]
    reasons = [_explain_missing(part) for part in parts if "header" not in part]
    for part, end in zip(whole, ends, strict=True):
        if end is not None and part["size_bytes"] < end:
            reasons.append(f"{part['name']} has {part['size_bytes']} of {end} bytes")
    is_known = len(whole) == len(parts) and None not in ends
    return {
        "is_truncated": True if reasons else (False if None not in ends else None),
        "expected_size_bytes": sum(end or 0 for end in ends) if is_known else None,
        "reason": "; ".join([*reasons[:_MOST_REASONS], *complaints]) or None,
        "pointer_files": [part["name"] for part in parts if "pointer_bytes" in part][:_MOST_PARTS],
    }


def _explain_missing(part: Part) -> str:
    if part["size_bytes"] is None:
        return f"{part['name']} is missing"
    if "pointer_bytes" in part:
        return f"{part['name']} is a git-lfs pointer to a file of {part['pointer_bytes']} bytes"
    return f"{part['name']} ends inside its header, after {part['size_bytes']} bytes"


def total(parts: Sequence[Part], sums: Sequence[Value]) -> Value:
    """Sums over all files; None where a file or its header is missing."""
    if len(sums) < len(parts):
        return {"tensor_count": None, "parameter_count": None, "tensor_types": None, "forms": None}
    types: dict[str, int] = {}
    for name, size in (item for found in sums for item in found["tensor_types"].items()):
        types[name] = types.get(name, 0) + size
    return {
        "tensor_count": sum(found["tensor_count"] for found in sums),
        "parameter_count": sum(found["parameter_count"] for found in sums),
        "tensor_types": dict(sorted(types.items())),
        "forms": safetensors.join_forms([found["forms"] for found in sums]),
    }
