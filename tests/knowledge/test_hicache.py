"""The arithmetic of the caches in host memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.knowledge.derived.hicache import derive_hicache
from stoker.model.facts import Unknown
from tests.knowledge.cases import GIB

SGLANG: dict[str, Any] = {
    "enable-hierarchical-cache": True,
    "hicache-ratio": 2.0,
    "hicache-size": 0,
    "tp-size": 8,
    "pp-size": 1,
    "dp-size": 1,
    "enable-dp-attention": False,
    "mem-fraction-static": None,
    "cpu-offload-gb": 0,
}
HARDWARE = {"memory_bytes": 96 * GIB}
CHECKPOINT = {"weight_bytes": 547_000_000_000, "has_linear_attention": False}
RELEASES = {"sglang": "0.5.23", "vllm": "0.33.0", "llamacpp": "b10068"}
NOT_KNOWN = Unknown(reason="not known")


def derive(
    memory_gib: float | None = 396,
    engine: str = "sglang",
    hardware: Any = HARDWARE,
    checkpoint: Any = CHECKPOINT,
    release: str = "",
    **settings: Any,
) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    return derive_hicache(
        engine=(engine, release or RELEASES[engine]),
        hardware=hardware,
        checkpoint=checkpoint,
        settings={**(SGLANG if engine == "sglang" else {}), **named},
        memory_bytes=NOT_KNOWN if memory_gib is None else int(memory_gib * GIB),
    )


def test_a_size_counts_for_each_rank_in_decimal_gigabytes() -> None:
    found = derive(hicache_size=45)
    assert found["ranks"] == 8
    assert found["needed_bytes"] == 8 * 45_000_000_000
    assert found["usable_bytes"] == 386 * GIB
    assert found["is_too_large"] is False
    assert found["largest_ratio"] is None
    assert derive(hicache_size=60)["is_too_large"] is True
    assert derive(hicache_size=60)["line"] == "8 ranks with 55.9 GiB each"


def test_a_ratio_is_bounded_by_what_the_pool_on_the_gpu_can_be() -> None:
    """Kimi-K2.5 on eight GPUs of 96 GB: 11.19 GB of cache a rank, 44.77 GB at ratio 4."""
    found = derive(hicache_ratio=4.0, mem_fraction_static=0.88)
    assert found["needed_bytes"] <= 8 * 44_770_000_000
    assert isinstance(found["is_too_large"], Unknown)
    assert (
        derive(hicache_ratio=4.0, mem_fraction_static=0.88, memory_gib=1000)["is_too_large"]
        is False
    )
    assert (
        derive(hicache_ratio=4.0, mem_fraction_static=0.88, memory_gib=100)["is_too_large"] is True
    )
    fits = found["largest_ratio"]
    assert 0 < fits < 4
    assert derive(hicache_ratio=fits, mem_fraction_static=0.88)["is_too_large"] is False


def test_models_with_a_state_have_a_second_cache_of_the_same_size() -> None:
    hybrid = {**CHECKPOINT, "has_linear_attention": True}
    old = derive(hicache_size=25, checkpoint=hybrid, release="0.5.12")
    assert old["needed_bytes"] == 16 * 25_000_000_000
    # Later releases divide one size among all kinds of pools.
    new = derive(hicache_size=25, checkpoint=hybrid, release="0.5.17")
    assert new["needed_bytes"] == 8 * 25_000_000_000
    unsure = {**CHECKPOINT, "has_linear_attention": NOT_KNOWN}
    found = derive(hicache_size=30, checkpoint=unsure, release="0.5.12")
    assert isinstance(found["is_too_large"], Unknown)
    found = derive(hicache_size=20, checkpoint=unsure, release="0.5.12")
    assert found["is_too_large"] is False


def test_groups_that_share_out_requests_are_the_same_ranks_and_copies_are_not() -> None:
    assert derive(dp_size=8, enable_dp_attention=True)["ranks"] == 8
    assert derive(tp_size=4, dp_size=2)["ranks"] == 8
    assert derive(engine="vllm", tensor_parallel_size=4, data_parallel_size=2)["ranks"] == 8


def test_nothing_is_pinned_where_nothing_is_asked_for_or_the_engine_fits_it() -> None:
    for found in (
        derive(enable_hierarchical_cache=False),
        derive(hicache_ratio=None, hicache_host_memory_fraction=0.8),
        derive(engine="vllm"),
        derive(engine="llamacpp"),
    ):
        assert found["is_too_large"] is False
        assert found["needed_bytes"] is None


def test_vllm_has_one_buffer_for_all_ranks_and_weights_for_each() -> None:
    found = derive(
        engine="vllm", tensor_parallel_size=4, kv_offloading_size=100.0, cpu_offload_gb=10.0
    )
    assert found["needed_bytes"] == 140 * GIB
    assert found["usable_bytes"] == 396 * GIB
    assert found["line"] == "40.0 GiB of weights beside 100.0 GiB of offloaded cache"


def test_what_is_not_known_leaves_it_open_and_says_why() -> None:
    assert derive(memory_gib=None, hicache_size=45)["is_too_large"] == NOT_KNOWN
    assert derive(memory_gib=None, hicache_size=45)["needed_bytes"] == 8 * 45_000_000_000
    unread = derive(checkpoint={"weight_bytes": NOT_KNOWN})
    assert unread["is_too_large"] == NOT_KNOWN
    assert isinstance(derive(hardware={"memory_bytes": None})["is_too_large"], Unknown)


@pytest.mark.parametrize("value", ["many", True, -1, None])
def test_values_that_no_engine_could_use_count_as_none(value: Any) -> None:
    assert derive(tp_size=value, hicache_size=45)["ranks"] == 1
    assert derive(enable_hierarchical_cache=value)["ranks"] == 8


@given(
    memory_gib=st.integers(0, 2000),
    weights=st.integers(0, 10**12),
    fraction=st.floats(0.5, 0.95),
    ratio=st.floats(0.1, 8.0),
)
def test_learning_the_fraction_never_turns_an_answer(
    memory_gib: int, weights: int, fraction: float, ratio: float
) -> None:
    """Within what is taken for possible, knowing it exactly only settles what was open."""
    told: dict[str, Any] = {"checkpoint": {"weight_bytes": weights}, "hicache_ratio": ratio}
    before = derive(memory_gib, **told)["is_too_large"]
    after = derive(memory_gib, mem_fraction_static=max(0.75, fraction), **told)["is_too_large"]
    if not isinstance(before, Unknown):
        assert after == before
