"""Inputs for which a figure would only pretend to be sure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.capacity.dimensions import read_shape
from stoker.capacity.inputs import (
    Batch,
    Gpu,
    Host,
    HostSettings,
    Inputs,
    NodeMemory,
    Ranks,
    Readings,
    Settings,
    SettingsParts,
    Speculation,
    StateSettings,
)
from stoker.capacity.options import add_options
from stoker.capacity.predict import predict
from stoker.capacity.what_if import Wish
from stoker.knowledge.capacity_turns import list_turns
from stoker.knowledge.versions import parse_version
from stoker.model.capacity import Capacity, Span
from tests.capacity.configs import GIB, H100, H200, HYBRID, KIMI, LLAMA_8B, SPARSE, gemma

GOOD = Inputs(
    name="x",
    engine="sglang",
    release="0.5.17",
    shape=read_shape(LLAMA_8B),
    gpus=(H200,),
)


def refused(inputs: Inputs) -> str:
    found = predict(inputs)
    assert found.kv_tokens is None
    assert found.unknown
    return " ".join(found.unknown)


def test_no_gpus() -> None:
    assert "no GPUs" in refused(replace(GOOD, gpus=()))


def test_fewer_gpus_than_ranks() -> None:
    assert "need 4 GPUs" in refused(replace(GOOD, ranks=Ranks(tensor=4)))


def test_an_unknown_gpu() -> None:
    assert "free is not known" in refused(replace(GOOD, gpus=(Gpu(total_bytes=None),)))


def test_a_slice_needs_a_reading() -> None:
    sliced = replace(GOOD, gpus=(replace(H200, total_bytes=71 * GIB, is_slice=True),))
    assert "MIG" in refused(sliced)
    read = Readings(free_before_bytes=68 * GIB)
    assert predict(replace(sliced, readings=read)).kv_tokens is not None


def test_mixed_gpus_are_told_and_the_smallest_counts() -> None:
    mixed = replace(GOOD, gpus=(H200, H100), ranks=Ranks(tensor=2))
    alike = replace(mixed, gpus=(H100, H100))
    found, least = predict(mixed), predict(alike)
    assert any("different sizes" in sentence for sentence in found.unknown)
    assert found.kv_tokens is not None
    assert least.kv_tokens is not None
    assert found.kv_tokens.likely <= 1.01 * least.kv_tokens.likely


def test_memory_that_is_shared_with_the_machine() -> None:
    gpu = Gpu(total_bytes=122502 << 20, key="gb10", is_shared_memory=True)
    found = predict(replace(GOOD, gpus=(gpu,), settings=Settings(memory_share=0.4)))
    assert any("shares the machine's memory" in sentence for sentence in found.unknown)
    assert found.kv_tokens is not None
    assert found.kv_tokens.high - found.kv_tokens.low > 0.05 * found.kv_tokens.likely
    assert "log settles" in refused(replace(GOOD, engine="vllm", gpus=(gpu,)))


def test_weights_that_do_not_fit() -> None:
    text = refused(replace(GOOD, weight_bytes=200 * GIB))
    assert "do not fit" in text


def test_a_share_that_is_too_small_names_the_least() -> None:
    text = refused(replace(GOOD, settings=Settings(memory_share=0.05)))
    assert "begins at about 0.1" in text


@pytest.mark.parametrize(
    "inputs",
    [
        replace(GOOD, engine="another"),
        replace(GOOD, settings=Settings(memory_share=1.5)),
        replace(GOOD, settings=Settings(kv_type="int3")),
        replace(GOOD, ranks=Ranks(tensor=0)),
        replace(GOOD, ranks=Ranks(tensor=1, pipeline=64), gpus=(H200,) * 64),
        replace(GOOD, shape=read_shape({})),
        replace(GOOD, shape=read_shape({**LLAMA_8B, "num_key_value_heads": 7})),
        replace(GOOD, shape=read_shape({**LLAMA_8B, "num_hidden_layers": 0})),
        replace(GOOD, shape=read_shape({**LLAMA_8B, "architectures": ["DeepseekV4ForCausalLM"]})),
    ],
)
def test_absurd_or_undescribed(inputs: Inputs) -> None:
    assert refused(inputs)


def test_a_cache_in_host_memory_that_does_not_fit_is_told() -> None:
    parts = SettingsParts(host=HostSettings(is_on=True, ratio=4.0))
    host = Host(total_bytes=256 * GIB, available_bytes=200 * GIB, pinned_limit_bytes=GIB)
    found = predict(replace(GOOD, settings=Settings(parts=parts), host=host))
    text = " ".join(found.unknown)
    assert "can be taken" in text
    assert "may lock" in text


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 1 << 40) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
KEYS = sorted(
    {
        *LLAMA_8B,
        *KIMI,
        *HYBRID,
        *SPARSE,
        "layer_types",
        "sliding_window",
        "text_config",
        "vision_config",
        "torch_dtype",
    }
)
ENGINES = st.sampled_from(["sglang", "vllm", "llamacpp"])
RELEASES = st.sampled_from(["", "0.4.3", "0.5.9", "0.5.17", "0.5.23", "0.19.0", "0.32.0", "b11549"])


def list_spans(capacity: Capacity) -> Iterator[Span]:
    """Every figure of an answer that may not be below zero."""
    cache = capacity.host_cache
    spans = [capacity.kv_tokens]
    spans += [part.predicted_bytes for memory in capacity.maps for part in memory.parts]
    if cache is not None:
        spans += [cache.tokens, cache.rank_bytes, cache.total_bytes]
    for option in capacity.options:
        spans += [option.host_tokens, option.host_bytes]
    yield from (span for span in spans if span is not None)


def check(inputs: Inputs, wish: Wish) -> Capacity:
    """An answer, whatever the inputs: no figure that cannot be, and none beside an obstacle."""
    found = add_options(predict(inputs), inputs, wish)
    for span in list_spans(found):
        assert all(math.isfinite(end) for end in (span.low, span.likely, span.high))
        assert 0 <= span.low <= span.likely <= span.high
    for option in found.options:
        gain = option.gain_tokens
        assert gain is None or all(map(math.isfinite, (gain.low, gain.likely, gain.high)))
        assert option.changes
    if found.kv_tokens is None:
        assert found.unknown
        assert found.maps == ()
        assert found.options == ()
        assert found.host_cache is None
    else:
        assert found.token_bytes is not None
        assert math.isfinite(found.token_bytes)
        assert found.token_bytes >= 0
    assert all(sentence and not sentence.endswith(".") for sentence in found.unknown)
    return found


@settings(deadline=None)
@given(ENGINES, RELEASES, st.dictionaries(st.sampled_from(KEYS), JUNK))
def test_whatever_a_config_says_there_is_an_answer(
    engine: str, release: str, junk: dict[str, object]
) -> None:
    for config in (LLAMA_8B, KIMI, HYBRID):
        shape = read_shape({**config, **junk})
        check(replace(GOOD, engine=engine, release=release, shape=shape), Wish(parallel=4))
    nested = read_shape({"architectures": ["LlamaForCausalLM"], "text_config": junk})
    check(replace(GOOD, engine=engine, release=release, shape=nested), Wish())


COUNTS = st.none() | st.integers(1, 1 << 21)
SIZES = st.none() | st.integers(0, 1 << 50) | st.integers(1 << 30, 1 << 37)
SHARES = st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.floats(0.05, 1.0)
GPUS = st.builds(
    Gpu,
    total_bytes=SIZES,
    free_bytes=SIZES,
    key=st.sampled_from(["h200", "h100", "gb10", "gh200", "", "x"]),
    is_shared_memory=st.booleans(),
    is_slice=st.booleans(),
    node=st.none() | st.integers(-1, 3),
)
RANKS = st.builds(
    Ranks,
    tensor=st.integers(-1, 9),
    pipeline=st.integers(-1, 3),
    replicas=st.integers(-1, 3),
    attention_groups=st.integers(-1, 9),
    context=st.integers(-1, 3),
    on_host=st.none() | st.integers(0, 9),
)
HOST = st.builds(
    Host,
    total_bytes=SIZES,
    available_bytes=SIZES,
    limit_bytes=SIZES,
    pinned_limit_bytes=SIZES,
    nodes=st.lists(
        st.builds(NodeMemory, node=st.integers(0, 3), available_bytes=st.integers(0, 1 << 50)),
        max_size=3,
    ).map(tuple),
    shared_bytes=SIZES,
)
PARTS = st.builds(
    SettingsParts,
    batch=st.builds(Batch, requests=COUNTS, chunk_tokens=COUNTS, graph_requests=COUNTS),
    state=st.builds(StateSettings, slots=COUNTS, ratio=SHARES),
    host=st.builds(HostSettings, is_on=st.booleans(), ratio=SHARES, size_bytes=SIZES, share=SHARES),
    speculation=st.none()
    | st.builds(
        Speculation,
        kind=st.sampled_from(["eagle", "mtp", "dflash", "ngram", "standalone", "x"]),
        tokens=st.none() | st.integers(1, 1 << 20),
        layers=st.none() | st.integers(0, 100),
        weight_bytes=SIZES,
    ),
    keeps_all=st.booleans(),
)
SETTINGS = st.builds(
    Settings,
    context_tokens=st.none() | st.integers(-5, 1 << 40),
    memory_share=SHARES,
    kv_type=st.sampled_from(["", "fp8", "fp8_e4m3", "q8_0", "int3", "nvfp4"]),
    page_tokens=COUNTS,
    window_ratio=SHARES,
    has_prefix_reuse=st.booleans(),
    most_tokens=COUNTS,
    kv_bytes=SIZES,
    parts=PARTS,
)
READINGS = st.builds(
    Readings,
    free_before_bytes=SIZES,
    free_after_bytes=SIZES,
    weight_bytes=SIZES,
    pool_bytes=SIZES,
    missing_bytes=st.none() | st.integers(-(1 << 50), 1 << 50),
)
SHAPES = st.sampled_from(
    [
        *map(read_shape, (LLAMA_8B, KIMI, HYBRID, SPARSE, {})),
        gemma(full=5, sliding=25),
        gemma(full=5, sliding=25, name="Gemma3ForConditionalGeneration"),
    ]
)


@settings(max_examples=300)
@given(
    st.builds(
        Inputs,
        name=st.just("x"),
        engine=ENGINES,
        release=RELEASES,
        shape=SHAPES,
        gpus=st.just((H200,) * 8) | st.lists(st.just(H100) | GPUS, max_size=9).map(tuple),
        ranks=st.just(Ranks()) | st.just(Ranks(tensor=8)) | RANKS,
        settings=st.just(Settings()) | SETTINGS,
        weight_bytes=SIZES,
        readings=st.just(Readings()) | READINGS,
        host=HOST,
    ),
    st.builds(
        Wish,
        context_tokens=COUNTS,
        parallel=COUNTS,
        tensor_sizes=st.lists(st.integers(-1, 9), max_size=2).map(tuple),
    ),
)
def test_whatever_the_inputs_there_is_an_answer(inputs: Inputs, wish: Wish) -> None:
    check(inputs, wish)


@pytest.mark.parametrize("release", ["", "main", "dev (2026-06)"])
def test_an_unknown_release_has_the_bounds_of_all(release: str) -> None:
    """vLLM counts the tokens of a model with windows otherwise since 0.21."""
    windows = gemma(full=10, sliding=50)
    known = replace(GOOD, engine="vllm", shape=windows, release="0.33.0")
    unknown = predict(replace(known, release=release))
    assert unknown.kv_tokens is not None
    assert any("release is not known" in text for text in unknown.unknown)
    newest = predict(known).kv_tokens
    assert newest is not None
    assert unknown.kv_tokens.likely == newest.likely
    for turn in ("0.20", "0.21"):
        each = predict(replace(known, release=turn)).kv_tokens
        assert each is not None
        assert unknown.kv_tokens.low <= each.low
        assert each.high <= unknown.kv_tokens.high


def test_releases_at_which_rules_change() -> None:
    for engine in ("sglang", "vllm"):
        turns = list_turns(engine)
        assert turns[0] == "0"
        assert list(turns) == sorted(turns, key=lambda each: parse_version(each) or ())
        assert len(turns) > 3


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize("size", [0, -5, 10**30])
def test_a_gpu_of_a_size_that_cannot_be(engine: str, size: int) -> None:
    inputs = replace(GOOD, engine=engine, gpus=(Gpu(total_bytes=size, key="h200"),))
    assert "a size that cannot be" in refused(inputs)


def test_vllm_does_not_start_with_less_than_it_asks_for() -> None:
    held = replace(H200, free_bytes=100 << 30)
    told = " ".join(predict(replace(GOOD, engine="vllm", release="0.33.0", gpus=(held,))).unknown)
    assert "100.0 GiB are free now" in told
    idle = replace(H200, free_bytes=142 << 30)
    told = " ".join(predict(replace(GOOD, engine="vllm", release="0.33.0", gpus=(idle,))).unknown)
    assert "does not start" not in told
