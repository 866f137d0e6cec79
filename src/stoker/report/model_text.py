"""A model as a person reads it: what it is, how large it is on each GPU, what is not known.

Called by the command line. All texts come from files that anybody may have written, so what a
terminal would obey is never printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stoker.model.facts import Plain
from stoker.model.shown_model import RankShare, ShownModel
from stoker.model.units import format_bytes
from stoker.report.table import render_table

_WIDTH = 14
_MOST_NAMES = 4
_MOST_MARKERS = 12


def render_model(shown: ShownModel) -> str:
    """Lines of a name and what is known of it, tables of sizes, and the unknown with reasons."""
    known = shown.known
    rows = [
        ("what", _what(shown)),
        ("names", _list(known.get("names"), _MOST_NAMES)),
        ("made from", _list(known.get("base_names"), _MOST_NAMES)),
        ("commit", _word(known.get("commit"))),
        ("licence", _word(known.get("license"))),
        ("layers", _layers(known)),
        ("attention", _attention(known)),
        ("experts", _experts(known)),
        ("widths", _widths(known)),
        ("quantization", _quantization(known)),
        ("context", _count(known.get("context_tokens"), "tokens")),
        ("drafts", _count(known.get("draft_layers"), "layers that draft tokens")),
        ("template", _template(known)),
        ("files", _files(shown)),
        ("card names", "; ".join(shown.card)),
        ("beware", _beware(shown)),
    ]
    lines = [clean(shown.path), *(_line(name, text) for name, text in rows if text)]
    return "\n".join([*lines, *_tables(shown), *_unknown(shown)]) + "\n"


def clean(text: str) -> str:
    """A foreign text without what moves a cursor or changes colours."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _line(name: str, text: str) -> str:
    return f"  {name.ljust(_WIDTH)}{clean(text)}"


def _what(shown: ShownModel) -> str:
    known = shown.known
    names = [known.get("class"), known.get("model_type"), known.get("dtype")]
    extra = [
        name for name in ("is_multimodal", "is_adapter", "is_mistral_format") if known.get(name)
    ]
    words = {
        "is_multimodal": "takes more than text",
        "is_adapter": f"an adapter for {known.get('adapter_base') or 'another model'}",
        "is_mistral_format": "with Mistral's own files",
    }
    told = [shown.format, *(str(name) for name in names if name), *(words[name] for name in extra)]
    return ", ".join(told)


def _list(value: Plain, most: int) -> str:
    items = [str(item) for item in value or ()]
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


def _word(value: Plain) -> str:
    return "" if value is None else str(value)


def _count(value: Plain, unit: str) -> str:
    return f"{value:,} {unit}" if isinstance(value, int) and value else ""


def _layers(known: Mapping[str, Plain]) -> str:
    layers = known.get("layers")
    if not isinstance(layers, int):
        return ""
    kinds = [
        (known.get("full_layers"), "with full attention"),
        (known.get("sliding_layers"), f"with a window of {known.get('window_tokens')} tokens"),
        (known.get("linear_layers"), f"with {known.get('linear_attention') or 'a linear state'}"),
    ]
    told = [f"{count} {words}" for count, words in kinds if count]
    return f"{layers}: {', '.join(told)}" if told else str(layers)


def _attention(known: Mapping[str, Plain]) -> str:
    kind = known.get("attention")
    heads = [
        (known.get("heads"), "heads"),
        (known.get("kv_heads"), "key-value heads"),
        (known.get("head_width"), "wide"),
        (known.get("latent_width"), "of latent"),
    ]
    told = [f"{count} {words}" for count, words in heads if count]
    sparse = ["to chosen tokens only"] if known.get("is_sparse_attention") is True else []
    return ", ".join([*([str(kind)] if kind else []), *told, *sparse]) if kind or heads else ""


def _experts(known: Mapping[str, Plain]) -> str:
    if known.get("is_moe") is not True:
        return ""
    parts = [
        (known.get("experts"), ""),
        (known.get("experts_per_token"), " for each token"),
        (known.get("expert_width"), " wide"),
        (known.get("shared_expert_width"), " wide shared"),
        (known.get("dense_layers"), " layers without"),
    ]
    return ", ".join(f"{count}{words}" for count, words in parts if count)


