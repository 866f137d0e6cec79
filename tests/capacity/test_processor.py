"""SGLang and vLLM without a GPU: what is set is exact, a share of memory lies within bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.capacity.inputs import (
    Attention,
    Host,
    HostSettings,
    Inputs,
    NodeMemory,
    Processor,
    Settings,
    SettingsParts,
    Shape,
)
from stoker.capacity.options import add_options
from stoker.capacity.predict import predict
from stoker.capacity.processor import read_processor
from stoker.capacity.what_if import Wish
from stoker.model.capacity import Span

GIB = 1 << 30
#: 23,040 bytes for each token.
SHAPE = Shape(
    model_class="LlamaForCausalLM",
    layers=30,
    hidden_width=576,
    intermediate_width=1536,
    vocabulary=49152,
    heads=9,
    context_tokens=8192,
    attention=(Attention(layers=30, kv_heads=3, key_width=64, value_width=64),),
)
ONE = Host(
    total_bytes=int(23.54 * GIB),
    available_bytes=int(21.9 * GIB),
    nodes=(NodeMemory(node=0, available_bytes=int(21.9 * GIB)),),
)


def inputs_of(engine: str, settings: Settings, processor: Processor | None = None) -> Inputs:
    return Inputs(
        name="x",
        engine=engine,
        release={"sglang": "0.5.23", "vllm": "0.32.0"}[engine],
        shape=SHAPE,
        gpus=(),
        settings=settings,
        weight_bytes=269_060_552,
        host=ONE,
        processor=processor or Processor(),
    )


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_no_option_speaks_of_gpus_or_would_not_start(engine: str) -> None:
    host = replace(ONE, pinned_limit_bytes=None)
    settings = Settings(memory_share=0.4)
    inputs = replace(inputs_of(engine, settings), host=host)
    found = add_options(predict(inputs), inputs, Wish(context_tokens=4096, parallel=2))
    assert found.kv_tokens is not None
    for option in found.options:
        assert "GPU" not in f"{option.title} {option.cost} {option.risk}"
        assert "graphs" not in option.title
    offered = {option.id for option in found.options}
    assert any(name.startswith("kv-8-bit") for name in offered) is (engine == "vllm")


def tokens_of(inputs: Inputs) -> Span:
    found = predict(inputs)
    assert found.kv_tokens is not None, found.unknown
    return found.kv_tokens


def test_vllm_takes_the_environment_before_the_flag() -> None:
    """Logged: 46,592 tokens of 1 GiB, and the same of half of it in 8 bit in blocks of 32."""
    space = read_processor("vllm", {"VLLM_CPU_KVCACHE_SPACE": "1"})
    settings = Settings(context_tokens=2048, kv_bytes=GIB // 2)
    found = tokens_of(inputs_of("vllm", settings, space))
    assert (found.low, found.high) == (46592, 46592)
    narrow = Settings(context_tokens=4096, kv_bytes=GIB // 2, kv_type="fp8", page_tokens=32)
    found = tokens_of(inputs_of("vllm", narrow))
    assert (found.low, found.high) == (46592, 46592)


def test_a_share_of_memory_lies_within_bounds() -> None:
    """Logged: 282,240 tokens with a share of 0.3, and 916,573 with SGLang's own."""
    found = tokens_of(inputs_of("vllm", Settings(context_tokens=8192, memory_share=0.3)))
    assert found.low < 282240 < found.high
    cores = read_processor("sglang", {"SGLANG_CPU_OMP_THREADS_BIND": "0"})
    found = tokens_of(inputs_of("sglang", Settings(context_tokens=8192), cores))
    assert found.low < 916573 < found.high
    two = (*ONE.nodes, NodeMemory(node=1, available_bytes=1))
    inputs = inputs_of("sglang", Settings(context_tokens=8192), cores)
    half = tokens_of(replace(inputs, host=replace(ONE, nodes=two)))
    assert half.likely == pytest.approx(found.likely / 2, rel=0.02)


def test_tokens_that_are_set_are_exact_where_there_is_room() -> None:
    settings = Settings(context_tokens=2048, most_tokens=16391, page_tokens=16)
    found = tokens_of(inputs_of("sglang", settings))
    assert (found.low, found.high) == (16384, 16384)


def test_what_does_not_start_here_is_told() -> None:
    host = SettingsParts(host=HostSettings(is_on=True))
    settings = Settings(most_tokens=1024, kv_type="fp8_e4m3", parts=host)
    notes = " ".join(predict(inputs_of("sglang", settings)).unknown)
    assert "locks the cache in host memory" in notes
    assert "AMX" in notes
    found = predict(inputs_of("vllm", Settings(memory_share=0.99)))
    assert found.kv_tokens is None
    assert "does not start with less" in found.unknown[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"release": "0.5.17"}, "sglang 0.5.17 sizes its cache on a processor"),
        ({"processor": None}, "there are no GPUs"),
        ({"host": Host(total_bytes=GIB, available_bytes=GIB)}, "NUMA nodes"),
        ({"host": replace(ONE, available_bytes=None)}, "how much memory the machine has"),
    ],
)
def test_what_is_not_known_is_refused(changes: dict[str, object], words: str) -> None:
    inputs = replace(inputs_of("sglang", Settings()), **changes)  # type: ignore[arg-type]
    found = predict(inputs)
    assert found.kv_tokens is None
    assert words in found.unknown[0]


def test_an_absurd_space_counts_as_none() -> None:
    for word in ("", "-1", "many", "1e9", "9" * 40, None):
        assert read_processor("vllm", {"VLLM_CPU_KVCACHE_SPACE": word}).kv_bytes is None
