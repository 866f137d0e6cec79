"""The experts of a model, and which of its layers have them, from its config.json.

Called by :mod:`stoker.capacity.dimensions`. Files say it in many ways; which key means what is data
(``knowledge/data/capacity/shapes.toml``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.capacity.inputs import Experts
from stoker.knowledge.derived.config_view import ConfigView
from stoker.knowledge.model_dimensions import load_shape_keys
from stoker.model.facts import Plain

_DENSE = "dense"
_MOST_WIDTH = 1 << 20

Parts = Mapping[str, Plain]


def read_experts(view: ConfigView, parts: Parts) -> Experts | None:
    """None for a model without; a part that is not told is 0."""
    if parts.get("is_moe") is not True:
        return None
    keys = load_shape_keys()
    width = _number(parts, "expert_width") or _number(parts, "intermediate_width")
    shared = _number(parts, "shared_expert_width")
    if not shared and parts.get("class") in keys.experts.always_shared:
        shared = width
    beside = _number(parts, "intermediate_width") if any(map(view.has, keys.beside.keys)) else 0
    latent = find_count(view, keys.experts.latent_width, most=_MOST_WIDTH)
    # A narrower vector that the file does not tell of leaves the weights open.
    is_open = not latent and parts.get("class") in keys.experts.needs_latent
    return Experts(
        count=_number(parts, "experts"),
        width=0 if is_open else width,
        used=_number(parts, "experts_per_token"),
        shared_width=shared + beside,
        dense_layers=_count_dense(view, _number(parts, "layers")) or _number(parts, "dense_layers"),
        latent_width=latent,
    )


def find_count(view: ConfigView, names: Sequence[str], *, most: int) -> int:
    """The first of some keys that is a sane count, else 0."""
    for name in names:
        value = view.find(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most:
            return value
    return 0


def _count_dense(view: ConfigView, layers: int) -> int:
    """Layers without experts, where the file tells of them by more than the first of those with."""
    keys = load_shape_keys().experts
    for name in (*keys.flags, *keys.words):
        listed = view.find(name)
        if isinstance(listed, (list, tuple)) and len(listed) == layers:
            return sum(item in (0, _DENSE) for item in listed)
    listed = next((found for found in map(view.find, keys.listed) if found), None)
    if listed is not None:
        return layers - len(_whole_numbers(listed))
    first = find_count(view, keys.first, most=layers)
    without = next((found for found in map(view.find, keys.unlisted) if found), ())
    step = find_count(view, keys.step, most=max(1, layers))
    skipped = layers - layers // step if step > 1 else 0
    return max(first, skipped + len(_whole_numbers(without)))


def _whole_numbers(value: Plain) -> frozenset[int]:
    """Numbers of layers, in a list or as text with commas."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)):
        return frozenset()
    texts = (str(item).strip() for item in items if not isinstance(item, bool))
    return frozenset(int(text) for text in texts if text.isdecimal() and len(text) < 6)


def _number(parts: Parts, name: str) -> int:
    value = parts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
