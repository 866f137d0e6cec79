"""What a checkpoint's weights are packed as, in the one word that rules use.

Called where a checkpoint is classified (:mod:`stoker.knowledge.derived.checkpoint`). The names
that the makers' files use stand in ``data/quantization_methods.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stoker.knowledge.derived.config_view import ConfigView, shorten
from stoker.knowledge.model_types import QuantizationWords, WeightRow, load_quantization_words
from stoker.model.facts import Plain, Unknown

_MOST_GROUPS = 256
_MOST_DEPTH = 4
_COMPRESSED = "compressed-tensors"

Table = Mapping[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """``words``: what parts of the weights are packed as, the most telling first."""

    words: tuple[str, ...] = ()
    method: str = ""
    reason: str = ""
    details: Table = field(default_factory=dict)


def derive_quantization(view: ConfigView, beside: Table | None = None) -> dict[str, Plain]:
    """What the weights are packed as.

    ``quantization``: one word, "none" for weights of the usual width; where parts differ, that of
    the fewest bits. ``quantization_parts``: all the words, sorted. ``expert_quantization``: the
    word of the routed experts where the file says that they differ, else that of all.
    ``quantization_method``: what the file calls it (None without), with ModelOpt's family spelt
    out. ``quantization_bits``, ``quantization_group`` (of how many weights), ``quantization_block``
    (two sizes), ``quantization_activation`` ("static" or "dynamic"), ``quantization_ignored``
    (names of what is left as it was), ``kv_cache_quantization`` ("fp8", "none", ...). ``beside``:
    what a hf_quant_config.json says.
    """
    table = _find_table(view, beside)
    if table is None:
        return _none(view)
    if isinstance(table, Unknown):
        return dict.fromkeys(_NAMES, table)
    found = _read(table, load_quantization_words())
    return {**_describe(found, table), "expert_quantization": _of_experts(view, found)}


_NAMES = (
    "quantization",
    "quantization_parts",
    "expert_quantization",
    "quantization_method",
    "quantization_bits",
    "quantization_group",
    "quantization_block",
    "quantization_activation",
    "quantization_ignored",
    "kv_cache_quantization",
)
#: The fewer bits, the more a part decides which kernels are needed.
_BY_WEIGHT = ("nvfp4", "mxfp4", "w4afp8", "int4", "awq", "gptq", "mxfp8", "fp8-block", "fp8")


def _none(view: ConfigView) -> dict[str, Plain]:
    plain: dict[str, Plain] = dict.fromkeys(_NAMES)
    expert = _expert_word(view) or "none"
    first = {"quantization": "none", "quantization_parts": [], "expert_quantization": expert}
    first |= {"quantization_ignored": []}
    return {**plain, **first, "kv_cache_quantization": "none"}


def _find_table(view: ConfigView, beside: Table | None) -> Table | Unknown | None:
    for key in ("quantization_config", "compression_config"):
        value = view.find(key)
        if isinstance(value, Mapping):
            return _with_beside(value, beside)
        if value is not None:
            return Unknown(reason=f"{view.file} gives {key} = {shorten(value)}, which is no table")
    if beside:
        return beside
    value = view.find("quantization")
    if not isinstance(value, Mapping) or not value:
        return None
    # MLX and Mistral each write a table of this name, neither with a method in it.
    name = "mistral" if "qformat_weight" in value else "mlx"
    return {"quant_method": name, **value}


def _with_beside(table: Table, beside: Table | None) -> Table:
    """A file beside tells more where config.json names a mixture without its parts."""
    is_mixed = "MIXED" in str(_unwrap(table).get("quant_algo"))
    return {**table, **_unwrap(beside)} if beside and is_mixed else table


def _unwrap(table: Table) -> Table:
    """ModelOpt nests its own table, sometimes twice."""
    for _ in range(2):
        inner = table.get("quantization")
        if not isinstance(inner, Mapping):
            break
        table = {**table, **inner}
    return table


def _read(table: Table, words: QuantizationWords) -> _Found:
    table = _unwrap(table)
    method = _text(table.get("quant_method")).lower().replace("compressed_tensors", _COMPRESSED)
    algorithm = _text(table.get("quant_algo")).upper()
    if algorithm:
        return _read_algorithm(table, method, algorithm)
    groups = list(_groups(table))
    if groups and method not in words.methods:
        return _read_groups(groups, method or _COMPRESSED)
    if method in words.methods:
        has_block = bool(table.get("weight_block_size"))
        word = words.blocks.get(method) if has_block else None
        return _Found(words=(word or words.methods[method],), method=method, details=table)
    return _read_other(table, method, words)


def _read_algorithm(table: Table, method: str, algorithm: str) -> _Found:
    words = load_quantization_words()
    named = words.algorithm_methods.get(algorithm, "")
    is_family = method in ("", "modelopt")
    full_method = named if is_family and named else method or "modelopt"
    if "MIXED" not in algorithm:
        word = words.algorithms.get(algorithm)
        reason = "" if word else f"its quant_algo {shorten(algorithm)} is not known"
        return _Found(
            words=(word,) if word else (), method=full_method, reason=reason, details=table
        )
    parts = set(_mixed_parts(table, words))
    base = _read({**table, "quant_algo": None, "config_groups": None}, words)
    if not is_family:
        parts |= set(base.words)
        full_method = method
    if parts == {"w4afp8"} or parts == {"w4afp8", "fp8"}:
        full_method = "w4afp8"
    reason = "" if parts else "it is a mixture, and the files do not say of what"
    return _Found(words=_order(parts), method=full_method, reason=reason, details=table)


def _mixed_parts(table: Table, words: QuantizationWords) -> Iterator[str]:
    """Eight bits at the top of a mixture say nothing: its other part may have fewer."""
    layers = table.get("quantized_layers")
    rows = layers.values() if isinstance(layers, Mapping) else ()
    named = [row.get("quant_algo") if isinstance(row, Mapping) else None for row in rows]
    for name in (*named, table.get("moe_quant_algo"), *_summary_names(table)):
        word = words.algorithms.get(_text(name).upper())
        if word:
            yield word
    for group in _groups(table):
        word = _word_of_group(group, words.weights)
        if word and (group is not table or _whole(table.get("num_bits")) in range(1, 8)):
            yield word


def _summary_names(table: Table) -> Iterator[Plain]:
    """The algorithms as the model probe counts them."""
    counted = table.get("quantized_layer_counts")
    yield from counted if isinstance(counted, Mapping) else ()


def _groups(table: Table) -> Iterator[Table]:
    """The tables of numbers in the manner of compressed-tensors."""
    groups = table.get("config_groups")
    rows = list(groups.values())[:_MOST_GROUPS] if isinstance(groups, Mapping) else []
    for row in rows:
        if isinstance(row, Mapping) and isinstance(row.get("weights"), Mapping):
            inputs = row.get("input_activations")
            dynamic = inputs.get("dynamic") if isinstance(inputs, Mapping) else None
            told = {"activation": _join_type(inputs), "is_dynamic": dynamic}
            yield {**row["weights"], **told}
    if not rows and "num_bits" in table:
        yield table


def _join_type(activations: Plain) -> str:
    if not isinstance(activations, Mapping):
        return ""
    return f"{_text(activations.get('type'))}{_whole(activations.get('num_bits')) or ''}"


def _read_groups(groups: list[Table], method: str) -> _Found:
    rows = load_quantization_words().weights
    found = {word for group in groups for word in [_word_of_group(group, rows)] if word}
    reason = "" if found else "the numbers of its groups are not known"
    return _Found(words=_order(found), method=method, reason=reason, details=groups[0])


def _word_of_group(group: Table, rows: tuple[WeightRow, ...]) -> str | None:
    return next((row.word for row in rows if _fits(row, group)), None)


def _fits(row: WeightRow, group: Table) -> bool:
    wanted = {
        "type": row.type,
        "num_bits": row.bits,
        "group_size": row.group,
        "strategy": row.strategy,
        "activation": row.activation,
    }
    return all(group.get(key) == value for key, value in wanted.items() if value is not None)


def _read_other(table: Table, method: str, words: QuantizationWords) -> _Found:
    """Makers whose word depends on a number type that stands somewhere in their table."""
    bits = _whole(table.get("bits"))
    types = [name for name in _type_names(table, depth=0) if name]
    found = {word for name in types for word in [_word_of_type(name, words.types)] if word}
    if not found and bits and method:
        found = {f"int{bits}"}
    if found:
        return _Found(words=_order(found), method=method, details=table)
    if not method:
        return _Found(reason="its table names no quant_method", details=table)
    return _Found(
        reason=f"its quant_method {shorten(method)} is not known", method=method, details=table
    )


#: Keys of the tables of Quark, TorchAO, AutoRound and FP-Quant whose value names a number type.
_TYPE_KEYS = ("qformat_weight", "dtype", "_type", "quant_type", "data_type", "forward_dtype")
_INNER_KEYS = ("global_quant_config", "layer_quant_config", "weight", "quant_type", "default")


def _type_names(table: Table, *, depth: int) -> Iterator[str]:
    for key in _TYPE_KEYS:
        yield _text(table.get(key)).lower().replace("mx_fp", "mxfp4").replace("nv_fp", "nvfp4")
    inner = [table.get(key) for key in _INNER_KEYS]
    rows = table.get("layer_quant_config")
    inner.extend(list(rows.values())[:_MOST_GROUPS] if isinstance(rows, Mapping) else [])
    for each in inner:
        if isinstance(each, Mapping) and depth < _MOST_DEPTH:
            yield from _type_names(each, depth=depth + 1)


def _word_of_type(name: str, types: Mapping[str, str]) -> str | None:
    return next((word for begin, word in types.items() if name.startswith(begin)), None)


def _order(found: set[str]) -> tuple[str, ...]:
    places = {word: place for place, word in enumerate(_BY_WEIGHT)}
    return tuple(sorted(found, key=lambda word: (places.get(word, len(places)), word)))


def _describe(found: _Found, table: Table) -> dict[str, Plain]:
    details = {**_unwrap(table), **found.details}
    unknown = Unknown(reason=found.reason)
    return {
        "quantization": found.words[0] if found.words else unknown,
        "quantization_parts": sorted(found.words) if found.words else unknown,
        "quantization_method": found.method or unknown,
        "quantization_bits": _first(details, "num_bits", "bits", "w_bit", "quantization_bits"),
        "quantization_group": _first(details, "group_size", "q_group_size"),
        "quantization_block": _pair(
            details.get("weight_block_size") or details.get("block_structure")
        ),
        "quantization_activation": _activation(details),
        "quantization_ignored": _ignored(details),
        "kv_cache_quantization": _cache(_unwrap(table)),
    }


_IGNORE_KEYS = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers", "exclude")


def _ignored(details: Table) -> list[str]:
    """The names of modules, or patterns of them, that the maker left as they were."""
    lists = [details.get(key) for key in _IGNORE_KEYS]
    named = next((names for names in lists if isinstance(names, (list, tuple))), ())
    return [name for name in named if isinstance(name, str)][:_MOST_GROUPS]


def _of_experts(view: ConfigView, found: _Found) -> Plain:
    word = _expert_word(view)
    if word:
        return word
    return found.words[0] if found.words else Unknown(reason=found.reason)


def _expert_word(view: ConfigView) -> str | None:
    """DeepSeek V4 keeps its routed experts in another type than quantization_config says."""
    name = view.find("expert_dtype")
    return _word_of_type(_text(name).lower(), load_quantization_words().types)


def _activation(details: Table) -> str | None:
    scheme = details.get("activation_scheme")
    if scheme in ("static", "dynamic"):
        return str(scheme)
    is_dynamic = details.get("is_dynamic")
    return {True: "dynamic", False: "static"}[is_dynamic] if isinstance(is_dynamic, bool) else None


def _cache(table: Table) -> Plain:
    """How the maker wants keys and values to be kept, "none" where the file wants nothing."""
    caches = load_quantization_words().caches
    for key in ("kv_cache_quant_algo", "kv_cache_dtype", "kv_cache_quant_method"):
        name = table.get(key)
        if isinstance(name, str):
            word = caches.get(name.lower())
            return word or Unknown(reason=f"its {key} {shorten(name)} is not known")
    scheme = table.get("kv_cache_scheme")
    if not isinstance(scheme, Mapping):
        return "none"
    word = caches.get(
        f"{_text(scheme.get('type')).replace('float', 'fp')}{_whole(scheme.get('num_bits'))}"
    )
    return word or Unknown(reason="its kv_cache_scheme is not known")


def _first(table: Table, *names: str) -> int | None:
    return next((found for name in names for found in [_whole(table.get(name))] if found), None)


def _pair(value: Plain) -> list[int] | None:
    items = value if isinstance(value, (list, tuple)) else ()
    sizes = [item for item in items if _whole(item)]
    return sizes if len(sizes) == len(items) == 2 else None


def _whole(value: Plain) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31
    return value if is_count else None


def _text(value: Plain) -> str:
    return value if isinstance(value, str) else ""
