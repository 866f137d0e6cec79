"""The weights that will be served: format, size, shape, and whether the files are whole.

Looks at headers alone, so that it is quick for any size. The draft probe uses the same functions
for the model that drafts. Nothing of the weights is ever loaded, run or judged.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stoker.errors import AccessDenied, HostError
from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes import gguf, safetensors

_SPLIT_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_MOST_PARTS = 1000
_SAFETENSORS = ".safetensors"
_INDEX = "model.safetensors.index.json"
_INDEX_BYTES = 32 << 20
_CONFIG = "config.json"
_CONFIG_BYTES = 1 << 20
#: Files beside the weights that bring a chat template, the last one as one of its keys.
_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")
_TOKENIZER_CONFIG = "tokenizer_config.json"
_TOKENIZER_CONFIG_BYTES = 16 << 20  # it may list every word that was added to the vocabulary

Raw = Mapping[str, str]
Part = dict[str, Any]
Value = dict[str, Any]

#: Our name -> the name in a GGUF file behind the architecture, and in a config.json.
_SHAPE = {
    "context_length": ("context_length", "max_position_embeddings"),
    "block_count": ("block_count", "num_hidden_layers"),
    "embedding_length": ("embedding_length", "hidden_size"),
    "head_count": ("attention.head_count", "num_attention_heads"),
    "head_count_kv": ("attention.head_count_kv", "num_key_value_heads"),
    "key_length": ("attention.key_length", "head_dim"),
    "value_length": ("attention.value_length", "v_head_dim"),
    "sliding_window": ("attention.sliding_window", "sliding_window"),
    "vocabulary_size": ("vocab_size", "vocab_size"),
    "expert_count": ("expert_count", "num_experts"),
}


def read(host: ReadableHost, target: Target) -> Raw:
    """The headers of the model's files."""
    if target.model_path is None:
        raise HostError("no model is known yet")
    return read_model(host, target.model_path)


def read_model(host: ReadableHost, path: str) -> Raw:
    """What stands at a path, with the headers of all files that belong to it."""
    try:
        found = host.stat(path)
    except AccessDenied:
        raise  # it may be there, and the engine's user may see it
    except HostError:
        return {"path": path, "kind": "unreachable"}  # a circle of links, a name too long
    if found is None or found.kind not in ("file", "folder"):
        return {"path": path, "kind": "missing" if found is None else found.kind}
    if found.kind == "folder":
        return {"path": path, "kind": "folder", **_read_folder(host, path)}
    if host.read_bytes(path, 0, len(gguf.MAGIC)) == gguf.MAGIC:
        parts = [_read_gguf(host, part) for part in split_paths(path)]
        return {"path": path, "kind": "gguf", "parts": json.dumps(parts)}
    if path.endswith(_SAFETENSORS):
        parts = [_read_safetensors(host, path)]
        return {"path": path, "kind": "safetensors", "parts": json.dumps(parts)}
    return {"path": path, "kind": "file"}


def split_paths(path: str) -> list[str]:
    """The files of a model that was split for its size, by the name of any of them."""
    match = _SPLIT_NAME.fullmatch(path)
    count = int(match["count"]) if match else 0
    if match is None or not 0 < count <= _MOST_PARTS:
        return [path]
    return [f"{match['stem']}-{n:05}-of-{match['count']}.gguf" for n in range(1, count + 1)]


def _read_gguf(host: ReadableHost, path: str) -> Part:
    part = _read_stat(host, path)
    if part["size_bytes"] is None:
        return part
    try:
        header = gguf.read_header(lambda offset, length: host.read_bytes(path, offset, length))
    except gguf.EndsEarly:
        return {**part, "ends_early": True}
    except ValueError as error:
        return {**part, "problem": str(error)}
    return {**part, "header": header}


def _read_safetensors(host: ReadableHost, path: str) -> Part:
    part = _read_stat(host, path)
    if part["size_bytes"] is None:
        return part
    begin = safetensors.LENGTH_BYTES
    try:
        length = safetensors.parse_length(host.read_bytes(path, 0, begin))
    except ValueError as error:
        return {**part, "problem": str(error)}
    if part["size_bytes"] < begin + length:
        return {**part, "ends_early": True}
    header = host.read_bytes(path, begin, length).decode("utf-8", "replace")
    return {**part, "header": header, "data_offset": begin + length}


def _read_stat(host: ReadableHost, path: str) -> Part:
    found = host.stat(path)
    return {
        "name": posixpath.basename(path),
        "size_bytes": found.size_bytes if found else None,
        "modified_ns": found.modified_ns if found else None,
    }


