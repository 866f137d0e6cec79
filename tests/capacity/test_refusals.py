"""Inputs for which a figure would only pretend to be sure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.capacity.dimensions import read_shape
from stoker.capacity.inputs import (
    Gpu,
    Host,
    HostSettings,
    Inputs,
    Ranks,
    Readings,
    Settings,
    SettingsParts,
)
from stoker.capacity.predict import predict
from stoker.model.capacity import Capacity
from tests.capacity.configs import GIB, H100, H200, LLAMA_8B

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


@given(st.dictionaries(st.sampled_from([*LLAMA_8B, "kv_lora_rank", "layer_types"]), JUNK))
def test_whatever_a_config_says_there_is_an_answer(junk: dict[str, object]) -> None:
    found = predict(replace(GOOD, shape=read_shape({**LLAMA_8B, **junk})))
    assert isinstance(found, Capacity)
    assert found.kv_tokens is not None or found.unknown
