"""How much host memory the engine pins beside the GPUs, against what is free.

Where every rank makes a cache for itself it takes as many times what the flags say as there are
ranks; weights that are left in host memory come on top, for each rank. What the flags are called
and count in stands in ``data/host_cache.toml``; here is only the arithmetic. Called by
:mod:`stoker.knowledge.describe`. The pool on the GPUs, which the cache may be a multiple of, is
bounded by a least and a most where it is not known: only a least that is too much is too much,
and only a most that fits is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.knowledge.host_cache import HostCache, load_host_cache
from stoker.knowledge.parallel import load_parallel
from stoker.model.facts import Plain, Unknown

_GIB = 1 << 30
_NAMES = ("needed_bytes", "usable_bytes", "is_too_large", "line", "largest_ratio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What all of the arithmetic reads: the engine's rules, the settings, and the ranks.

    ``shards``: the ranks that one copy of the model is divided among.
    """

    rules: HostCache
    settings: Mapping[str, Plain]
    checkpoint: Mapping[str, Plain]
    hardware: Mapping[str, Plain]
    shards: int
    ranks: int

    def amount(self, name: str) -> float:
        """The number that a flag is set to, 0 where there is none that an engine could use."""
        value = self.settings.get(name) if name else None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return 0.0
        return float(max(0, value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """At least and at most so many bytes of host memory, and how they come about.

    ``pool_bytes``: at most so much on one GPU is what the cache is a multiple of; 0 where the size
    is given outright.
    """

    least: int = 0
    most: int = 0
    pool_bytes: int = 0
    line: str = ""


def derive_hicache(
    *,
    engine: tuple[str, str],
    hardware: Mapping[str, Plain],
    checkpoint: Mapping[str, Plain],
    settings: Mapping[str, Plain],
    memory_bytes: Plain | Unknown,
) -> dict[str, Plain]:
    """``ranks``, ``needed_bytes`` (at least), ``usable_bytes``, ``is_too_large``, ``line``.

    ``engine`` is its kind and its build. ``largest_ratio``: a ratio that surely fits, None where
    no ratio decides. All but ``is_too_large`` is None where nothing is pinned.
    """
    kind, build = engine
    rules = load_host_cache().find(kind, build)
    shards, ranks = _count_ranks(kind, settings)
    sizing = Sizing(
        rules=rules,
        settings=settings,
        checkpoint=checkpoint,
        hardware=hardware,
        shards=shards,
        ranks=ranks,
    )
    cache = _find_cache(sizing)
    if isinstance(cache, Unknown):
        return {"ranks": ranks, **dict.fromkeys(_NAMES, cache)}
    pinned = _add_weights(cache, sizing)
    if pinned.most == 0:
        return {"ranks": ranks, **dict.fromkeys(_NAMES), "is_too_large": False}
    known = {"ranks": ranks, "needed_bytes": pinned.least, "line": pinned.line}
    if isinstance(memory_bytes, Unknown):
        return {**dict.fromkeys(_NAMES, memory_bytes), **known}
    usable_bytes = max(0, memory_bytes - rules.reserve_bytes)
    return {
        **known,
        "usable_bytes": usable_bytes,
        "is_too_large": _judge(pinned, usable_bytes),
        "largest_ratio": _find_ratio(pinned, usable_bytes, ranks=ranks),
    }


def _count_ranks(kind: str, settings: Mapping[str, Plain]) -> tuple[int, int]:
    """The ranks of one copy, and the processes that have a part of the model on this machine."""
    flags = load_parallel().engine.get(kind)
    if flags is None:
        return 1, 1
    shards = _count(settings, flags.tensor) * _count(settings, flags.pipeline)
    if flags.attention_switch and settings.get(flags.attention_switch) is True:
        return shards, shards  # groups that share out the requests are made of the same ranks
    return shards, shards * _count(settings, flags.replicas)


def _count(settings: Mapping[str, Plain], name: str) -> int:
    value = settings.get(name)
    return value if isinstance(value, int) and value > 0 else 1


def _find_cache(sizing: Sizing) -> Pinned | Unknown:
    flags = sizing.rules.cache
    if flags.switch and sizing.settings.get(flags.switch) is not True:
        return Pinned()
    size = int(sizing.amount(flags.size) * flags.size_bytes)
    if size:
        return _multiply_size(size, sizing)
    ratio = sizing.amount(flags.ratio)
    if not flags.ratio or (not ratio and sizing.amount(flags.share)):
        return Pinned()  # none is asked for, or the engine fits it to what is free
    pool = _bound_pool(sizing)
    if isinstance(pool, Unknown):
        return pool
    ratio = ratio or flags.usual_ratio
    ranks = sizing.ranks if flags.by_rank else 1
    least, most = (int(ratio * each) * ranks for each in pool)
    each = _gib(int(ratio * pool[0]))
    line = f"{ranks} ranks with {ratio:g} times their cache on the GPU, at least {each} each"
    return Pinned(least=least, most=most, pool_bytes=pool[1], line=line)


def _multiply_size(size_bytes: int, sizing: Sizing) -> Pinned:
    """Models with a state of their own may have a second cache of the same size for it."""
    flags = sizing.rules.cache
    ranks = sizing.ranks if flags.by_rank else 1
    line = f"{_gib(size_bytes)} of offloaded cache"
    if flags.by_rank:
        line = f"{ranks} ranks with {_gib(size_bytes)} each"
    has_state = sizing.checkpoint.get("has_linear_attention") if flags.state_again else False
    if has_state is True:
        both = 2 * size_bytes * ranks
        return Pinned(least=both, most=both, line=f"{line}, once more for the model's state")
    factor = 1 if has_state is False or has_state is None else 2
    return Pinned(least=size_bytes * ranks, most=factor * size_bytes * ranks, line=line)


def _bound_pool(sizing: Sizing) -> tuple[int, int] | Unknown:
    """At least and at most so many bytes of one GPU hold the cache."""
    gpu_bytes = sizing.hardware.get("memory_bytes")
    weight_bytes = sizing.checkpoint.get("weight_bytes")
    for value in (gpu_bytes, weight_bytes):
        if isinstance(value, Unknown):
            return value
    if not gpu_bytes or not isinstance(weight_bytes, int):
        return Unknown(reason="how large the cache on the GPUs becomes is not known")
    bounds = load_host_cache().bounds
    taken = sizing.amount(sizing.rules.gpu_share)
    shares = (taken, taken) if taken else sizing.rules.gpu_shares
    part = weight_bytes / sizing.shards
    least = (gpu_bytes - bounds.overhead_bytes[1]) * shares[0] - part * bounds.weight_shares[1]
    most = (gpu_bytes - bounds.overhead_bytes[0]) * shares[1] - part * bounds.weight_shares[0]
    return max(0, int(least)), max(0, int(most))


def _add_weights(cache: Pinned, sizing: Sizing) -> Pinned:
    """What each rank leaves of the weights in host memory."""
    rules = sizing.rules
    kept = int(sizing.amount(rules.weights) * rules.weights_bytes) * sizing.ranks
    if not kept:
        return cache
    told = f"{_gib(kept)} of weights" + (f" beside {cache.line}" if cache.most else "")
    return Pinned(
        least=cache.least + kept,
        most=cache.most + kept,
        pool_bytes=cache.pool_bytes,
        line=told,
    )


def _judge(pinned: Pinned, usable_bytes: int) -> bool | Unknown:
    if pinned.least > usable_bytes:
        return True
    if pinned.most <= usable_bytes:
        return False
    return Unknown(reason="how large the cache on the GPUs becomes is only known roughly")


def _find_ratio(pinned: Pinned, usable_bytes: int, *, ranks: int) -> float | None:
    if not pinned.pool_bytes:
        return None
    tenths = 10 * usable_bytes // (pinned.pool_bytes * ranks)
    return tenths / 10


def _gib(count_bytes: int) -> str:
    return f"{count_bytes / _GIB:.1f} GiB"
