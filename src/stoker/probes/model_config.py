"""The small files beside the weights: shape, quantization, adapters, and what else lies there.

Used by the model probe. All of them may come from anybody: each is read up to a bound, and what
is kept of it is plain data of bounded size and depth.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.errors import AccessDenied, HostError
from stoker.ports import ReadableHost
from stoker.probes import safetensors

CONFIG = "config.json"
QUANTIZATION = "hf_quant_config.json"
TOKENIZER = "tokenizer_config.json"
#: Files that bring a chat template; the second one as one of its keys.
TEMPLATE, TEMPLATE_TABLE = "chat_template.jinja", "chat_template.json"
CARD = "README.md"
_MISTRAL, _MISTRAL_VOCABULARY = "params.json", "tekken.json"
_ADAPTER = "adapter_config.json"
_GENERATION = "generation_config.json"

#: A file -> how much of it is read. A mixture names every quantized layer, each expert for itself.
_LIMITS = {
    CONFIG: 16 << 20,
    QUANTIZATION: 32 << 20,
    TOKENIZER: 16 << 20,
    TEMPLATE: 1 << 20,
    TEMPLATE_TABLE: 4 << 20,
    CARD: 64 << 10,
    _MISTRAL: 1 << 20,
    _ADAPTER: 1 << 20,
    _GENERATION: 1 << 20,
}
#: A git-lfs pointer is a text of some 130 bytes in place of the file.
LFS_BEGIN = "version https://git-lfs.github.com/spec/v1"
_UNFINISHED = (".incomplete", ".part", ".aria2", ".crdownload", ".tmp")
_PICKLES = re.compile(r".*\.(bin|pt|pth|pkl|ckpt)")
#: Files of these endings that hold no weights.
_NO_WEIGHTS = re.compile(r"(training_args|optimizer|scheduler|rng_state.*|scaler)\.\w+")
_CODE = ".py"
_MOST_NAMED = 20

_MOST_DEPTH = 8
_MOST_ITEMS = 1024
_MOST_KEYS = 512
_MOST_CHARACTERS = 2048

Value = dict[str, Any]


def read_files(host: ReadableHost, folder: str, names: Sequence[str]) -> dict[str, str]:
    """``files``: the texts of the small files that are there, by their names, as JSON.

    What cannot be read is left out, and so is a config that is too large; ``config_problem`` says
    why it is. A config that is closed to this user raises AccessDenied: the engine's user may see
    it.
    """
    texts: dict[str, str] = {}
    problem = ""
    for name, limit_bytes in _LIMITS.items():
        if name not in names:
            continue
        try:
            text = host.read_text(f"{folder}/{name}", limit_bytes + 1)
        except HostError as error:
            if name != CONFIG:
                continue
            if isinstance(error, AccessDenied):
                raise
            problem = error.summary
            continue
        if name == CONFIG and len(text.encode("utf-8", "replace")) > limit_bytes:
            problem = f"it is larger than {limit_bytes >> 20} MiB"
        else:
            texts[name] = text[:limit_bytes]
    return {"files": json.dumps(texts), **({"config_problem": problem} if problem else {})}


def describe_names(names: Sequence[str]) -> Value:
    """What the names in a folder tell: ``pickle_files``, ``code_files``, ``unfinished_files``,
    ``is_mistral_format``; lists are cut after twenty."""
    consolidated = any(name.startswith("consolidated") for name in names)
    return {
        "pickle_files": [name for name in names if _is_pickle(name)][:_MOST_NAMED],
        "code_files": [name for name in names if name.endswith(_CODE)][:_MOST_NAMED],
        "unfinished_files": [name for name in names if name.endswith(_UNFINISHED)][:_MOST_NAMED],
        "is_mistral_format": _MISTRAL in names and (consolidated or _MISTRAL_VOCABULARY in names),
    }


def _is_pickle(name: str) -> bool:
    return bool(_PICKLES.fullmatch(name)) and not _NO_WEIGHTS.fullmatch(name)


def describe_params(texts: Mapping[str, str]) -> Value | None:
    """The shape in the words of Mistral's own files; None where there is none."""
    return (prune(_table(texts[_MISTRAL])) or None) if _MISTRAL in texts else None


def describe_adapter(texts: Mapping[str, str]) -> Value | None:
    """``base``: the model that an adapter is for, ``kind`` (LORA); None where there is none."""
    if _ADAPTER not in texts:
        return None
    table = _table(texts[_ADAPTER])
    base, kind = table.get("base_model_name_or_path"), table.get("peft_type")
    return {
        "base": base if isinstance(base, str) else None,
        "kind": kind if isinstance(kind, str) else None,
    }


def describe_generation(texts: Mapping[str, str]) -> Value | None:
    """The maker's sampling (temperature, top_p, top_k and the like); None without the file."""
    if _GENERATION not in texts:
        return None
    table = prune(_table(texts[_GENERATION]))
    return {key: value for key, value in table.items() if isinstance(value, (int, float))}


def describe_quantization_file(texts: Mapping[str, str]) -> Value | None:
    """A hf_quant_config.json, its lists of layers counted by what they are packed as."""
    if QUANTIZATION not in texts:
        return None
    return prune(_table(texts[QUANTIZATION])) or None


def _table(text: str) -> Value:
    try:
        return safetensors.parse_table(text)
    except ValueError:
        return {}


def prune(value: Any, *, depth: int = 0) -> Any:
    """Plain data of bounded size. What is too long or too deep becomes None.

    A table of quantized layers, which may have an entry for every expert, becomes
    ``quantized_layer_counts``: how many layers by their quant_algo. Lists of names of layers keep
    their forms, with ``*`` in place of numbers.
    """
    if isinstance(value, dict):
        return _prune_table(value, depth=depth)
    if isinstance(value, list):
        return _prune_list(value, depth=depth)
    if isinstance(value, str):
        return value if len(value) <= _MOST_CHARACTERS else None
    if isinstance(value, float) and value - value != 0:
        return None  # JSON has no word for infinity and not-a-number, though Python reads them
    return value


def _prune_table(table: Value, *, depth: int) -> Value | None:
    if depth >= _MOST_DEPTH:
        return None
    kept: Value = {}
    for key, value in list(table.items())[:_MOST_KEYS]:
        if key == "quantized_layers" and isinstance(value, dict):
            kept["quantized_layer_counts"] = _count_layers(value)
        elif len(key) <= _MOST_CHARACTERS:
            kept[key] = prune(value, depth=depth + 1)
    return kept


def _count_layers(layers: Value) -> dict[str, int]:
    names = [row.get("quant_algo") if isinstance(row, dict) else None for row in layers.values()]
    counted = Counter(name for name in names if isinstance(name, str) and len(name) < _MOST_KEYS)
    return dict(counted.most_common(_MOST_NAMED))


def _prune_list(items: list[Any], *, depth: int) -> list[Any] | None:
    texts = [item[:_MOST_CHARACTERS] for item in items if isinstance(item, str)]
    # Names of layers have dots in them, kinds of layers have none.
    if len(texts) == len(items) > _MOST_NAMED and any("." in text for text in texts):
        items = sorted(set(map(safetensors.form_of, texts)))
    if len(items) > _MOST_ITEMS or depth >= _MOST_DEPTH:
        return None
    return [prune(item, depth=depth + 1) for item in items]
