"""What the model's own files say of it, in the words that rules use.

Called by :mod:`stoker.knowledge.describe`, and by whoever shows a model without a deployment. Each
part is a value, None for what surely is not there, or Unknown with the reason; no content of a
file raises. What stands where in a config.json is data (``data/model_types.toml``).

=============================== ================================================================
``format``                      "safetensors", "gguf", "pickle", or None for none of them
``has_config``                  whether a config.json could be read
``names``, ``base_names``       candidates like "moonshotai/Kimi-K2.5"; models it was made from
``named_quantization``          what the names promise, where the files are not here yet
``commit``, ``license``         of the hub, where the reference or path tells; of the card
``class``, ``model_type``       architectures[0] and model_type at the top of config.json
``text_model_type``             model_type of the language part
``layers``, ``dense_layers``    all; how many at the front have no experts (None without experts)
``attention``                   "mha", "gqa" (also with a single key head) or "mla"; None without
``is_sparse_attention``         attends to chosen tokens (DSA, NSA and their kin)
``has_linear_attention`` ...    see :mod:`stoker.knowledge.derived.layouts`
``heads``, ``kv_heads``         of attention; ``head_width``, ``value_width`` of one of them
``latent_width``, ``rope_width`` of the latent attention (MLA), None without
``linear_key_heads`` ...        and ``linear_value_heads`` of linear attention, None without
``hidden_width``                with ``intermediate_width`` of the dense layers
``is_moe``, ``experts`` ...     ``experts_per_token``, ``expert_width``, ``shared_experts``,
                                ``shared_expert_width`` (of all shared ones together); None
                                without experts
``quantization`` ...            see :mod:`stoker.knowledge.derived.quantization`
``context_tokens``              that the model was made for
``vocabulary``, ``dtype``       words; "bfloat16" and so on, as the file says
``weight_bytes``                of all files; ``weight_classes``: by class of tensor (ranks.py)
``draft_layers``                layers that draft tokens (MTP, NEXTN), 0 without
``is_multimodal``               takes more than text
``has_own_code``                its config names code of its own (auto_map); ``code_files``
``has_pickle``                  pickled weights lie there (``pickle_files``);
                                ``has_only_pickle``: there are no others
``pointer_files``               git-lfs pointers in place of weights; ``unfinished_files``:
                                beginnings of downloads
``is_adapter``                  it is an adapter, for the model ``adapter_base``
``is_mistral_format``           the layout of Mistral's own files lies there too
``has_chat_template``           with ``tool_markers`` and ``reasoning_markers`` that it emits and
                                ``template_variables`` that switch it
``token_markers``               markers that are words of the vocabulary (added tokens)
``problems``                    sentences about what in config.json contradicts itself
``unknown_parts``               the main parts that are Unknown, as sentences with the reason
=============================== ================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.knowledge.derived.config_view import ConfigView, shorten, view_config
from stoker.knowledge.derived.gguf_view import describe_gguf
from stoker.knowledge.derived.layouts import derive_layers, read_kinds
from stoker.knowledge.derived.model_names import find_names
from stoker.knowledge.derived.quantization import derive_quantization
from stoker.knowledge.derived.ranks import sum_classes
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.model_types import load_model_types
from stoker.knowledge.tensor_classes import class_of
from stoker.model.facts import Plain, Unknown

_FORMATS = ("gguf", "safetensors", "pickle")
_OF_TEMPLATE = {
    "tool_markers": "tool_markers",
    "reasoning_markers": "reasoning_markers",
    "template_variables": "variables",
}
#: Without these no division among GPUs and no choice of kernels can be reasoned about.
_MAIN = (
    "class",
    "layers",
    "attention",
    "has_linear_attention",
    "linear_attention",
    "has_sliding_window",
    "is_moe",
    "experts",
    "heads",
    "kv_heads",
    "hidden_width",
    "quantization",
    "context_tokens",
)
#: Parts about heads that not every model has.
_MAYBE_HEADS = (
    "value_width",
    "latent_width",
    "rope_width",
    "linear_key_heads",
    "linear_value_heads",
)
_SHAPE = (
    "layers",
    "heads",
    "kv_heads",
    "hidden_width",
    "intermediate_width",
    "vocabulary",
    "context_tokens",
)


def derive_checkpoint(subject: Subject) -> dict[str, Plain]:
    """What is known of the model; each part is Unknown where its files are not here yet."""
    return describe_checkpoint(subject.facts.read("model"), reference=subject.deployment.model.ref)


def describe_checkpoint(seen: Plain | Unknown, *, reference: str = "") -> dict[str, Plain]:
    """The parts of the table above from what the model probe saw."""
    if isinstance(seen, Unknown) or not isinstance(seen, Mapping):
        reason = seen if isinstance(seen, Unknown) else Unknown(reason="no model was looked at")
        return {**_unsaid(reason), **find_names(reference, {})}
    names = find_names(reference, seen)
    if seen.get("format") == "missing":
        return {**_unsaid(Unknown(reason="the model's files are not here yet")), **names}
    parts = {**_describe_content(seen), **_describe_files(seen), **names}
    return {**parts, "unknown_parts": _list_unknown(parts)}


def _describe_content(seen: Mapping[str, Plain]) -> dict[str, Plain]:
    if seen.get("format") == "gguf":
        return {**_unsaid(Unknown(reason="a GGUF file does not say")), **describe_gguf(seen)}
    for name, file in (("config", "config.json"), ("params", "params.json")):
        config = seen.get(name)
        if isinstance(config, Mapping):
            return _describe_config(config, seen, file=file)
    return _unsaid(Unknown(reason=_why_no_config(seen)))


def _unsaid(reason: Unknown) -> dict[str, Plain]:
    """Every part as Unknown for the same reason."""
    return dict.fromkeys([*_describe_config({}, {}), *_describe_files({}), "unknown_parts"], reason)


def _why_no_config(seen: Mapping[str, Plain]) -> str:
    reason = seen.get("reason")
    about = reason if isinstance(reason, str) and "config.json" in reason else ""
    return about or "there is no config.json beside the weights"


def _describe_config(
    config: Mapping[str, Plain], seen: Mapping[str, Plain], *, file: str = "config.json"
) -> dict[str, Plain]:
    view = view_config(config, file)
    beside = seen.get("quantization_file")
    shape = {part: view.count(part) for part in _SHAPE}
    shape["layers"] = _count_layers(view)
    return {
        **_describe_kind(view, config),
        **shape,
        **_describe_heads(view, shape),
        **_describe_experts(view),
        **derive_layers(view),
        **derive_quantization(view, beside if isinstance(beside, Mapping) else None),
        "context_tokens": _stretch(view, shape["context_tokens"]),
        "dtype": _dtype(view),
        "draft_layers": _draft_layers(view, seen),
        "is_multimodal": any(map(view.has, load_model_types().multimodal)),
        "has_own_code": view.has("auto_map"),
        "problems": list(_find_problems(view, shape)),
    }


def _count_layers(view: ConfigView) -> int | Unknown:
    """A file that lists the kind of each layer need not count them."""
    kinds = None if view.names_any("layers") else read_kinds(view)
    return len(kinds) if isinstance(kinds, list) and kinds else view.count("layers")


def _describe_kind(view: ConfigView, config: Mapping[str, Plain]) -> dict[str, Plain]:
    if view.file != "config.json":  # Mistral's own files name no class; engines infer it
        return dict.fromkeys(("class", "model_type", "text_model_type"))
    named = config.get("architectures")
    first = named[0] if isinstance(named, (list, tuple)) and named else named
    model_type = config.get("model_type")
    inner = view.find("model_type")
    return {
        "class": first if _is_word(first) else _missing(view, "architectures"),
        "model_type": model_type if _is_word(model_type) else _missing(view, "model_type"),
        "text_model_type": inner if _is_word(inner) else _missing(view, "model_type"),
    }


def _is_word(value: Plain) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 128


def _missing(view: ConfigView, name: str) -> Unknown:
    return Unknown(reason=f"{view.file} gives no {name}")


def _describe_heads(view: ConfigView, shape: Mapping[str, Plain]) -> dict[str, Plain]:
    is_latent = any(map(view.has, load_model_types().latent))
    kv_heads = _kv_heads(view, shape)
    has_none = not view.names_any("heads") and derive_layers(view)["has_linear_attention"] is True
    return {
        "attention": None
        if has_none
        else _attention(shape["heads"], kv_heads, is_latent=is_latent),
        "is_sparse_attention": any(map(view.has, load_model_types().sparse)),
        "heads": None if has_none else shape["heads"],
        "kv_heads": None if has_none else kv_heads,
        "head_width": None if has_none else _head_width(view, shape),
        **{part: view.count(part) if view.names_any(part) else None for part in _MAYBE_HEADS},
    }


def _attention(heads: Plain, kv_heads: Plain, *, is_latent: bool) -> str | Unknown:
    if is_latent:
        return "mla"
    for each in (heads, kv_heads):
        if isinstance(each, Unknown):
            return each
    return "mha" if heads == kv_heads else "gqa"


def _kv_heads(view: ConfigView, shape: Mapping[str, Plain]) -> int | Unknown:
    # Falcon's first design has one key head for all and says so in another word.
    if view.find("multi_query") is True and not view.find("new_decoder_architecture"):
        return 1
    found: int | Unknown = shape["kv_heads"]
    if isinstance(found, Unknown) and isinstance(shape["heads"], int):
        return _kv_heads_of_blocks(view, shape["heads"]) or found
    return found


def _kv_heads_of_blocks(view: ConfigView, heads: int) -> int | None:
    """Models whose layers were searched for list them one by one, some without attention."""
    blocks = view.find("block_configs")
    listed = blocks if isinstance(blocks, (list, tuple)) else ()
    rows = [row.get("attention") for row in listed if isinstance(row, Mapping)]
    sizes = [row.get("n_heads_in_group") for row in rows if isinstance(row, Mapping)]
    groups = {size for size in sizes if type(size) is int and size > 0}
    group = groups.pop() if len(groups) == 1 else heads + 1
    return heads // group if heads % group == 0 else None


def _head_width(view: ConfigView, shape: Mapping[str, Plain]) -> int | Unknown:
    if view.has("kv_lora_rank") and view.names_any("nope_width"):
        parts = view.count("nope_width"), view.count("rope_width")
        unknown = next((part for part in parts if isinstance(part, Unknown)), None)
        whole = sum(part for part in parts if isinstance(part, int))
        return whole if unknown is None else unknown
    if view.names_any("head_width"):
        return view.count("head_width")
    heads, width = shape["heads"], shape["hidden_width"]
    if isinstance(heads, Unknown) or isinstance(width, Unknown):
        return heads if isinstance(heads, Unknown) else width
    if width % heads:
        return Unknown(reason=f"a hidden_size of {width} cannot be shared by {heads} heads")
    return int(width // heads)


def _describe_experts(view: ConfigView) -> dict[str, Plain]:
    names = ("experts", "experts_per_token", "expert_width", "shared_experts")
    found = {name: view.count(name) for name in names}
    experts = found["experts"]
    if not view.names_any("experts"):
        is_moe: bool | Unknown = _unsure_of_experts(view)
    else:
        is_moe = experts if isinstance(experts, Unknown) else experts > 1
    if is_moe is not True:
        answer = None if is_moe is False else is_moe
        parts = dict.fromkeys([*names, "shared_expert_width", "dense_layers"], answer)
        return {"is_moe": is_moe, **parts}
    if not view.names_any("expert_width"):
        found["expert_width"] = view.count("intermediate_width")
    if not view.names_any("shared_experts"):
        found["shared_experts"] = 1 if view.has("shared_expert_intermediate_size") else 0
    return {
        "is_moe": True,
        **found,
        "shared_expert_width": _shared_width(view, found),
        "dense_layers": view.count("dense_layers") if view.names_any("dense_layers") else 0,
    }


def _unsure_of_experts(view: ConfigView) -> bool | Unknown:
    """A file that speaks of experts in words that nobody knows is not surely without them."""
    for table in view.tables:
        for key, value in table.items():
            if "expert" in str(key) and isinstance(value, int) and value > 1:
                return Unknown(reason=f"{view.file} gives {shorten(key)}, which is not known")
    return False


def _shared_width(view: ConfigView, found: Mapping[str, Plain]) -> Plain:
    if view.names_any("shared_expert_width"):
        width = view.count("shared_expert_width")
        return width if isinstance(width, Unknown) else width or None
    shared, width = found["shared_experts"], found["expert_width"]
    for each in (shared, width):
        if isinstance(each, Unknown):
            return each
    return shared * width or None


#: Stretched positions that max_position_embeddings counts already.
_COUNTED = ("default", "llama3", "longrope", "su", "mrope", "proportional")


def _stretch(view: ConfigView, tokens: Plain) -> Plain:
    """A rope_scaling without the original length stretches what max_position_embeddings says."""
    scaling = view.find("rope_scaling") or view.find("rope_parameters")
    if isinstance(tokens, Unknown) or not isinstance(scaling, Mapping):
        return tokens
    kind, factor = scaling.get("rope_type") or scaling.get("type"), scaling.get("factor")
    is_factor = isinstance(factor, (int, float)) and 1 <= factor <= 1024
    if kind in _COUNTED or not is_factor or "original_max_position_embeddings" in scaling:
        return tokens
    return int(tokens * factor)


def _dtype(view: ConfigView) -> str | Unknown:
    for name in ("dtype", "torch_dtype"):
        value = view.find(name)
        if _is_word(value):
            return str(value).removeprefix("torch.")
    return _missing(view, "dtype")


def _draft_layers(view: ConfigView, seen: Mapping[str, Plain]) -> int | Unknown:
    """What the weights hold decides where their headers are known, else what the file says."""
    said = view.count("draft_layers") if view.names_any("draft_layers") else 0
    forms = seen.get("forms")
    if not isinstance(forms, (list, tuple)) or isinstance(view.count("layers"), Unknown):
        return said
    if not any(class_of(form[0]).name == "draft" for form in forms):
        return 0
    return said if isinstance(said, int) and said else 1


def _find_problems(view: ConfigView, shape: Mapping[str, Plain]) -> Iterator[str]:
    heads, kv_heads = shape["heads"], shape["kv_heads"]
    both = isinstance(heads, int) and isinstance(kv_heads, int)
    if both and heads % kv_heads:
        yield f"{heads} attention heads cannot be shared by {kv_heads} key-value heads"
    width = shape["hidden_width"]
    is_derived = not view.names_any("head_width") and not view.names_any("latent_width")
    if is_derived and isinstance(heads, int) and isinstance(width, int) and width % heads:
        yield f"a hidden_size of {width} cannot be shared by {heads} attention heads"
    experts, used = view.count("experts"), view.count("experts_per_token")
    if isinstance(experts, int) and isinstance(used, int) and used > experts > 0:
        yield f"{used} experts for each token are more than the {experts} that there are"
    kinds, layers = read_kinds(view), shape["layers"]
    if isinstance(kinds, list) and isinstance(layers, int) and len(kinds) != layers:
        yield f"the kinds of {len(kinds)} layers are listed, and there are {layers}"


def _describe_files(seen: Mapping[str, Plain]) -> dict[str, Plain]:
    """What the headers and the small files beside the weights tell, for either format."""
    kind = seen.get("format")
    unsaid = Unknown(reason="no weights were found")
    adapter, card = seen.get("adapter"), seen.get("card")
    adapter = adapter if isinstance(adapter, Mapping) else None
    pickles = seen.get("pickle_files") or []
    return {
        "format": kind if kind in _FORMATS else None,
        "weight_bytes": seen["size_bytes"] if seen.get("size_bytes") else unsaid,
        "has_config": isinstance(seen.get("config"), Mapping),
        "weight_classes": sum_classes(seen.get("forms")),
        "has_pickle": bool(pickles),
        "has_only_pickle": kind == "pickle",
        "pickle_files": pickles,
        "pointer_files": seen.get("pointer_files") or [],
        "unfinished_files": seen.get("unfinished_files") or [],
        "code_files": seen.get("code_files") or [],
        # Beside whole weights an adapter's config tells what was merged into them.
        "is_adapter": adapter is not None and not isinstance(seen.get("config"), Mapping),
        "adapter_base": adapter.get("base") if adapter else None,
        "is_mistral_format": bool(seen.get("is_mistral_format")),
        "license": card.get("license") if isinstance(card, Mapping) else None,
        **_describe_template(seen),
    }


def _describe_template(seen: Mapping[str, Plain]) -> dict[str, Plain]:
    has_template, template = seen.get("has_chat_template"), seen.get("template")
    if isinstance(template, Mapping):
        markers = {key: template.get(name, []) for key, name in _OF_TEMPLATE.items()}
    else:
        unread = Unknown(reason="no chat template could be read")
        markers = dict.fromkeys(_OF_TEMPLATE, [] if has_template is False else unread)
    unknown = Unknown(reason="whether there is a chat template is not known")
    return {
        "has_chat_template": unknown if has_template is None else has_template,
        **markers,
        "token_markers": seen.get("token_markers") or [],
    }


def _list_unknown(parts: Mapping[str, Plain]) -> list[str]:
    """The main parts that nobody could tell, those of one reason together."""
    by_reason: dict[str, list[str]] = {}
    for name in _MAIN:
        part = parts.get(name)
        if isinstance(part, Unknown):
            by_reason.setdefault(part.reason, []).append(name)
    return [f"{' and '.join(names)} ({reason})" for reason, names in by_reason.items()]
