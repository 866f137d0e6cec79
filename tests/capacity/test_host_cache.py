"""The cache in host memory: of one rank and of all, against what the machine has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.capacity.dimensions import read_shape
from stoker.capacity.host_cache_limits import (
    find_problems,
    list_limits,
    list_node_limits,
    rank_nodes,
    tell_broken,
    tell_soft,
)
from stoker.capacity.inputs import (
    Host,
    HostSettings,
    Inputs,
    NodeMemory,
    Ranks,
    Readings,
    Settings,
    SettingsParts,
    Speculation,
)
from stoker.capacity.predict import predict
from stoker.knowledge.capacity_host import find_host_row, load_host_rules
from stoker.model.capacity import HostCache
from tests.capacity.configs import GIB, H200, HYBRID, KIMI, LLAMA_8B, PRO_6000, SPARSE, gemma

GB = 10**9
LLAMA = Inputs(
    name="x",
    engine="sglang",
    release="0.5.17",
    shape=read_shape(LLAMA_8B),
    gpus=(H200,),
    settings=Settings(memory_share=0.25),
)
KIMI_ON_EIGHT = Inputs(
    name="kimi",
    engine="sglang",
    release="0.5.23",
    shape=read_shape(KIMI),
    gpus=(PRO_6000,) * 8,
    ranks=Ranks(tensor=8),
    settings=Settings(memory_share=0.88, context_tokens=262144),
    readings=Readings(free_before_bytes=94 * GIB, weight_bytes=int(72.3 * GIB)),
    host=Host(total_bytes=503 * GIB, available_bytes=396 * GIB),
)


def with_host(inputs: Inputs, **host: object) -> Inputs:
    made = HostSettings(is_on=True, **host)  # type: ignore[arg-type]
    parts = replace(inputs.settings.parts, host=made)
    return replace(inputs, settings=replace(inputs.settings, parts=parts))


def cache_of(inputs: Inputs) -> HostCache:
    cache = predict(inputs).host_cache
    assert cache is not None
    return cache


def pool_of(inputs: Inputs) -> float:
    tokens = predict(inputs).kv_tokens
    assert tokens is not None
    return tokens.likely


def test_one_page_more_than_fits() -> None:
    """Logged with 0.5.17: 161,196 tokens on the GPU and 322,393 in the host at a ratio of 2."""
    inputs = with_host(LLAMA, ratio=2.0)
    assert cache_of(inputs).tokens.likely == 2 * pool_of(inputs) + 1
    pages = replace(inputs, settings=replace(inputs.settings, page_tokens=64))
    assert cache_of(pages).tokens.likely == 2 * pool_of(pages) + 64


def test_a_size_for_each_of_two_ranks() -> None:
    """Logged with 0.5.17 on two H200: 152,588 tokens in 10 GB of each rank."""
    two = replace(LLAMA, gpus=(H200,) * 2, ranks=Ranks(tensor=2))
    cache = cache_of(with_host(two, size_bytes=10 * GB))
    assert cache.tokens.likely == 152_588
    assert cache.rank_bytes.likely == pytest.approx(10 * GB, rel=1e-5)
    assert cache.total_bytes.likely == 2 * cache.rank_bytes.likely


@pytest.mark.parametrize(("ratio", "gigabytes"), [(2.0, 179), (4.0, 358)])
def test_a_latent_cache_is_kept_by_every_rank(ratio: float, gigabytes: float) -> None:
    cache = cache_of(with_host(KIMI_ON_EIGHT, ratio=ratio))
    assert cache.ranks == 8
    assert cache.total_bytes.likely / GB == pytest.approx(gigabytes, abs=0.5)
    assert cache.remaining_bytes is not None
    left = 396 - gigabytes * GB / GIB
    assert cache.remaining_bytes.likely / GIB == pytest.approx(left, abs=0.5)


def test_states_have_a_place_too_and_those_of_drafts_have_none() -> None:
    hybrid = replace(LLAMA, shape=read_shape(HYBRID), settings=Settings(memory_share=0.8))
    plain = cache_of(with_host(hybrid, ratio=2.0))
    token_bytes = predict(hybrid).token_bytes
    assert token_bytes is not None
    assert plain.rank_bytes.likely > 1.5 * plain.tokens.likely * token_bytes
    drafting = SettingsParts(
        speculation=Speculation(kind="eagle", tokens=8, layers=1, weight_bytes=0)
    )
    drafted = replace(hybrid, settings=replace(hybrid.settings, parts=drafting))
    more = cache_of(with_host(drafted, ratio=2.0))
    assert more.rank_bytes.likely < plain.rank_bytes.likely


def test_one_size_is_divided_among_kinds_since_0_5_17() -> None:
    hybrid = replace(LLAMA, shape=read_shape(HYBRID), settings=Settings(memory_share=0.8))
    new = cache_of(with_host(hybrid, size_bytes=40 * GB))
    old = cache_of(with_host(replace(hybrid, release="0.5.12"), size_bytes=40 * GB))
    assert new.rank_bytes.likely == pytest.approx(40 * GB, rel=1e-3)
    assert old.rank_bytes.likely == pytest.approx(80 * GB, rel=1e-3)
    sliding = replace(LLAMA, shape=gemma(full=5, sliding=25), settings=Settings(memory_share=0.8))
    new = cache_of(with_host(sliding, size_bytes=40 * GB))
    old = cache_of(with_host(replace(sliding, release="0.5.12"), size_bytes=40 * GB))
    assert new.rank_bytes.high == pytest.approx(40 * GB, rel=1e-3)
    assert old.rank_bytes.high == pytest.approx(80 * GB, rel=1e-3)


def test_keys_of_a_sparse_attention_are_beyond_the_size() -> None:
    sparse = replace(
        KIMI_ON_EIGHT, shape=read_shape(SPARSE), readings=Readings(weight_bytes=40 * GIB)
    )
    cache = cache_of(with_host(sparse, size_bytes=20 * GB))
    price = predict(sparse).token_bytes
    assert price is not None
    beside = 78 * 132
    assert cache.tokens.likely == pytest.approx(20 * GB / (price - beside), abs=2)
    assert cache.rank_bytes.likely == pytest.approx(cache.tokens.likely * price)


def test_an_engine_that_fits_its_cache_to_what_is_free() -> None:
    """Without a ratio and a size: 0.8 of what is free less 10 GiB, less a slack of a twentieth."""
    large = with_host(KIMI_ON_EIGHT, share=0.8)
    assert cache_of(large).tokens.likely == pytest.approx(2 * pool_of(large), abs=2)
    small = replace(large, host=Host(total_bytes=256 * GIB, available_bytes=100 * GIB))
    assert cache_of(small).total_bytes.likely == pytest.approx(90 * GIB * 0.8 * 0.95, rel=1e-3)
    assert find_problems(small, cache_of(small)) == []
    old = replace(small, release="0.5.20")
    assert cache_of(old).total_bytes.likely > 100 * GIB


def test_one_size_of_vllm_for_all_ranks_and_for_each_copy() -> None:
    inputs = replace(
        LLAMA,
        engine="vllm",
        release="0.32.0",
        gpus=(H200,) * 4,
        ranks=Ranks(tensor=2, replicas=2),
        settings=Settings(memory_share=0.9),
    )
    cache = cache_of(with_host(inputs, size_bytes=100 * GIB))
    assert cache.total_bytes.likely == 200 * GIB
    assert cache.rank_bytes.likely == 50 * GIB
    assert cache.tokens.likely == pytest.approx(50 * GIB / 65_536, abs=1)


@pytest.mark.parametrize(
    ("release", "few", "many"), [("0.20.0", 1, 1), ("0.27.0", 1, 8), ("0.32.0", 8, 8)]
)
def test_copies_of_a_latent_cache_by_release(release: str, few: int, many: int) -> None:
    inputs = replace(
        KIMI_ON_EIGHT, engine="vllm", release=release, readings=Readings(weight_bytes=70 * GIB)
    )
    cache = cache_of(with_host(inputs, size_bytes=100 * GIB))
    price = predict(inputs).token_bytes
    assert price is not None
    each = 100 * GIB / price / 8
    assert cache.tokens.low == pytest.approx(few * each, rel=1e-3)
    assert cache.tokens.high == pytest.approx(many * each, rel=1e-3)
    assert cache.total_bytes.likely == 100 * GIB


NODES = (
    NodeMemory(node=0, available_bytes=196 * GIB),
    NodeMemory(node=1, available_bytes=150 * GIB),
)


def on_nodes(inputs: Inputs, *nodes: int | None) -> Inputs:
    gpus = tuple(replace(gpu, node=node) for gpu, node in zip(inputs.gpus, nodes, strict=True))
    return replace(inputs, gpus=gpus, host=replace(inputs.host, nodes=NODES))


def test_each_node_must_hold_its_ranks_where_they_are_bound() -> None:
    inputs = with_host(on_nodes(KIMI_ON_EIGHT, 0, 0, 0, 0, 1, 1, 1, 1), ratio=4.0)
    cache = cache_of(inputs)
    first, second = list_node_limits(inputs, cache)
    assert first.needed_bytes == second.needed_bytes == pytest.approx(179 * GB, rel=0.01)
    assert (first.is_kept, second.is_kept, second.is_hard) == (True, False, True)
    assert "NUMA node 1" in tell_broken((first, second))
    assert any("NUMA node 1" in sentence for sentence in predict(inputs).unknown)


@pytest.mark.parametrize(
    ("engine", "release", "binds", "is_hard"),
    [
        ("sglang", "0.5.23", None, True),
        ("sglang", "0.5.9", None, False),
        ("sglang", "0.5.9", False, False),
        ("vllm", "0.32.0", None, False),
        ("vllm", "0.32.0", True, True),
    ],
)
def test_who_binds_ranks_to_nodes(
    engine: str, release: str, binds: bool | None, is_hard: bool
) -> None:
    inputs = on_nodes(replace(KIMI_ON_EIGHT, engine=engine, release=release), *[0] * 7, 1)
    inputs = replace(inputs, readings=Readings(weight_bytes=70 * GIB))
    inputs = with_host(inputs, size_bytes=390 * GIB, binds=binds)
    limits = list_node_limits(inputs, cache_of(inputs))
    assert [limit.is_hard for limit in limits] == [is_hard] * 2
    assert ("slower" in tell_soft(limits)) is not is_hard


def test_nodes_that_nobody_knows_are_no_limit() -> None:
    inputs = with_host(on_nodes(KIMI_ON_EIGHT, 0, 0, 0, 0, 1, 1, 1, None), ratio=4.0)
    assert list_node_limits(inputs, cache_of(inputs)) == ()
    told = with_host(inputs, ratio=4.0, nodes=(1,) * 8)
    assert rank_nodes(told) == (1,) * 8
    (limit,) = list_node_limits(told, cache_of(told))
    assert limit.is_kept is False
    single = replace(told, host=replace(told.host, nodes=NODES[:1]))
    assert list_node_limits(single, cache_of(single)) == ()


def test_shared_memory_holds_the_cache_of_newer_vllm() -> None:
    inputs = replace(
        KIMI_ON_EIGHT,
        engine="vllm",
        release="0.32.0",
        readings=Readings(weight_bytes=70 * GIB),
        host=replace(KIMI_ON_EIGHT.host, shared_bytes=64 << 20),
    )
    inputs = with_host(inputs, size_bytes=100 * GIB)
    limits = {limit.name: limit for limit in list_limits(inputs, cache_of(inputs))}
    assert limits["shared"].is_kept is False
    assert limits["shared"].is_hard
    older = replace(inputs, release="0.20.0")
    assert "shared" not in {limit.name for limit in list_limits(older, cache_of(older))}


def test_what_a_process_may_lock_does_not_bind_the_driver() -> None:
    """Observed: a limit of 8 MiB refuses mlock, and 4 GiB are pinned by the driver all the same."""
    host = replace(KIMI_ON_EIGHT.host, pinned_limit_bytes=8 << 20)
    inputs = with_host(replace(KIMI_ON_EIGHT, host=host), ratio=2.0)
    problems = find_problems(inputs, cache_of(inputs))
    assert len(problems) == 1
    assert "pins it all the same" in problems[0]
    limits = list_limits(inputs, cache_of(inputs))
    assert tell_broken(limits) == ""
    assert load_host_rules().pinning.source.date


def test_what_an_engine_told_stands_beside_what_was_predicted() -> None:
    for engine, release, size, expected in (
        ("sglang", "0.5.23", 10 * GB, 80 * GB),
        ("vllm", "0.32.0", 100 * GIB, 10 * GB),
    ):
        readings = Readings(
            weight_bytes=70 * GIB, resolved_parts=(("host_cache", 10 * GB), ("unused", 7))
        )
        inputs = replace(KIMI_ON_EIGHT, engine=engine, release=release, readings=readings)
        host = predict(with_host(inputs, size_bytes=size)).maps[-1]
        told = {part.part: part.resolved_bytes for part in host.parts}
        assert told["host_cache"] == expected
        assert told["unused"] is None  # what is free of a GPU is not free of the machine


@pytest.mark.parametrize("release", ["", "0.4.3", "0.5.16", "0.5.17", "0.5.22", "1.0"])
def test_rules_hold_for_every_release(release: str) -> None:
    rules = load_host_rules()
    for engine in ("sglang", "vllm"):
        assert find_host_row(rules.binding, engine, release) is not None
        assert find_host_row(rules.size, engine, release) is not None
        assert find_host_row(rules.latent, engine, release) is not None
    newest = find_host_row(rules.latent, "vllm", "")
    assert newest is not None
    assert newest.copies == "one"
    assert find_host_row(rules.binding, "x", release) is None
