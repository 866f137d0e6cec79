"""The model that will be served: its weights' format, size and shape, and what lies beside them.

Looks at headers and small files alone, so that it is quick for any size. The draft probe uses the
same functions for the model that drafts. Nothing of the weights is ever loaded, run or judged.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.errors import AccessDenied, HostError
from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes import gguf, model_config, model_parts, safetensors, tokenizer
from stoker.probes.model_card import parse_card
from stoker.probes.model_shape import config_shape, gguf_shape

#: How the hub's client keeps what it fetched; what is not whole lies among the blobs.
_SNAPSHOT = re.compile(r"(?P<repository>.*/models--[^/]+--[^/]+)/snapshots/[^/]+/?")
_LOCAL_DOWNLOADS = ".cache/huggingface/download"
_MOST_UNFINISHED = 20

Raw = Mapping[str, str]
Part = dict[str, Any]
Value = dict[str, Any]


def read(host: ReadableHost, target: Target) -> Raw:
    """The headers of the model's files, and the small files beside them."""
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
    return {"path": path, **_read_file(host, path, found.size_bytes)}


def _read_file(host: ReadableHost, path: str, size_bytes: int) -> dict[str, str]:
    if host.read_bytes(path, 0, len(gguf.MAGIC)) == gguf.MAGIC:
        parts = [model_parts.read_gguf(host, part) for part in model_parts.split_paths(path)]
        return {"kind": "gguf", "parts": json.dumps(parts)}
    if path.endswith(model_parts.SAFETENSORS):
        parts = [model_parts.read_safetensors(host, path)]
        return {"kind": "safetensors", "parts": json.dumps(parts)}
    if posixpath.basename(path) == model_config.CONFIG:
        beside = model_config.read_files(host, posixpath.dirname(path), [model_config.CONFIG])
        return {"kind": "config", **beside}
    if model_parts.find_pointer(host, path, size_bytes) is not None:
        parts = [model_parts.read_gguf(host, path)]
        return {"kind": "gguf" if path.endswith(".gguf") else "file", "parts": json.dumps(parts)}
    return {"kind": "file"}


def _read_folder(host: ReadableHost, path: str) -> dict[str, str]:
    names = host.list_folder(path)
    raw = {"names": "\n".join(names), **model_config.read_files(host, path, names)}
    unfinished = list(_find_unfinished(host, path))
    if unfinished:
        raw["unfinished"] = "\n".join(unfinished)
    if model_parts.INDEX in names:
        raw["index"] = host.read_text(f"{path}/{model_parts.INDEX}", model_parts.INDEX_BYTES)
    try:
        shards = model_parts.shard_names(raw)
        parts = [model_parts.read_safetensors(host, f"{path}/{name}") for name in shards]
    except ValueError as error:
        parts = [{"name": model_parts.INDEX, "problem": str(error)}]
    if not parts:
        pickles = model_config.describe_names(names)["pickle_files"]
        raw["pickles"] = json.dumps(
            [model_parts.read_stat(host, f"{path}/{name}") for name in pickles]
        )
    return {**raw, "parts": json.dumps(parts)}


def _find_unfinished(host: ReadableHost, path: str) -> list[str]:
    """Files that the hub's client had begun to fetch, in either of its layouts."""
    match = _SNAPSHOT.fullmatch(path)
    folders = [f"{match['repository']}/blobs"] if match else []
    found: list[str] = []
    for folder in (*folders, f"{path}/{_LOCAL_DOWNLOADS}"):
        try:
            names = host.list_folder(folder)
        except HostError:
            continue  # there is no such folder, or it is another user's
        found.extend(name for name in names if name.endswith(".incomplete"))
    return found[:_MOST_UNFINISHED]


def parse(raw: Raw) -> Value:
    """The description of the model; see :func:`parse_model`."""
    return parse_model(raw)


def parse_model(raw: Raw) -> Value:
    """``format`` is gguf, safetensors, pickle, missing or unknown; ``reason`` says what is wrong.

    ``size_bytes`` is the sum over all files, ``modified_ns`` the newest of them. ``is_truncated``
    is None where the size that the files should have is not known. The shape (``block_count``
    and so on) is None where the files do not say it. ``forms``: the tensors by their names, with
    ``*`` for numbers (:func:`stoker.probes.safetensors.measure_header`). For a folder also
    ``config`` (pruned), ``quantization_file``, ``generation``, ``adapter``, ``card``,
    ``template``, ``token_markers`` and what the names of its files tell
    (:mod:`stoker.probes.model_config`).
    """
    path, kind = raw["path"], raw["kind"]
    if kind == "missing":
        return {"format": "missing", "path": path, "reason": f"{path} does not exist"}
    beside, complaints = _describe_beside(raw)
    parts: list[Part] = json.loads(raw.get("parts", "[]"))
    if not parts:
        return _without_weights(raw, beside, complaints)
    problems = [f"{part['name']}: {part['problem']}" for part in parts if "problem" in part]
    if problems:
        return {**_unknown(path, "; ".join(problems[:3])), **beside}
    try:
        described = (
            _describe_gguf(parts)
            if kind == "gguf"
            else _describe_safetensors(parts, raw, beside, complaints)
        )
    except ValueError as error:
        return {**_unknown(path, str(error)), **beside}
    return {"path": path, **model_parts.sum_sizes(parts), **described}