def _read_folder(host: ReadableHost, path: str) -> dict[str, str]:
    names = host.list_folder(path)
    raw = {"names": "\n".join(names)}
    if _CONFIG in names:
        raw["config"] = host.read_text(f"{path}/{_CONFIG}", _CONFIG_BYTES)
    if _INDEX in names:
        raw["index"] = host.read_text(f"{path}/{_INDEX}", _INDEX_BYTES)
    if _TOKENIZER_CONFIG in names:
        text = host.read_text(f"{path}/{_TOKENIZER_CONFIG}", _TOKENIZER_CONFIG_BYTES)
        raw["template"] = "yes" if '"chat_template"' in text else "no"
    try:
        parts = [_read_safetensors(host, f"{path}/{name}") for name in shard_names(raw)]
    except ValueError as error:
        parts = [{"name": _INDEX, "problem": str(error)}]
    return {**raw, "parts": json.dumps(parts)}


def shard_names(raw: Raw) -> list[str]:
    """The weight files of a folder: those that its index names, else those that are there.

    Some folders hold the same weights twice, once more under a maker's own names; then only the
    usual names count. A name with a folder in it is not followed.
    """
    if "index" in raw:
        mapping = safetensors.parse_table(raw["index"]).get("weight_map")
        named = mapping.values() if isinstance(mapping, dict) else ()
        shards = {name for name in named if isinstance(name, str) and name.endswith(_SAFETENSORS)}
        return sorted(name for name in shards if "/" not in name)[:_MOST_PARTS]
    names = [name for name in raw["names"].splitlines() if name.endswith(_SAFETENSORS)]
    return [name for name in names if name.startswith("model")] or names


def parse(raw: Raw) -> Value:
    """The description of the weights; see :func:`parse_model`."""
    return parse_model(raw)


def parse_model(raw: Raw) -> Value:
    """``format`` is gguf, safetensors, missing or unknown; ``reason`` says what is wrong, if any.

    ``size_bytes`` is the sum over all files, ``modified_ns`` the newest of them. ``is_truncated``
    is None where the size that the files should have is not known. The shape (``block_count``
    and so on) is None where the files do not say it.
    """
    path, kind = raw["path"], raw["kind"]
    if kind == "missing":
        return {"format": "missing", "path": path, "reason": f"{path} does not exist"}
    parts: list[Part] = json.loads(raw.get("parts", "[]"))
    if not parts:
        return _unknown(path, _explain_no_weights(raw))
    problems = [f"{part['name']}: {part['problem']}" for part in parts if "problem" in part]
    if problems:
        return _unknown(path, "; ".join(problems[:3]))
    describe = _describe_gguf if kind == "gguf" else _describe_safetensors
    try:
        return {"path": path, **_sum_sizes(parts), **describe(parts, raw)}
    except ValueError as error:
        return _unknown(path, str(error))


def _explain_no_weights(raw: Raw) -> str:
    if raw["kind"] == "folder":
        names = raw["names"].splitlines()
        if any(name.endswith(".gguf") for name in names):
            return "the folder holds GGUF files: name the file to serve"
        return "the folder holds no safetensors files"
    if raw["kind"] == "file":
        return "it neither begins as a GGUF file does nor is named as a safetensors file"
    if raw["kind"] == "unreachable":
        return "the path leads nowhere: its links go in a circle, or a name in it is too long"
    return "it is neither a file nor a folder"


def _unknown(path: str, reason: str) -> Value:
    return {"format": "unknown", "path": path, "reason": reason}


def _sum_sizes(parts: Sequence[Part]) -> Value:
    return {
        "size_bytes": sum(part["size_bytes"] or 0 for part in parts),
        "modified_ns": max(part["modified_ns"] or 0 for part in parts),
        "part_count": len(parts),
    }


def _describe_gguf(parts: Sequence[Part], raw: Raw) -> Value:
    headers = [part["header"] for part in parts if "header" in part]
    sums = [_measure_gguf(header) for header in headers]
    unknown = sorted({number for found in sums for number in found["unknown_types"]})
    complaints = [f"its tensor type {number} is not known" for number in unknown]
    first = headers[0] if "header" in parts[0] else {"metadata": {}, "lengths": {}, "version": None}
    return {
        "format": "gguf",
        "version": first["version"],
        **_judge_sizes(parts, [found["end"] for found in sums], complaints),
        **_total(parts, sums),
        **_gguf_shape(first["metadata"], first["lengths"]),
        "has_chat_template": _has_template(first["metadata"], first["lengths"]),
    }


def _measure_gguf(header: Mapping[str, Any]) -> Value:
    found = gguf.measure_tensors(header["tensors"])
    is_known = found["data_bytes"] is not None
    return {**found, "end": header["data_offset"] + found["data_bytes"] if is_known else None}


