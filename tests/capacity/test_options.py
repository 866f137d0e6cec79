"""Options are predictions with one setting changed: figures of a machine that is known well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.capacity.dimensions import read_shape
from stoker.capacity.host_cache_limits import list_limits, tell_broken, tell_nodes
from stoker.capacity.inputs import (
    Batch,
    Host,
    HostSettings,
    Inputs,
    Ranks,
    Readings,
    Settings,
    SettingsParts,
    Speculation,
)
from stoker.capacity.options import CHANGES, add_options
from stoker.capacity.predict import predict
from stoker.capacity.what_if import Wish
from stoker.knowledge.capacity_options import CONTEXT, VALUE, load_options
from stoker.knowledge.engines import load_catalogue, load_engine_table
from stoker.knowledge.releases import known_builds
from stoker.knowledge.versions import parse_version_range
from stoker.model.capacity import Capacity, Option
from tests.capacity.configs import GIB, H200, HYBRID, KIMI, LLAMA_8B, PRO_6000, gemma

KIMI_ON_EIGHT = Inputs(
    name="kimi",
    engine="sglang",
    release="0.5.9",
    shape=read_shape(KIMI),
    gpus=(PRO_6000,) * 8,
    ranks=Ranks(tensor=8),
    settings=Settings(memory_share=0.88, context_tokens=262144),
    readings=Readings(free_before_bytes=94 * GIB, weight_bytes=int(72.3 * GIB)),
    host=Host(total_bytes=503 * GIB, available_bytes=396 * GIB),
)
LLAMA = Inputs(
    name="x", engine="sglang", release="0.5.17", shape=read_shape(LLAMA_8B), gpus=(H200,)
)


def options_of(inputs: Inputs, wish: Wish | None = None) -> dict[str, Option]:
    found = add_options(predict(inputs), inputs, wish or Wish())
    return {option.id: option for option in found.options}


def gain(option: Option) -> float:
    assert option.gain_tokens is not None
    assert option.gain_tokens.low <= option.gain_tokens.likely <= option.gain_tokens.high
    return option.gain_tokens.likely


def test_a_greater_share_of_eight_gpus() -> None:
    found = options_of(KIMI_ON_EIGHT)
    assert gain(found["memory-share-0.9"]) == pytest.approx(187_900 - 159_215, abs=100)
    assert gain(found["memory-share-0.92"]) == pytest.approx(216_700 - 159_215, abs=100)
    assert found["memory-share-0.92"].changes == {"engine.settings.mem-fraction-static": 0.92}
    # Graphs, tables and long prompts need what is left.
    assert "memory-share-0.93" not in found
    assert "stay free" in found["memory-share-0.92"].cost


def test_keys_and_values_in_8_bit() -> None:
    option = options_of(KIMI_ON_EIGHT)["kv-8-bit-fp8_e4m3"]
    assert gain(option) == pytest.approx(159_200, abs=200)
    assert option.changes == {"engine.settings.kv-cache-dtype": "fp8_e4m3"}


@pytest.mark.parametrize(
    ("ratio", "gigabytes", "told"),
    [
        (2, 179, "179.0 GB in all (166.7 GiB)"),
        (4, 358, "358.0 GB in all (333.4 GiB)"),
    ],
)
def test_prompts_in_host_memory_stand_apart(ratio: int, gigabytes: int, told: str) -> None:
    option = options_of(KIMI_ON_EIGHT)[f"host-cache-{ratio}"]
    assert gain(option) == 0
    assert option.host_tokens is not None
    assert option.host_bytes is not None
    assert option.host_tokens.likely == pytest.approx(ratio * 159_215, abs=10)
    assert option.host_bytes.likely / 1e9 == pytest.approx(gigabytes, abs=0.5)
    assert told in option.cost
    left = 396 - option.host_bytes.likely / GIB
    assert f"of 396.0 GiB that are free, {left:.1f} GiB remain" in option.cost
    assert dict(option.changes)["engine.settings.enable-hierarchical-cache"] is True


def test_the_best_comes_first_and_host_memory_last() -> None:
    found = add_options(predict(KIMI_ON_EIGHT), KIMI_ON_EIGHT).options
    gains = [gain(option) for option in found]
    assert gains == sorted(gains, reverse=True)
    assert found[0].id == "kv-8-bit-fp8_e4m3"
    assert [option.id for option in found[-2:]] == ["host-cache-4", "host-cache-2"]
    assert len({option.id for option in found}) == len(found)


def test_what_a_shorter_table_frees_goes_to_the_pool() -> None:
    found = options_of(KIMI_ON_EIGHT, Wish(parallel=32, context_tokens=65536))
    fewer = found["requests-32"]
    assert dict(fewer.changes) == {
        "serve.parallel_requests": 32,
        "engine.settings.mem-fraction-static": 0.9,
    }
    assert gain(fewer) > 20_000
    assert dict(found["context-65536"].changes)["serve.context_tokens"] == 65536


def test_a_host_without_room_gets_a_size_instead_of_a_ratio() -> None:
    host = Host(total_bytes=256 * GIB, available_bytes=150 * GIB)
    inputs = replace(KIMI_ON_EIGHT, host=host)
    found = add_options(predict(inputs), inputs)
    ids = {option.id for option in found.options}
    assert not ids & {"host-cache-2", "host-cache-4"}
    assert any(each.startswith("host-cache-size-") for each in ids)
    assert any("not possible here" in sentence for sentence in found.unknown)
    size = next(option for option in found.options if option.id.startswith("host-cache-size"))
    assert size.host_bytes is not None
    assert size.host_bytes.likely < 140 * GIB


def test_a_limit_on_locked_memory_is_a_risk() -> None:
    inputs = replace(KIMI_ON_EIGHT, host=replace(KIMI_ON_EIGHT.host, pinned_limit_bytes=8 << 20))
    option = options_of(inputs)["host-cache-2"]
    assert "may lock" in option.risk
    assert "may lock" not in options_of(KIMI_ON_EIGHT)["host-cache-2"].risk


def test_limits_of_a_host_cache() -> None:
    parts = SettingsParts(host=HostSettings(is_on=True, ratio=4.0))
    host = replace(KIMI_ON_EIGHT.host, limit_bytes=300 * GIB, pinned_limit_bytes=64 * GIB)
    inputs = replace(
        KIMI_ON_EIGHT, settings=replace(KIMI_ON_EIGHT.settings, parts=parts), host=host
    )
    cache = predict(inputs).host_cache
    assert cache is not None
    limits = {limit.name: limit for limit in list_limits(inputs, cache)}
    assert limits["available"].allowed_bytes == 386 * GIB
    assert [limit.is_kept for limit in limits.values()] == [True, False, True]
    assert tell_broken(tuple(limits.values())).startswith("limit of the control group")
    assert "179.0 GB near node 1" in tell_nodes(cache, [0, 0, 0, 0, 1, 1, 1, 1])
    assert tell_nodes(cache, [0] * 8) == ""
    assert tell_nodes(cache, [0, None]) == ""
    unknown = list_limits(replace(inputs, host=Host()), cache)
    assert [limit.is_kept for limit in unknown] == [None]


def test_more_gpus_are_compared_with_the_same_estimate() -> None:
    option = options_of(replace(LLAMA, gpus=(H200,) * 2), Wish(tensor_sizes=(1, 2)))["tensor-2"]
    assert gain(option) > 100_000
    assert "tensor-2" not in options_of(LLAMA)


def test_recurrent_states() -> None:
    inputs = replace(LLAMA, shape=read_shape(HYBRID))
    found = options_of(inputs, Wish(parallel=4))
    assert "requests at the same time instead of" in found["state-type-bfloat16"].cost
    slots = next(option for option in found.values() if option.id.startswith("state-slots"))
    assert gain(slots) > 0


def test_layers_with_a_window() -> None:
    inputs = replace(LLAMA, shape=gemma(full=8, sliding=40))
    found = options_of(inputs)
    assert gain(found["window-ratio-0.1"]) > gain(found["window-ratio-0.4"]) > 0


def test_a_shorter_draft() -> None:
    drafting = Speculation(kind="eagle", tokens=8, layers=1)
    inputs = replace(
        LLAMA,
        release="0.5.9",
        shape=read_shape(HYBRID),
        settings=Settings(
            memory_share=0.8,
            parts=SettingsParts(speculation=drafting, batch=Batch(requests=64)),
        ),
    )
    assert gain(options_of(inputs)["draft-tokens-2"]) > 0


def test_vllm_has_options_of_its_own_and_a_pool_that_was_read_is_a_correction() -> None:
    inputs = replace(LLAMA, engine="vllm", release="0.32.0")
    found = options_of(inputs)
    assert found["kv-8-bit-fp8"].changes == {"engine.settings.kv-cache-dtype": "fp8"}
    assert any(each.startswith("memory-share") for each in found)
    host = Host(total_bytes=900 * GIB, available_bytes=801 * GIB)
    cache = options_of(replace(inputs, host=host))["host-cache-size-400"]
    assert cache.changes == {"engine.settings.kv-offloading-size": 400}
    assert cache.host_bytes is not None
    assert cache.host_bytes.likely / GIB == pytest.approx(400, abs=0.1)
    read = replace(inputs, readings=Readings(pool_bytes=100 * GIB))
    base = predict(read)
    assert base.kv_tokens is not None
    bits = options_of(read)["kv-8-bit-fp8"]
    assert gain(bits) == pytest.approx(base.kv_tokens.likely, rel=0.01)


def test_nothing_is_offered_where_nothing_is_known() -> None:
    inputs = replace(KIMI_ON_EIGHT, gpus=())
    found = add_options(predict(inputs), inputs)
    assert isinstance(found, Capacity)
    assert found.options == ()
    assert options_of(replace(LLAMA, engine="llamacpp")) == {}


def test_the_table_is_whole() -> None:
    for row in load_options().option:
        assert row.change in CHANGES
        assert parse_version_range(row.versions) is not None
        row.title.format(before="", after="")
        assert row.cost
        assert not row.cost.endswith(".")
        assert all(key.startswith(("engine.settings.", "serve.")) for key in row.sets)


RELEASES = [
    (engine, build) for engine in ("sglang", "vllm", "llamacpp") for build in known_builds(engine)
]


@pytest.mark.parametrize(("engine", "build"), RELEASES, ids=str)
def test_every_release_has_the_flags_and_words_of_its_options(engine: str, build: str) -> None:
    catalogue, table = load_catalogue(engine, build), load_engine_table(engine)
    rows = load_options().find(engine, build)
    assert rows
    for row in rows:
        for key, value in row.sets.items():
            place, _, name = key.rpartition("settings.")
            if not place:
                assert name.removeprefix("serve.") in table.settings
                continue
            option = catalogue.find(name)
            assert option is not None, f"{row.id}: {name}"
            words = row.words if value in (VALUE, CONTEXT) else (value,)
            if option.choices and row.change != "draft_tokens":
                assert {str(word) for word in words} <= set(option.choices)


@pytest.mark.parametrize(
    ("release", "key", "graphs"),
    [
        ("0.5.9", "engine.settings.enable-dp-attention", "engine.settings.disable-cuda-graph"),
        (
            "0.5.23",
            "engine.settings.attn-dp-size",
            "engine.settings.cuda-graph-backend-decode",
        ),
    ],
)
def test_flags_are_those_of_the_release(release: str, key: str, graphs: str) -> None:
    rows = {row.id: row.sets for row in load_options().find("sglang", release)}
    assert key in rows["attention-groups"]
    assert graphs in rows["no-graphs"]


def test_the_list_of_the_machine_that_is_known_well() -> None:
    """All that this deployment can be told, the best first, each with its price and its keys."""
    found = add_options(predict(KIMI_ON_EIGHT), KIMI_ON_EIGHT, Wish(parallel=16)).options
    assert [option.id for option in found] == [
        "kv-8-bit-fp8_e4m3",
        "memory-share-0.92",
        "requests-16",
        "memory-share-0.9",
        "no-graphs",
        "context-131072",
        "host-cache-4",
        "host-cache-2",
    ]
    for option in found:
        assert option.cost
        assert option.changes
        assert option.source is not None
        assert option.needs_restart


def test_fewer_graphs_where_the_engine_chooses_the_share() -> None:
    found = options_of(LLAMA)
    assert gain(found["graphs-32"]) > 0
    assert gain(found["no-graphs"]) > 0


def test_groups_of_ranks_hold_more_where_their_weights_fit() -> None:
    """Eight whole copies of Kimi's attention do not fit beside 72 GiB; on H200 they do."""
    assert "attention-groups-8" not in options_of(KIMI_ON_EIGHT)
    wide = replace(
        KIMI_ON_EIGHT,
        gpus=(H200,) * 8,
        readings=Readings(weight_bytes=int(72.3 * GIB)),
        settings=Settings(context_tokens=262144),
    )
    option = options_of(wide)["attention-groups-8"]
    assert gain(option) > 1_000_000
    assert dict(option.changes)["engine.settings.dp-size"] == 8


