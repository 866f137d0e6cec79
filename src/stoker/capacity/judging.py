"""What a prediction says of a deployment's wish, in words that rules ask for.

Called where a plan is judged. ``no``: the whole interval says so; ``unlikely``: the likely figure;
``doubtful``: only the lower end. An interval may still be wrong, so what an engine surely refuses
is told apart: there the weights alone, at their least, leave too little.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.capacity import sglang, vllm
from stoker.capacity.checks import find_obstacles
from stoker.capacity.free_memory import visible_bytes
from stoker.capacity.host_cache_limits import list_limits
from stoker.capacity.inputs import Inputs
from stoker.capacity.intervals import scale
from stoker.capacity.pool import Budget, Refusal
from stoker.capacity.weights import find_target_weights
from stoker.model.capacity import Capacity, Span
from stoker.model.facts import Plain

YES, DOUBTFUL, UNLIKELY, NO = "yes", "doubtful", "unlikely", "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNeed:
    """What a cache in host memory needs against what can be taken, in bytes.

    ``answer`` is one of the words above; ``usable_bytes`` None: not known.
    """

    answer: str
    needed: Span
    usable_bytes: int | None
    line: str


def judge_capacity(inputs: Inputs, capacity: Capacity, *, is_wished: bool) -> dict[str, Plain]:
    """The names of :mod:`stoker.knowledge.derived.capacity`, None where nothing is predicted.

    ``is_wished``: somebody set the context; else it is the model's own.
    """
    room = _judge_room(inputs, capacity)
    told: dict[str, Plain] = {"is_predicted": capacity.kv_tokens is not None, "room": room}
    told["room_line"] = capacity.unknown[0] if room in (NO, UNLIKELY) and capacity.unknown else None
    wanted = capacity.context_tokens
    if capacity.kv_tokens is None or inputs.engine == "llamacpp":
        return told
    tokens = scale(capacity.kv_tokens, 1 / max(1, inputs.ranks.attention_groups))
    surely = _most_bytes(inputs)
    most = None if surely is None or not capacity.token_bytes else surely / capacity.token_bytes
    told |= {
        "is_wished": is_wished,
        "wished_tokens": wanted,
        "least_tokens": int(tokens.low),
        "likely_tokens": int(tokens.likely),
        "most_tokens": int(tokens.high),
        "held": None if not wanted else compare(tokens, wanted),
        "is_sure": bool(wanted and most is not None and max(most, tokens.high) < wanted),
    }
    return told | _judge_lock(inputs, capacity)


def compare(have: Span, wanted: float) -> str:
    """Whether a figure reaches what is wanted."""
    if have.high < wanted:
        return NO
    if have.likely < wanted:
        return UNLIKELY
    return DOUBTFUL if have.low < wanted else YES


def _judge_room(inputs: Inputs, capacity: Capacity) -> str | None:
    """Whether the weights leave room for a cache at all; None where nobody can tell."""
    if inputs.engine not in ("sglang", "vllm") or find_obstacles(inputs):
        return None
    if capacity.kv_tokens is not None:
        return YES
    budget = _size_budget(inputs)
    if budget is None or budget.pools.likely > 0:
        return None
    most = _most_bytes(inputs)
    return NO if most is not None and max(most, budget.pools.high) <= 0 else UNLIKELY


def _size_budget(inputs: Inputs) -> Budget | None:
    size_budget = sglang.size_budget if inputs.engine == "sglang" else vllm.size_budget
    found = size_budget(inputs, find_target_weights(inputs))
    return None if isinstance(found, Refusal) else found


def _most_bytes(inputs: Inputs) -> float | None:
    """More than this no pool of one GPU can have: its share, less the weights at their least.

    None where weights were only estimated: an estimate forbids nothing.
    """
    has_headers = inputs.weight_bytes is not None or inputs.readings.weight_bytes is not None
    budget = _size_budget(inputs)
    if budget is None or not has_headers:
        return None
    if budget.share is None or budget.weights is None or inputs.engine == "sglang":
        return budget.pools.high
    sizes = [visible_bytes(gpu) for gpu in inputs.gpus]
    known = [size.high for size in sizes if size is not None]
    return budget.share * min(known) - budget.weights.low if known else None


def judge_host_cache(
    inputs: Inputs, capacity: Capacity, *, all_bytes: int | None
) -> HostNeed | None:
    """What the cache in host memory needs; None without one.

    ``all_bytes``: what may be taken where the deployment runs and gives its own back, None where
    it does not run.
    """
    cache = capacity.host_cache
    if cache is None:
        return None
    limits = list_limits(inputs, cache)
    reserve = max(limit.reserve_bytes for limit in limits)
    allowed = [limit.allowed_bytes for limit in limits if limit.name != "locked"]
    known = [each for each in allowed if each is not None]
    usable = min(known) if known else None
    if all_bytes is not None:
        usable = max(0, all_bytes - reserve)
    weights = inputs.settings.parts.host.weight_bytes * max(1, cache.ranks)
    ends = (each + weights for each in _ends(cache.total_bytes))
    low, likely, high = ends
    needed = Span(low=low, likely=likely, high=high)
    answer = YES if usable is None else _turn(compare(needed, usable + 1))
    rank = cache.rank_bytes.likely / (1 << 30)
    return HostNeed(
        answer=answer,
        needed=needed,
        usable_bytes=usable,
        line=f"{cache.ranks} ranks with {rank:.1f} GiB each",
    )


def _ends(span: Span) -> tuple[float, float, float]:
    return span.low, span.likely, span.high


def _turn(answer: str) -> str:
    """Whether what is needed reaches beyond, the other way round: whether it fits."""
    return {YES: NO, DOUBTFUL: UNLIKELY, UNLIKELY: DOUBTFUL, NO: YES}[answer]


def _judge_lock(inputs: Inputs, capacity: Capacity) -> dict[str, Plain]:
    cache = capacity.host_cache
    limits = list_limits(inputs, cache) if cache is not None else ()
    locked = next((limit for limit in limits if limit.name == "locked"), None)
    if locked is None:
        return {}
    return {
        "is_beyond_lock": locked.is_kept is False,
        "lock_needed_bytes": int(locked.needed_bytes),
        "lock_allowed_bytes": locked.allowed_bytes,
    }