def _widths(known: Mapping[str, Plain]) -> str:
    parts = [
        (known.get("hidden_width"), "hidden"),
        (known.get("intermediate_width"), "intermediate"),
        (known.get("vocabulary"), "words"),
    ]
    return ", ".join(f"{count} {words}" for count, words in parts if count)


def _quantization(known: Mapping[str, Plain]) -> str:
    word = known.get("quantization")
    if word is None:
        return ""
    block, group = known.get("quantization_block"), known.get("quantization_group")
    expert, cache = known.get("expert_quantization"), known.get("kv_cache_quantization")
    told = [
        str(word),
        f"called {known['quantization_method']}" if known.get("quantization_method") else "",
        f"groups of {group}" if group else "",
        f"blocks of {block[0]} x {block[1]}" if block else "",
        f"experts {expert}" if expert not in (None, word) else "",
        f"key-value cache {cache}" if cache not in (None, "none") else "",
    ]
    return ", ".join(part for part in told if part)


def _template(known: Mapping[str, Plain]) -> str:
    if known.get("has_chat_template") is False:
        return "none"
    parts = [
        ("calls", known.get("tool_markers")),
        ("thoughts", known.get("reasoning_markers")),
        ("switches", known.get("template_variables")),
    ]
    told = [f"{name} {' '.join(items[:_MOST_MARKERS])}" for name, items in parts if items]
    return "; ".join(told) or ("yes" if known.get("has_chat_template") else "")


def _files(shown: ShownModel) -> str:
    files = shown.files
    size = files.get("size_bytes")
    if not size:
        return ""
    whole = {True: "whole", False: "NOT WHOLE", None: "of unknown length"}[shown.is_whole]
    types: Mapping[str, int] = files.get("tensor_types") or {}
    mixture = ", ".join(f"{name} {format_bytes(types[name])}" for name in _by_size(types))
    parts = files.get("part_count")
    told = f"{format_bytes(size)} in {parts} {'file' if parts == 1 else 'files'}, {whole}"
    return f"{told}; {mixture}" if mixture else told


def _by_size(sizes: Mapping[str, int]) -> Sequence[str]:
    return sorted(sizes, key=lambda name: -sizes[name])


def _beware(shown: ShownModel) -> str:
    known = shown.known
    told = [
        shown.reason or "",
        f"code of its own ({_list(known.get('code_files'), 3) or 'elsewhere'})"
        if known.get("has_own_code") is True
        else "",
        f"pickles ({_list(known.get('pickle_files'), 3)})" if known.get("has_pickle") else "",
        f"unfinished downloads ({_list(known.get('unfinished_files'), 3)})"
        if known.get("unfinished_files")
        else "",
        *known.get("problems", ()),
    ]
    return "; ".join(part for part in told if part)


def _tables(shown: ShownModel) -> Iterator[str]:
    classes = shown.known.get("weight_classes")
    if classes:
        rows = [(name, format_bytes(size)) for name, size in classes.items()]
        yield "\n" + render_table(("tensors", "size"), rows).rstrip("\n")
    if shown.shares:
        shares = [_share(share) for share in shown.shares]
        yield "\n" + render_table(("tp", "ep", "weights on each GPU"), shares).rstrip("\n")


def _share(share: RankShare) -> tuple[str, str, str]:
    uneven = f" (does not come out even: {share.uneven})" if share.uneven else ""
    size = f"{format_bytes(share.weight_bytes)}{uneven}"
    return str(share.tensor), str(share.expert), size


def _unknown(shown: ShownModel) -> Iterator[str]:
    """Parts by their reason, since one missing file makes many parts unknown."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in shown.unknown.items():
        by_reason.setdefault(reason, []).append(name)
    if by_reason:
        yield "\nnot known"
    for reason, names in by_reason.items():
        yield f"  {clean(reason)}: {', '.join(names)}"