def _has_template(metadata: Mapping[str, Any], lengths: Mapping[str, int]) -> bool | None:
    """None without any metadata, that is without a header."""
    return "tokenizer.chat_template" in {*metadata, *lengths} if metadata else None


def _gguf_shape(metadata: Mapping[str, Any], lengths: Mapping[str, int]) -> Value:
    architecture = metadata.get("general.architecture")
    shape = {
        ours: _counts(metadata.get(f"{architecture}.{name}")) for ours, (name, _) in _SHAPE.items()
    }
    if shape["vocabulary_size"] is None:
        shape["vocabulary_size"] = lengths.get("tokenizer.ggml.tokens")
    return {
        "architecture": _words(architecture),
        "name": _words(metadata.get("general.name")),
        "file_type": _counts(metadata.get("general.file_type")),
        **shape,
    }


def _words(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _counts(value: object) -> int | list[int] | None:
    """A whole number, or a list of one for each block; None for anything else."""
    if isinstance(value, list) and all(type(item) is int for item in value):
        return value
    return value if type(value) is int else None


def _describe_safetensors(parts: Sequence[Part], raw: Raw) -> Value:
    sums = [_measure_safetensors(part) for part in parts if "header" in part]
    config, complaints = _parse_config(raw.get("config"))
    names = raw.get("names", "").splitlines()
    has_template = raw.get("template") == "yes" or any(name in names for name in _TEMPLATE_FILES)
    return {
        "format": "safetensors",
        **_judge_sizes(parts, [found["end"] for found in sums], complaints),
        **_total(parts, sums),
        **_config_shape(config or {}),
        "has_chat_template": has_template if names else None,
        "config": config,
    }


def _measure_safetensors(part: Part) -> Value:
    try:
        found = safetensors.measure_header(part["header"])
    except ValueError as error:
        raise ValueError(f"{part['name']}: {error}") from error
    return {**found, "end": part["data_offset"] + found["data_bytes"]}


def _parse_config(text: str | None) -> tuple[Value | None, list[str]]:
    if text is None:
        return None, []
    try:
        return safetensors.parse_table(text), []
    except ValueError as error:
        return None, [f"{_CONFIG} cannot be read: {error}"]


def _config_shape(config: Value) -> Value:
    # A model that also sees or hears keeps the shape of its language part in a table of its own.
    inner = config.get("text_config")
    tables = [config, inner] if isinstance(inner, dict) else [config]
    named = config.get("architectures")
    names = [*named, None] if isinstance(named, list) else [None]
    return {
        "architecture": _words(names[0]) or _words(config.get("model_type")),
        **{ours: _first_count(tables, name) for ours, (_, name) in _SHAPE.items()},
    }


def _first_count(tables: Iterable[Value], name: str) -> int | list[int] | None:
    counts = (_counts(table.get(name)) for table in tables)
    return next((count for count in counts if count is not None), None)


def _judge_sizes(
    parts: Sequence[Part], ends: Sequence[int | None], complaints: Sequence[str]
) -> Value:
    """Whether all files are there and as long as their headers say. ``ends``: by header."""
    whole = [part for part in parts if "header" in part]
    reasons = [
        f"{part['name']} is missing" if part["size_bytes"] is None else _explain_early_end(part)
        for part in parts
        if "header" not in part
    ]
    for part, end in zip(whole, ends, strict=True):
        if end is not None and part["size_bytes"] < end:
            reasons.append(f"{part['name']} has {part['size_bytes']} of {end} bytes")
    is_known = len(whole) == len(parts) and None not in ends
    return {
        "is_truncated": True if reasons else (False if None not in ends else None),
        "expected_size_bytes": sum(end or 0 for end in ends) if is_known else None,
        "reason": "; ".join([*reasons[:3], *complaints]) or None,
    }


def _explain_early_end(part: Part) -> str:
    return f"{part['name']} ends inside its header, after {part['size_bytes']} bytes"


def _total(parts: Sequence[Part], sums: Sequence[Value]) -> Value:
    """Sums over all files; None where a file or its header is missing."""
    if len(sums) < len(parts):
        return {"tensor_count": None, "parameter_count": None, "tensor_types": None}
    types: dict[str, int] = {}
    for name, size in (item for found in sums for item in found["tensor_types"].items()):
        types[name] = types.get(name, 0) + size
    return {
        "tensor_count": sum(found["tensor_count"] for found in sums),
        "parameter_count": sum(found["parameter_count"] for found in sums),
        "tensor_types": dict(sorted(types.items())),
    }


PROBE = Probe(id="model", source="the headers of the model's files", read=read, parse=parse)
