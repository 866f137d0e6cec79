"""Whether main memory suffices for what is served: the weights, and the context that is set.

The context's cache is computed from the model's shape, as the engine makes room for it. Where the
shape leaves it open, a least and a most bound it: only a least that is too much is a shortage, and
only a most that fits is none. Called by :mod:`stoker.knowledge.derive`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoker.knowledge.derived.case import Case, find_count, find_setting
from stoker.knowledge.derived.weights import (
    fetched_bytes,
    find_shape,
    preparation_of,
    weights_paths,
)
from stoker.model.facts import Plain, Unknown

_GIB = 1 << 30
#: ``packed_bytes`` of the engine's table are those of so many numbers.
_PACKED_VALUES = 32
#: The rows of the engine's table that say how a cache keeps its keys and its values.
_CACHE_ROWS = {
    "model": ("cache_keys", "cache_values"),
    "draft": ("draft_cache_keys", "draft_cache_values"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """At least and at most so many bytes; ``most`` None and a reason where nobody can tell."""

    least: int = 0
    most: int | None = None
    reason: str = ""


def derive_memory(case: Case) -> dict[str, Plain]:
    """What is needed and what there is, each in bytes, and ``shortage``, None without one.

    ``context_bytes`` is 0 where no context is set, since the engine then makes it as large as
    fits. ``line`` says all of it to a person; it is None where main memory is not used.
    A service that runs holds memory that comes back: it is compared with all that there is.
    """
    weights, context = _estimate(case)
    needed = _sum((weights, context))
    known = {
        "weights_bytes": _exact(weights),
        "context_bytes": _exact(context),
        "needed_bytes": _exact(needed),
    }
    on_gpus = _computes_on_gpus(case)
    if isinstance(on_gpus, Unknown):
        return {**known, "usable_bytes": on_gpus, "line": on_gpus, "shortage": on_gpus}
    if on_gpus:
        return {**known, "usable_bytes": None, "line": None, "shortage": None}
    usable_bytes = _usable_bytes(case)
    if isinstance(usable_bytes, Unknown):
        return {**known, **dict.fromkeys(("usable_bytes", "line", "shortage"), usable_bytes)}
    return {
        **known,
        "usable_bytes": usable_bytes,
        "line": _line(case, weights, context, usable_bytes=usable_bytes),
        "shortage": _shortage(needed, usable_bytes),
    }


def estimate_needed(case: Case) -> Estimate:
    """What weights and context take, wherever they will lie."""
    return _sum(_estimate(case))


def _estimate(case: Case) -> tuple[Estimate, Estimate]:
    weights = _sum(_weights(case, probe, path) for probe, path in weights_paths(case).items())
    return weights, _sum(_context(case, probe) for probe in weights_paths(case))


def _computes_on_gpus(case: Case) -> bool | Unknown:
    if not case.wants_gpus or not case.can_use_gpus:
        return False
    gpus = case.facts.read("gpus.gpus")
    return gpus if isinstance(gpus, Unknown) else bool(gpus)


def _usable_bytes(case: Case) -> int | Unknown:
    name = "limit_bytes" if case.own_pids else "usable_bytes"
    found = case.facts.read(f"memory.{name}")
    return found if isinstance(found, Unknown) else int(found)


def _shortage(needed: Estimate, usable_bytes: int) -> Plain | Unknown | None:
    """What is known to be needed may be too much already, whatever the rest is."""
    if needed.least > usable_bytes:
        return {"needed_bytes": needed.least, "usable_bytes": usable_bytes}
    if needed.most is not None and needed.most <= usable_bytes:
        return None
    return Unknown(reason=needed.reason)


def _sum(parts: Iterable[Estimate]) -> Estimate:
    all_parts = tuple(parts)
    mosts = [part.most for part in all_parts if part.most is not None]
    is_bounded = len(mosts) == len(all_parts)
    return Estimate(
        least=sum(part.least for part in all_parts),
        most=sum(mosts) if is_bounded else None,
        reason="; ".join(dict.fromkeys(part.reason for part in all_parts if part.reason)),
    )


def _exact(estimate: Estimate) -> int | Unknown:
    if estimate.least == estimate.most:
        return estimate.least
    return Unknown(reason=estimate.reason)


def _weights(case: Case, probe: str, path: str) -> Estimate:
    preparation = preparation_of(case, path)
    seen = case.facts.read(probe)
    if preparation is not None:
        size_bytes: Plain = fetched_bytes(case, probe, preparation)
    elif isinstance(seen, Unknown):
        return Estimate(reason=seen.reason)
    else:
        size_bytes = seen.get("size_bytes")
    if not isinstance(size_bytes, int):
        return Estimate(reason=f"the size of {path} is not known")
    return Estimate(least=size_bytes, most=size_bytes)


def _context(case: Case, probe: str) -> Estimate:
    """The cache for the context that is set."""
    tokens = find_count(case, "context_tokens")
    if tokens == 0:
        return Estimate(most=0)
    shape = find_shape(case, probe)
    if isinstance(shape, Unknown):
        return Estimate(reason=shape.reason)
    token_bytes = _token_bytes(case, probe, shape)
    if token_bytes is None:
        return Estimate(reason="its file does not say how much memory the context takes")
    window = shape.get("sliding_window")
    if not window:
        return Estimate(least=tokens * token_bytes, most=tokens * token_bytes)
    # Some layers keep the newest tokens only, and which ones is not among the facts.
    kept = min(tokens, window) if isinstance(window, int) else 0
    return Estimate(
        least=kept * token_bytes,
        most=tokens * token_bytes,
        reason="how many of its layers keep the whole context is not known",
    )


def _token_bytes(case: Case, probe: str, shape: Mapping[str, Plain]) -> int | None:
    """What one token takes: a key and a value in each head of each layer."""
    keys, values = (_packed_bytes(case, row_id) for row_id in _CACHE_ROWS[probe])
    key_length, value_length = _length(shape, "key_length"), _length(shape, "value_length")
    heads = _count_heads(shape)
    if keys is None or values is None or heads is None:
        return None
    if key_length is None or value_length is None:
        return None
    return heads * (key_length * keys + value_length * values) // _PACKED_VALUES


def _count_heads(shape: Mapping[str, Plain]) -> int | None:
    """The heads of all layers that have keys and values of their own."""
    layers, heads = shape.get("block_count"), shape.get("head_count_kv")
    heads = shape.get("head_count") if heads is None else heads
    if isinstance(heads, (list, tuple)):
        return sum(heads) if len(heads) == layers else None
    return heads * layers if isinstance(heads, int) and isinstance(layers, int) else None


def _length(shape: Mapping[str, Plain], name: str) -> int | None:
    """How many numbers a key or a value has; the heads share the width evenly if unsaid."""
    length, width, heads = (shape.get(key) for key in (name, "embedding_length", "head_count"))
    if isinstance(length, int):
        return length
    if isinstance(width, int) and isinstance(heads, int):
        return width // heads if heads else 0
    return None


def _packed_bytes(case: Case, row_id: str) -> int | None:
    """The bytes of so many numbers as the cache keeps them."""
    row = case.table.settings.get(row_id)
    if row is None:
        return None
    option = case.table.catalogue.find(row.flag)
    kept_as = find_setting(case, row_id) or (option.default if option else None)
    return row.packed_bytes.get(kept_as or "")


def _line(case: Case, weights: Estimate, context: Estimate, *, usable_bytes: int) -> str:
    room = f"{_gib(usable_bytes)} {'in all' if case.own_pids else 'free'}"
    told = f"{_amount(weights)} weights"
    if context.most == 0:
        return f"{told} of {room}, and the engine chooses the context"
    return f"{told} + {_amount(context)} context of {room}"


def _amount(estimate: Estimate) -> str:
    if estimate.least == estimate.most:
        return _gib(estimate.least)
    if estimate.most is not None:
        return f"{_gib(estimate.least)} to {_gib(estimate.most)}"
    return f"at least {_gib(estimate.least)}" if estimate.least else "unknown"


def _gib(count_bytes: int) -> str:
    return f"{count_bytes / _GIB:.1f} GiB"
