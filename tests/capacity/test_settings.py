"""Flags become settings by meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.capacity.dimensions import read_shape
from stoker.capacity.fraction import default_share
from stoker.capacity.inputs import Inputs, Ranks
from stoker.capacity.predict import predict
from stoker.capacity.settings import read_ranks, read_settings, to_number
from stoker.knowledge.capacity import load_sglang, load_vllm, need_row
from stoker.knowledge.capacity_flags import load_capacity_flags, load_undescribed
from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.releases import known_builds
from stoker.model.facts import Plain
from tests.capacity.configs import H200, LLAMA_8B, gemma


def test_sglang() -> None:
    found = read_settings(
        "sglang",
        {
            "mem-fraction-static": 0.88,
            "context-length": 32768,
            "kv-cache-dtype": "auto",
            "disable-radix-cache": True,
            "enable-hierarchical-cache": True,
            "hicache-size": 45,
            "cpu-offload-gb": 2,
            "speculative-algorithm": "EAGLE",
            "speculative-num-draft-tokens": 4,
            "max-running-requests": "many",
        },
    )
    assert found.memory_share == 0.88
    assert found.kv_type == ""
    assert not found.has_prefix_reuse
    assert found.parts.host.is_on
    assert found.parts.host.size_bytes == 45 * 10**9
    assert found.parts.host.weight_bytes == 2 << 30
    assert found.parts.batch.requests is None
    assert found.parts.speculation is not None
    assert found.parts.speculation.kind == "eagle"
    assert found.parts.speculation.tokens == 4


def test_vllm() -> None:
    found = read_settings(
        "vllm",
        {
            "gpu-memory-utilization": 0.95,
            "kv-offloading-size": 10,
            "enforce-eager": True,
            "speculative-config": '{"method": "mtp", "num_speculative_tokens": 3}',
        },
    )
    assert found.memory_share == 0.95
    assert found.parts.host.is_on
    assert found.parts.host.size_bytes == 10 << 30
    assert not found.parts.batch.has_graphs
    assert found.parts.speculation is not None
    assert found.parts.speculation.tokens == 3


def test_llamacpp() -> None:
    found = read_settings("llamacpp", {"ctx-size": 4096, "cache-type-k": "q8_0", "parallel": 4})
    assert found.context_tokens == 4096
    assert found.kv_type == "q8_0"
    assert found.parts.llama.sequences == 4


def test_groups_of_attention_are_no_copies() -> None:
    flags = {"tp-size": 8, "dp-size": 4, "enable-dp-attention": True}
    assert read_ranks("sglang", flags) == Ranks(tensor=8, attention_groups=4)
    assert read_ranks("sglang", {"tp-size": 8, "dp-size": 2}) == Ranks(tensor=8, replicas=2)
    assert read_ranks("sglang", {"tp-size": 16, "nnodes": 2}) == Ranks(tensor=16, on_host=8)
    assert read_ranks("another", {}) == Ranks()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.9", 0.9),
        (" 32k ", 32_000),
        ("32K", 32_768),
        ("4G", 4 << 30),
        ("25.6k", 25_600),
        ("1e-1", 0.1),
        ("-1", -1),
        (".5", 0.5),
        ("", None),
        (".", None),
        ("k", None),
        ("0.9 of it", None),
        ("nan", None),
        ("inf", None),
        ("8192, -1 - no limit", None),
        (True, None),
        (None, None),
        ([1], None),
    ],
)
def test_numbers_that_are_text(text: object, number: float | None) -> None:
    assert to_number(text) == number


def test_text_is_read_wherever_flags_come_from() -> None:
    found = read_settings(
        "vllm",
        {
            "gpu-memory-utilization": "0.9",
            "max-model-len": "32k",
            "kv-cache-memory-bytes": "4G",
            "no-enable-prefix-caching": "true",
        },
    )
    assert found.memory_share == 0.9
    assert found.context_tokens == 32_000
    assert found.kv_bytes == 4 << 30
    assert not found.has_prefix_reuse
    assert read_ranks("sglang", {"tp-size": "8"}).tensor == 8


@pytest.mark.parametrize(
    ("flags", "requests"),
    [
        ({"cuda-graph-max-bs": 64}, 64),
        ({"cuda-graph-max-bs-decode": 48}, 48),
        ({"cuda-graph-bs-decode": [1, 2, 96], "cuda-graph-max-bs-decode": 48}, 96),
        ({"cuda-graph-bs": "1 2 4 8"}, 8),
        ({"cuda-graph-config": '{"decode": {"max_bs": 24}}'}, 24),
        ({"cuda-graph-config": {"decode": {"bs": [1, 12]}}, "cuda-graph-bs-decode": [1, 96]}, 12),
        ({"cuda-graph-config": "{"}, None),
    ],
)
def test_sizes_of_graphs_under_all_their_names(
    flags: dict[str, object], requests: int | None
) -> None:
    found = read_settings("sglang", flags)
    assert found.parts.batch.graph_requests == requests


@pytest.mark.parametrize(
    ("flags", "of_answers", "of_prompts"),
    [
        ({}, True, None),
        ({"disable-cuda-graph": True}, False, False),
        ({"disable-decode-cuda-graph": True}, False, True),
        ({"disable-prefill-cuda-graph": True}, True, False),
        ({"disable-piecewise-cuda-graph": True}, True, False),
        ({"cuda-graph-backend-decode": "disabled"}, False, True),
        ({"cuda-graph-backend-prefill": "disabled"}, True, False),
        ({"cuda-graph-config": '{"prefill": {"backend": "disabled"}}'}, True, False),
    ],
)
def test_graphs_of_answers_and_of_prompts(
    flags: dict[str, object], of_answers: bool, of_prompts: bool | None
) -> None:
    batch = read_settings("sglang", flags).parts.batch
    assert (batch.has_graphs, batch.has_prefill_graphs) == (of_answers, of_prompts)


def test_vllm_without_graphs() -> None:
    for flags in (
        {"enforce-eager": True},
        {"compilation-config": '{"cudagraph_mode": "NONE"}'},
        {"compilation-config": {"cudagraph_mode": 0}},
        {"optimization-level": "0"},
    ):
        assert not read_settings("vllm", flags).parts.batch.has_graphs
    assert read_settings("vllm", {"optimization-level": "2"}).parts.batch.has_graphs


def test_groups_of_attention_under_their_newer_name() -> None:
    assert read_ranks("sglang", {"tp-size": 8, "attn-dp-size": 4}) == Ranks(
        tensor=8, attention_groups=4
    )
    both = {"tp-size": 4, "attn-dp-size": 2, "dp-size": 2}
    assert read_ranks("sglang", both) == Ranks(tensor=4, attention_groups=2, replicas=2)


def test_experts_of_vllm_are_shared_out_over_all_ranks() -> None:
    flags = {"tensor-parallel-size": 2, "data-parallel-size": 4, "enable-expert-parallel": True}
    assert read_ranks("vllm", flags).expert == 8


def test_drafts_under_all_their_names() -> None:
    for engine, flags, tokens in (
        ("sglang", {"speculative-algorithm": "DFLASH", "speculative-dflash-block-size": 16}, 16),
        (
            "sglang",
            {
                "speculative-algorithm": "EAGLE",
                "speculative-num-steps": 3,
                "speculative-eagle-topk": 1,
            },
            4,
        ),
        ("sglang", {"speculative-algorithm": "EAGLE", "speculative-num-steps": 3}, None),
        ("vllm", {"spec-method": "mtp", "spec-tokens": 2}, 2),
    ):
        found = read_settings(engine, flags).parts.speculation
        assert found is not None
        assert found.tokens == tokens


def test_newer_names_of_other_flags() -> None:
    found = read_settings(
        "sglang",
        {
            "mamba-radix-cache-strategy": "no_buffer",
            "enable-hicache": True,
            "hicache-host-memory-fraction": 0.8,
            "numa-node": [0, 0, 1, 1],
            "kv-cache-dtype": "AUTO",
        },
    )
    assert found.parts.state.strategy == "no_buffer"
    assert found.parts.host.is_on
    assert found.parts.host.share == 0.8
    assert found.parts.host.nodes == (0, 0, 1, 1)
    assert found.kv_type == ""


def test_windows_that_keep_everything() -> None:
    shape = gemma(full=5, sliding=25)
    for engine, release, flag in (
        ("sglang", "0.5.17", "disable-hybrid-swa-memory"),
        ("vllm", "0.32.0", "disable-hybrid-kv-cache-manager"),
    ):
        usual = Inputs(name="x", engine=engine, release=release, shape=shape, gpus=(H200,))
        settings = read_settings(engine, {flag: True})
        less = predict(
            Inputs(
                name="x",
                engine=engine,
                release=release,
                shape=shape,
                gpus=(H200,),
                settings=settings,
            )
        )
        more = predict(usual)
        assert less.kv_tokens is not None
        assert more.kv_tokens is not None
        assert less.kv_tokens.likely < more.kv_tokens.likely


def test_prompts_are_captured_as_long_as_they_are_told() -> None:
    shares = {}
    for tokens in (None, 2048):
        flags = {"chunked-prefill-size": 8192, "cuda-graph-max-bs-prefill": tokens}
        inputs = Inputs(
            name="x",
            engine="sglang",
            release="0.5.23",
            shape=read_shape(LLAMA_8B),
            gpus=(H200,),
            settings=read_settings("sglang", {**flags, "cuda-graph-max-bs-decode": 512}),
        )
        shares[tokens] = default_share(inputs, 143_771)
    assert shares[2048] > shares[None]


def test_one_that_only_writes_answers_keeps_nothing_for_prompts() -> None:
    found = {}
    for role in ("null", "decode", "prefill"):
        settings = read_settings("sglang", {"disaggregation-mode": role, "tp-size": 8})
        inputs = Inputs(
            name="x",
            engine="sglang",
            release="0.5.23",
            shape=read_shape(LLAMA_8B),
            gpus=(H200,) * 8,
            ranks=Ranks(tensor=8, attention_groups=8),
            settings=settings,
        )
        found[role] = default_share(inputs, 143_771)
    assert found["decode"] > found["null"]
    assert found["prefill"] > found["null"]


NOTHING: tuple[Plain, ...] = (None, False, "", "none", "[]", 0, [], {})


def test_what_is_not_described_is_told_or_refused() -> None:
    for row in load_undescribed():
        value = row.words[0] if row.words else True if row.above is None else row.above + 1
        found = read_settings(row.engine, {row.flag: value}).parts.undescribed
        assert [each.refuses for each in found] == [row.refuses]
        for nothing in NOTHING:
            assert read_settings(row.engine, {row.flag: nothing}).parts.undescribed == ()
    inputs = Inputs(
        name="x",
        engine="sglang",
        release="0.5.23",
        shape=read_shape(LLAMA_8B),
        gpus=(H200,),
        settings=read_settings("sglang", {"dcp-size": 2}),
    )
    refused = predict(inputs)
    assert refused.kv_tokens is None
    assert "dcp-size is set" in refused.unknown[0]
    assert "log of one start settles it" in refused.unknown[0]


def test_every_name_is_a_flag_of_some_release() -> None:
    for engine, row in load_capacity_flags().items():
        catalogues = [load_catalogue(engine, build) for build in known_builds(engine)]
        several = (*row.also.values(), *row.off_words.values(), *row.largest.values())
        single = (row.meanings, row.words, row.on, row.off, row.sized)
        names = {
            *(name for part in single for name in part.values()),
            *(place.partition(":")[0] for part in several for place in part),
            *(each.flag for each in load_undescribed() if each.engine == engine),
            *([row.draft_table] if row.draft_table else []),
        }
        lost = {name for name in names if not any(each.find(name) for each in catalogues)}
        assert not lost


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
FLAGS = sorted(
    {
        place.partition(":")[0]
        for row in load_capacity_flags().values()
        for part in (row.meanings, row.words, row.on, row.off, row.sized)
        for place in part.values()
    }
    | {row.flag for row in load_undescribed()}
    | {"cuda-graph-config", "compilation-config", "speculative-config", "numa-node"}
)


@given(
    st.sampled_from(["sglang", "vllm", "llamacpp", "x"]),
    st.dictionaries(st.sampled_from(FLAGS), JUNK),
)
def test_whatever_flags_say_there_are_settings(engine: str, flags: dict[str, object]) -> None:
    settings, ranks = read_settings(engine, flags), read_ranks(engine, flags)
    assert settings.memory_share is None or settings.memory_share > 0
    assert min(ranks.tensor, ranks.pipeline, ranks.replicas, ranks.attention_groups) >= 1


def test_defaults_are_those_of_the_parsers() -> None:
    for build in known_builds("vllm"):
        option = load_catalogue("vllm", build).find("gpu-memory-utilization")
        assert option is not None
        assert need_row(load_vllm().share, build).share == float(option.default or 0)
    usual = load_sglang().usual
    for build in known_builds("sglang"):
        for flag, value in (
            ("swa-full-tokens-ratio", usual.window_ratio),
            ("mamba-full-memory-ratio", usual.state_ratio),
            ("hicache-ratio", usual.host_ratio),
        ):
            option = load_catalogue("sglang", build).find(flag)
            assert option is not None
            assert option.default is None or float(option.default) == value