def test_a_longer_cache_of_llama_cpp_as_far_as_memory_is_free() -> None:
    inputs = Inputs(
        name="x",
        engine="llamacpp",
        release="b11549",
        shape=read_shape(LLAMA_8B),
        gpus=(),
        settings=Settings(context_tokens=8192),
        weight_bytes=16 * GIB,
        host=Host(total_bytes=64 * GIB, available_bytes=30 * GIB),
    )
    found = options_of(inputs)
    longest = max(int(each.rpartition("-")[2]) for each in found if each.startswith("context-"))
    # 30 GiB less the weights, the cache of 1 GiB, 3 GiB for others and the work of a step, nine
    # tenths of it.
    assert longest == pytest.approx(8192 + 0.9 * 9.8 * 8192, abs=2048)
    packed = next(option for each, option in found.items() if each.startswith("kv-8-bit"))
    assert gain(packed) == pytest.approx(8192 * (16 / 8.5 - 1), abs=1024)
    assert dict(packed.changes)["engine.settings.cache-type-v"] == "q8_0"
    no_room = replace(inputs, host=Host(available_bytes=18 * GIB))
    assert not any(each.startswith("context-") for each in options_of(no_room))
    assert not any(each.startswith("context-") for each in options_of(replace(inputs, host=Host())))


def test_a_draft_without_a_chain_is_not_shortened() -> None:
    parts = SettingsParts(speculation=Speculation(kind="dflash", tokens=16, layers=1))
    inputs = replace(
        LLAMA, shape=read_shape(HYBRID), settings=Settings(memory_share=0.8, parts=parts)
    )
    assert not any(each.startswith("draft-tokens") for each in options_of(inputs))


def test_states_of_vllm_in_the_words_of_the_release() -> None:
    inputs = replace(LLAMA, engine="vllm", shape=read_shape(HYBRID))
    rows = {
        release: [
            row.words for row in load_options().find("vllm", release) if row.id == "state-type"
        ]
        for release in ("0.12.0", "0.20.0", "0.32.0")
    }
    assert rows == {"0.12.0": [], "0.20.0": [("float16",)], "0.32.0": [("bfloat16",)]}
    assert add_options(predict(inputs), inputs).kv_tokens is not None