def _describe_beside(raw: Raw) -> tuple[Value, list[str]]:
    """What the small files of a folder say, and what is wrong with its config; empty for a file."""
    if "files" not in raw:
        return {}, []
    texts: dict[str, str] = json.loads(raw["files"])
    config, complaints = _parse_config(texts.get(model_config.CONFIG))
    if "config_problem" in raw:
        complaints = [f"{model_config.CONFIG} cannot be read: {raw['config_problem']}"]
    names = raw.get("names", "").splitlines()
    named = model_config.describe_names(names)
    unfinished = [*named["unfinished_files"], *raw.get("unfinished", "").splitlines()]
    words = _parse_or_empty(texts.get(model_config.TOKENIZER))
    template = _describe_template(texts, words)
    found = {
        **named,
        "unfinished_files": unfinished,
        "config": config,
        "params": model_config.describe_params(texts),
        "quantization_file": model_config.describe_quantization_file(texts),
        "generation": model_config.describe_generation(texts),
        "adapter": model_config.describe_adapter(texts),
        "card": parse_card(texts.get(model_config.CARD, "")),
        "has_chat_template": template is not None if names else None,
        "template": template,
        "token_markers": tokenizer.find_token_markers(words),
    }
    return found, complaints


def _describe_template(texts: Mapping[str, str], words: Value) -> Value | None:
    table = _parse_or_empty(texts.get(model_config.TEMPLATE_TABLE))
    own = [texts.get(model_config.TEMPLATE, "")]
    own.extend(tokenizer.find_templates(table, files_of_own=()))
    return tokenizer.describe_template(tokenizer.find_templates(words, files_of_own=own))


def _parse_or_empty(text: str | None) -> Value:
    try:
        return safetensors.parse_table(text) if text is not None else {}
    except ValueError:
        return {}


def _parse_config(text: str | None) -> tuple[Value | None, list[str]]:
    if text is None:
        return None, []
    try:
        return model_config.prune(safetensors.parse_table(text)), []
    except ValueError as error:
        return None, [f"{model_config.CONFIG} cannot be read: {error}"]


def _without_weights(raw: Raw, beside: Value, complaints: Sequence[str]) -> Value:
    shape = config_shape(beside["config"]) if beside.get("config") else {}
    pickles: list[Part] = json.loads(raw.get("pickles", "[]"))
    if pickles:
        names = ", ".join(part["name"] for part in pickles[:3])
        reason = f"its weights are pickles ({names})"
        sizes = model_parts.sum_sizes(pickles)
        return {
            "format": "pickle",
            "path": raw["path"],
            "reason": reason,
            **sizes,
            **shape,
            **beside,
        }
    reason = "; ".join([_explain_no_weights(raw), *complaints])
    return {**_unknown(raw["path"], reason), **shape, **beside}


def _explain_no_weights(raw: Raw) -> str:
    if raw["kind"] == "folder":
        names = raw["names"].splitlines()
        if any(name.endswith(".gguf") for name in names):
            return "the folder holds GGUF files: name the file to serve"
        return "the folder holds no safetensors files"
    if raw["kind"] == "config":
        return "it is a config.json without weights"
    if raw["kind"] == "file":
        return "it neither begins as a GGUF file does nor is named as a safetensors file"
    if raw["kind"] == "unreachable":
        return "the path leads nowhere: its links go in a circle, or a name in it is too long"
    return "it is neither a file nor a folder"


def _unknown(path: str, reason: str) -> Value:
    return {"format": "unknown", "path": path, "reason": reason}


def _describe_gguf(parts: Sequence[Part]) -> Value:
    headers = [part["header"] for part in parts if "header" in part]
    sums = [_measure_gguf(header) for header in headers]
    unknown = sorted({number for found in sums for number in found["unknown_types"]})
    complaints = [f"its tensor type {number} is not known" for number in unknown]
    blank: Value = {"metadata": {}, "lengths": {}, "template": "", "version": None}
    first: Value = headers[0] if "header" in parts[0] else blank
    return {
        "format": "gguf",
        "version": first["version"],
        **model_parts.judge_sizes(parts, [found["end"] for found in sums], complaints),
        **model_parts.total(parts, sums),
        **gguf_shape(first["metadata"], first["lengths"]),
        "has_chat_template": _has_template(first["metadata"], first["lengths"]),
        "template": tokenizer.describe_template([first["template"]] if first["template"] else []),
    }


def _measure_gguf(header: Mapping[str, Any]) -> Value:
    found = gguf.measure_tensors(header["tensors"])
    is_known = found["data_bytes"] is not None
    return {**found, "end": header["data_offset"] + found["data_bytes"] if is_known else None}


def _has_template(metadata: Mapping[str, Any], lengths: Mapping[str, int]) -> bool | None:
    """None without any metadata, that is without a header."""
    return "tokenizer.chat_template" in {*metadata, *lengths} if metadata else None


def _describe_safetensors(
    parts: Sequence[Part], raw: Raw, beside: Value, complaints: Sequence[str]
) -> Value:
    shape = config_shape(beside.get("config") or {})
    layers = shape["block_count"]
    sums = [
        _measure_safetensors(part, layers=layers if isinstance(layers, int) else None)
        for part in parts
        if "header" in part
    ]
    return {
        "format": "safetensors",
        **model_parts.judge_sizes(parts, [found["end"] for found in sums], complaints),
        **model_parts.total(parts, sums),
        **shape,
        "has_chat_template": None,
        "config": None,
        **beside,
    }


def _measure_safetensors(part: Part, *, layers: int | None) -> Value:
    try:
        found = safetensors.measure_header(part["header"], layers=layers)
    except ValueError as error:
        raise ValueError(f"{part['name']}: {error}") from error
    return {**found, "end": part["data_offset"] + found["data_bytes"]}


PROBE = Probe(id="model", source="the headers of the model's files", read=read, parse=parse)
