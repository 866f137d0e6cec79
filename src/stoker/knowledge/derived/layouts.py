"""Of what kinds a model's layers are: full attention, a window, a linear state, or none.

Called where a checkpoint is classified (:mod:`stoker.knowledge.derived.checkpoint`). The keys that
tell stand in ``data/model_types.toml``; nothing here knows a model by its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from stoker.knowledge.derived.config_view import ConfigView, shorten
from stoker.knowledge.model_types import Layout, load_model_types
from stoker.model.facts import Plain, Unknown

_FULL, _SLIDING, _LINEAR, _BOTH = "full", "sliding", "linear", "both"
#: A layout is read for so many layers at most, however many the file claims.
_MOST_LAYERS = 2000


def derive_layers(view: ConfigView) -> dict[str, Plain]:
    """The kinds of the layers.

    ``has_linear_attention``, ``linear_attention`` (the mechanism, None without), and
    ``has_sliding_window``; ``window_tokens`` is None without one. ``full_layers``,
    ``sliding_layers`` and ``linear_layers`` are counts; a layer with a state beside its attention
    counts in full_layers and in linear_layers. Each is Unknown where the file leaves it open.
    """
    kinds = read_kinds(view)
    has_linear = _has_linear(view, kinds)
    has_window = _has_window(view, kinds)
    return {
        "has_linear_attention": has_linear,
        "linear_attention": _name_linear(view) if has_linear is True else _absent(has_linear),
        "has_sliding_window": has_window,
        "window_tokens": view.count("window_tokens") if has_window is True else _absent(has_window),
        **_count_kinds(view, kinds, has_window=has_window, has_linear=has_linear),
    }


def read_kinds(view: ConfigView) -> Sequence[str] | Unknown | None:
    """The kind of each layer in order; None where the file lists none, Unknown where it errs."""
    for layout in load_model_types().layouts:
        value = view.find(layout.key)
        if value is None or (layout.needs and not view.has(layout.needs)):
            continue
        found = _read_layout(view, layout, value)
        if found is not None:
            return found
    return None


def _absent(answer: Plain) -> Unknown | None:
    return answer if isinstance(answer, Unknown) else None


def _read_layout(view: ConfigView, layout: Layout, value: Plain) -> Sequence[str] | Unknown | None:
    layers = view.count("layers")
    match layout.form:
        case "words" | "letters" | "numbers":
            return _read_items(view, layout, value, layers)
        case "lists":
            return _read_lists(view, layout, value, layers)
    if isinstance(layers, Unknown):
        return layers
    if layout.form == "indices":
        chosen = _whole_numbers(value)
        return [layout.nth if n in chosen else layout.other for n in range(layers)]
    return _read_interval(view, layout, value, layers)


def _read_items(
    view: ConfigView, layout: Layout, value: Plain, layers: int | Unknown
) -> Sequence[str] | Unknown | None:
    items = list(value) if isinstance(value, (list, tuple, str)) else []
    if not items:
        return None
    if layout.repeats and isinstance(layers, int):
        items = [items[n % len(items)] for n in range(layers)]
    meanings = layout.meanings or load_model_types().words
    kinds = [meanings.get(_word(item)) for item in items[:_MOST_LAYERS]]
    strange = [item for item, kind in zip(items, kinds, strict=False) if kind is None]
    if strange:
        reason = f"{view.file} gives {layout.key} with {shorten(strange[0])}, which is not known"
        return Unknown(reason=reason)
    return [kind for kind in kinds if kind is not None]


def _word(item: Plain) -> str:
    if isinstance(item, str):
        return item
    return str(item) if isinstance(item, int) and not isinstance(item, bool) else ""


def _read_lists(
    view: ConfigView, layout: Layout, value: Plain, layers: int | Unknown
) -> Sequence[str] | Unknown | None:
    if not isinstance(value, Mapping):
        return None
    sizes = {kind: len(_whole_numbers(value.get(key))) for key, kind in layout.meanings.items()}
    kinds = [kind for kind, size in sizes.items() for _ in range(size)]
    if isinstance(layers, int) and len(kinds) != layers:
        return Unknown(reason=f"{view.file} gives {layout.key} for {len(kinds)} of {layers} layers")
    return kinds or None


def _read_interval(
    view: ConfigView, layout: Layout, value: Plain, layers: int
) -> Sequence[str] | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        return None
    offset = view.find(layout.offset) if layout.offset else value - 1
    first = offset if isinstance(offset, int) and not isinstance(offset, bool) else value - 1
    return [layout.nth if n % value == first % value else layout.other for n in range(layers)]


def _whole_numbers(value: Plain) -> frozenset[int]:
    items = value if isinstance(value, (list, tuple)) else ()
    return frozenset(item for item in items if type(item) is int)


def _has_linear(view: ConfigView, kinds: Sequence[str] | Unknown | None) -> bool | Unknown:
    if any(row.alone and all(map(view.has, row.needs)) for row in load_model_types().mechanisms):
        return True
    if isinstance(kinds, Unknown):
        return kinds
    return kinds is not None and bool({_LINEAR, _BOTH} & set(kinds))


def _name_linear(view: ConfigView) -> str | Unknown:
    rows = load_model_types().mechanisms
    kind = next(
        (row.kind for row in rows if all(view.find(key) is not None for key in row.needs)), None
    )
    return kind or Unknown(
        reason=f"{view.file} does not say which linear attention its layers have"
    )


def _has_window(view: ConfigView, kinds: Sequence[str] | Unknown | None) -> bool | Unknown:
    """Without a list of layers a window counts unless the file switches it off."""
    if isinstance(kinds, Unknown):
        return kinds
    if kinds is not None and _SLIDING in kinds:
        return True
    if _is_all_full(kinds) or view.find("use_sliding_window") is False:
        return False
    return view.has("sliding_window") or view.has("attention_chunk_size")


def _is_all_full(kinds: Sequence[str] | None) -> bool:
    return kinds is not None and set(kinds) <= {_FULL, _LINEAR, _BOTH, "none"}


def _count_kinds(
    view: ConfigView,
    kinds: Sequence[str] | Unknown | None,
    *,
    has_window: bool | Unknown,
    has_linear: bool | Unknown,
) -> dict[str, Plain]:
    names = ("full_layers", "sliding_layers", "linear_layers")
    if isinstance(kinds, Unknown):
        return dict.fromkeys(names, kinds)
    if kinds is None:
        return dict(
            zip(
                names,
                _guess_counts(view, has_window=has_window, has_linear=has_linear),
                strict=True,
            )
        )
    counted = Counter(kinds)
    both = counted[_BOTH]
    counts = (counted[_FULL] + both, counted[_SLIDING], counted[_LINEAR] + both)
    return dict(zip(names, counts, strict=True))


def _guess_counts(
    view: ConfigView, *, has_window: bool | Unknown, has_linear: bool | Unknown
) -> tuple[Plain, Plain, Plain]:
    if has_window is False and has_linear is False:
        return view.count("layers"), 0, 0
    unsaid = Unknown(reason=f"{view.file} does not say which of its layers attend to everything")
    return unsaid, 0 if has_window is False else unsaid, 0 if has_linear is False else unsaid
