"""How much host memory the engine pins beside the GPUs, against what is free.

SGLang's hierarchical cache is made by every rank for itself, so it takes as many times what its
flags say as there are ranks; vLLM's is one for all of them. Weights that are left in host memory
come on top, for each rank. Called by :mod:`stoker.knowledge.describe`. The pool on the GPUs, which
the cache is a multiple of, is bounded by a least and a most where it is not known: only a least
that is too much is too much, and only a most that fits is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.model.facts import Plain, Unknown

_GIB = 1 << 30
#: SGLang counts --hicache-size in these (memory_pool_host.py; pool_host/base.py in later releases).
_GB = 1_000_000_000
#: What SGLang leaves free for others, in the same files.
_RESERVE_BYTES = 10 * _GIB
#: The driver's and torch's own part of a GPU before the weights, least and most: 1.3 and 1.6 GiB
#: were seen (H200 with SGLang 0.5.17, RTX PRO 6000 with 0.5.9).
_OVERHEAD_BYTES = (1 * _GIB, 2 * _GIB)
#: The part of a GPU that SGLang takes unless it is told: public start-up logs have 0.826 to 0.908.
_FRACTIONS = (0.75, 0.95)
#: Weights on the GPUs against their files: some layers are not divided among the ranks.
_WEIGHT_SHARES = (1.0, 1.2)
_DEFAULT_RATIO = 2.0
_NAMES = ("needed_bytes", "usable_bytes", "is_too_large", "line", "largest_ratio")


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
    engine: str,
    hardware: Mapping[str, Plain],
    checkpoint: Mapping[str, Plain],
    settings: Mapping[str, Plain],
    memory_bytes: Plain | Unknown,
) -> dict[str, Plain]:
    """``ranks``, ``needed_bytes`` (at least), ``usable_bytes``, ``is_too_large``, ``line``.

    ``largest_ratio``: a --hicache-ratio that surely fits, None where no ratio decides. All but
    ``is_too_large`` is None where nothing is pinned.
    """
    ranks = _count_ranks(engine, settings)
    cache = _find_cache(engine, hardware, checkpoint, settings, ranks=ranks)
    if isinstance(cache, Unknown):
        return {"ranks": ranks, **dict.fromkeys(_NAMES, cache)}
    pinned = _add_weights(cache, settings, ranks=ranks)
    if pinned.most == 0:
        return {"ranks": ranks, **dict.fromkeys(_NAMES), "is_too_large": False}
    known = {"ranks": ranks, "needed_bytes": pinned.least, "line": pinned.line}
    if isinstance(memory_bytes, Unknown):
        return {**dict.fromkeys(_NAMES, memory_bytes), **known}
    reserve_bytes = _RESERVE_BYTES if engine == "sglang" else 0
    usable_bytes = max(0, memory_bytes - reserve_bytes)
    return {
        **known,
        "usable_bytes": usable_bytes,
        "is_too_large": _judge(pinned, usable_bytes),
        "largest_ratio": _find_ratio(pinned, usable_bytes, ranks=ranks),
    }


def _count_ranks(engine: str, settings: Mapping[str, Plain]) -> int:
    """The processes that have a part of the model on this machine."""
    shards = _count(settings, "tensor-parallel-size") * _count(settings, "pipeline-parallel-size")
    if engine == "sglang" and settings.get("enable-dp-attention") is True:
        return shards  # the groups that share out the requests are made of the same ranks
    return shards * _count(settings, "data-parallel-size")


def _count(settings: Mapping[str, Plain], name: str) -> int:
    value = settings.get(name)
    return value if isinstance(value, int) and value > 0 else 1


def _amount(settings: Mapping[str, Plain], name: str) -> float:
    value = settings.get(name)
    return float(value) if isinstance(value, (int, float)) and value > 0 else 0.0


def _find_cache(
    engine: str,
    hardware: Mapping[str, Plain],
    checkpoint: Mapping[str, Plain],
    settings: Mapping[str, Plain],
    *,
    ranks: int,
) -> Pinned | Unknown:
    if engine == "vllm":
        size = int(_amount(settings, "kv-offloading-size") * _GIB)
        return Pinned(least=size, most=size, line=f"{_gib(size)} of offloaded cache")
    if settings.get("enable-hierarchical-cache") is not True:
        return Pinned()
    size_gb = _amount(settings, "hicache-size")
    if size_gb:
        return _multiply_size(int(size_gb * _GB), checkpoint, ranks=ranks)
    ratio = _amount(settings, "hicache-ratio")
    if not ratio and _amount(settings, "hicache-host-memory-fraction"):
        return Pinned()  # then the engine fits it to what is free
    pool = _bound_pool(hardware, checkpoint, settings)
    if isinstance(pool, Unknown):
        return pool
    ratio = ratio or _DEFAULT_RATIO
    least, most = (int(ratio * each) * ranks for each in pool)
    each = _gib(int(ratio * pool[0]))
    line = f"{ranks} ranks with {ratio:g} times their cache on the GPU, at least {each} each"
    return Pinned(least=least, most=most, pool_bytes=pool[1], line=line)


def _multiply_size(
    size_bytes: int, checkpoint: Mapping[str, Plain], *, ranks: int
) -> Pinned | Unknown:
    """Models with a state of their own have a second cache of the same size for it."""
    has_state = checkpoint.get("has_linear_attention")
    line = f"{ranks} ranks with {_gib(size_bytes)} each"
    if has_state is True:
        both = 2 * size_bytes * ranks
        return Pinned(least=both, most=both, line=f"{line}, once more for the model's state")
    factor = 1 if has_state is False or has_state is None else 2
    return Pinned(least=size_bytes * ranks, most=factor * size_bytes * ranks, line=line)


def _bound_pool(
    hardware: Mapping[str, Plain], checkpoint: Mapping[str, Plain], settings: Mapping[str, Plain]
) -> tuple[int, int] | Unknown:
    """At least and at most so many bytes of one GPU hold the cache."""
    gpu_bytes, weight_bytes = hardware.get("memory_bytes"), checkpoint.get("weight_bytes")
    for value in (gpu_bytes, weight_bytes):
        if isinstance(value, Unknown):
            return value
    if not gpu_bytes or not isinstance(weight_bytes, int):
        return Unknown(reason="how large the cache on the GPUs becomes is not known")
    fraction = _amount(settings, "mem-fraction-static")
    fractions = (fraction, fraction) if fraction else _FRACTIONS
    shards = _count(settings, "tensor-parallel-size") * _count(settings, "pipeline-parallel-size")
    share = weight_bytes / shards
    least = (gpu_bytes - _OVERHEAD_BYTES[1]) * fractions[0] - share * _WEIGHT_SHARES[1]
    most = (gpu_bytes - _OVERHEAD_BYTES[0]) * fractions[1] - share * _WEIGHT_SHARES[0]
    return max(0, int(least)), max(0, int(most))


def _add_weights(cache: Pinned, settings: Mapping[str, Plain], *, ranks: int) -> Pinned:
    """Both engines leave so many GiB of weights a rank in host memory."""
    kept = int(_amount(settings, "cpu-offload-gb") * _GIB) * ranks
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
