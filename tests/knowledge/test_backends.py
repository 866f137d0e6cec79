"""Which kernels may be chosen on which GPU: the tables, and what SGLang's own resolution said."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import DataError
from stoker.knowledge.backends import (
    backend_engines,
    load_backends,
    normalise,
    parse_backends,
)
from stoker.knowledge.derived.backends import derive_backends
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.describe import describe
from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.lifetimes import load_lifetimes
from stoker.model.facts import Unknown
from tests.knowledge.subjects import judge, make_settings, make_subject, make_tree, propose

RECORDED = Path(__file__).parent / "recorded" / "sglang_choices"
CONFIGS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in (RECORDED / "models").glob("*.json")
}
RELEASES = sorted(path.stem for path in RECORDED.glob("*.json"))
#: Latent attention without quantization.
LATENT = {
    key: value for key, value in CONFIGS["deepseek-v3-fp8"].items() if key != "quantization_config"
}
LLAMA, DEEPSEEK = CONFIGS["llama"], CONFIGS["deepseek-v3-fp8"]


def refused(*words: Any, **chosen: str) -> Any:
    """The sentences about what cannot work."""
    tree: Any = describe(make_subject(*words, **chosen))
    return tree["backends"]["refused"]


def fit(choice: str, *words: Any, **chosen: str) -> Any:
    """The names that are known to fit, of a choice that was made."""
    tree: Any = describe(make_subject(*words, **chosen))
    return tree["backends"]["fit"][choice]


@pytest.mark.parametrize("engine", backend_engines())
def test_the_tables_load(engine: str) -> None:
    backends = load_backends(engine)
    assert len(backends.limits) > 50
    assert {limit.choice for limit in backends.limits} <= set(backends.choices)


@pytest.mark.parametrize("engine", backend_engines())
def test_every_name_was_in_some_release(engine: str) -> None:
    """A misspelt name would be a limit of nothing."""
    backends, releases = load_backends(engine), load_lifetimes(engine).releases
    for choice in backends.choices.values():
        options = [
            option
            for release in releases
            for flag in choice.flags
            if (option := load_catalogue(engine, release).find(flag))
        ]
        assert options or not choice.flags
        known = {normalise(name) for option in options for name in option.choices}
        if known:
            # The generated floors also know methods that no flag takes.
            limits = [each for each in backends.limits if "published" not in each.source.where]
            named = {name for limit in limits if limit.choice == choice.id for name in limit.names}
            assert sorted(name for name in named if normalise(name) not in known) == []
            assert sorted(name for name in choice.aside if normalise(name) not in known) == []


def test_a_kernel_of_another_architecture_is_refused_with_those_that_fit() -> None:
    (said,) = refused("sglang", "0.5.23", "12.0", LLAMA, attention_backend="fa3")
    assert said == (
        "attention-backend fa3: FlashAttention 3 runs on sm_80 to sm_90, and this is sm_120 "
        "(what fits here: triton, flashinfer, trtllm_mha)"
    )
    assert refused("sglang", "0.5.23", "9.0", LLAMA, attention_backend="fa3") == []


@pytest.mark.parametrize(
    ("engine", "release", "capability", "config", "chosen"),
    [
        ("sglang", "0.5.9", "9.0", DEEPSEEK, {"attention_backend": "trtllm_mla"}),
        ("sglang", "0.5.9", "10.0", LLAMA, {"attention_backend": "trtllm_mla"}),
        ("sglang", "0.5.9", "12.0", LLAMA, {"attention_backend": "trtllm_mha"}),
        ("sglang", "0.5.9", "9.0", DEEPSEEK, {"attention_backend": "cutlass_mla"}),
        ("sglang", "0.5.23", "12.0", DEEPSEEK, {"attention_backend": "flashmla"}),
        ("sglang", "0.5.23", "8.0", LATENT, {"attention_backend": "fa3"}),
        ("sglang", "0.5.23", "12.0", CONFIGS["qwen3-moe-fp8"],
         {"moe_runner_backend": "flashinfer_trtllm"}),
        ("sglang", "0.5.23", "9.0", CONFIGS["qwen3-moe-fp8"], {"fp8_gemm_backend": "cutlass"}),
        ("sglang", "0.5.12", "12.0", CONFIGS["qwen3-moe-nvfp4"],
         {"fp4_gemm_backend": "flashinfer_cutlass"}),
        ("sglang", "0.5.23", "9.0", LLAMA, {"kv_cache_dtype": "nvfp4"}),
        ("sglang", "0.5.23", "9.0", DEEPSEEK, {"quantization": "awq"}),
        ("sglang", "0.5.23", "8.0", LLAMA, {"quantization": "w4afp8"}),
        ("sglang", "0.5.23", "9.0", LLAMA, {"attention_backend": "aiter"}),
        ("sglang", "0.5.20", "10.3", CONFIGS["qwen3-next"], {"attention_backend": "flashinfer"}),
        ("sglang", "0.5.9", "12.0", CONFIGS["qwen3-next"], {"attention_backend": "flashinfer"}),
        ("sglang", "0.5.23", "10.0", LATENT, {"kv_cache_dtype": "bfloat16"}),
        ("sglang", "0.5.23", "12.0", LLAMA, {"mm_attention_backend": "fa3"}),
        ("sglang", "0.5.23", "12.0", LLAMA, {"quantization": "nvfp4_online"}),
        ("vllm", "0.33.0", "12.0", DEEPSEEK, {"attention_backend": "FLASHMLA"}),
        ("vllm", "0.33.0", "12.0", DEEPSEEK, {"attention_backend": "flash_attn"}),
        ("vllm", "0.12.0", "9.0", LLAMA, {"VLLM_ATTENTION_BACKEND": "CUTLASS_MLA"}),
        ("vllm", "0.33.0", "9.0", LLAMA, {"attention_config": '{"backend": "CUTLASS_MLA"}'}),
        ("vllm", "0.33.0", "9.0", LLAMA, {"attention_config.backend": "CUTLASS_MLA"}),
        ("vllm", "0.33.0", "12.0", CONFIGS["qwen3-moe-nvfp4"],
         {"moe_backend": "flashinfer_trtllm"}),
        ("vllm", "0.33.0", "12.0", CONFIGS["qwen3-moe-nvfp4"], {"moe_backend": "triton"}),
        ("vllm", "0.33.0", "9.0", CONFIGS["qwen3-moe-fp8"],
         {"kernel_config": '{"moe_backend": "flashinfer-cutedsl"}'}),
        ("vllm", "0.17.0", "12.0", DEEPSEEK, {"kv_cache_dtype": "fp8"}),
    ],
)  # fmt: skip
def test_what_cannot_work(
    engine: str, release: str, capability: str, config: Any, chosen: dict[str, str]
) -> None:
    (name,) = chosen
    flag = name.split(".")[0].replace("_", "-") if name.islower() else name
    told = refused(engine, release, capability, config, **chosen)
    assert told
    assert {sentence.split(" ")[0].split(".")[0] for sentence in told} == {flag}
    assert refused(engine, release, capability, config) == []


def test_weights_that_the_gpu_cannot_take() -> None:
    config = CONFIGS["qwen3-moe-nvfp4"]
    (said,) = refused("sglang", "0.5.9", "9.0", config)
    assert said.startswith("the weights are nvfp4: this release serves NVFP4 on Blackwell alone")
    assert refused("sglang", "0.5.13", "9.0", config) == []
    (said,) = refused("sglang", "0.5.23", "8.0", CONFIGS["qwen3-moe-fp8"])
    assert "vLLM serves them by marlin" in said
    assert refused("vllm", "0.33.0", "8.0", CONFIGS["qwen3-moe-fp8"]) == []


def test_an_fp8_cache_that_only_the_checkpoint_asks_for_counts() -> None:
    config = CONFIGS["qwen3-moe-nvfp4"]
    asks = {**config, "quantization_config": {
        **config["quantization_config"], "kv_cache_quant_algo": "FP8",
        "kv_cache_scheme": {"num_bits": 8, "type": "float"}}}  # fmt: skip
    (said,) = refused("sglang", "0.5.23", "12.0", asks, attention_backend="trtllm_mha")
    assert "no kernel for an FP8 KV cache on sm_120" in said
    assert refused("sglang", "0.5.23", "12.0", config, attention_backend="trtllm_mha") == []


def test_what_is_replaced_is_a_warning() -> None:
    chosen = {"attention_backend": "fa3", "kv_cache_dtype": "fp8_e5m2"}
    subject = make_subject("sglang", "0.5.23", "9.0", LLAMA, **chosen)
    assert refused("sglang", "0.5.23", "9.0", LLAMA, **chosen) == []
    assert "SGLang takes triton instead" in judge(subject)["backend.not-as-asked"].summary


def test_a_page_that_the_engine_changes_is_a_warning() -> None:
    chosen = {"attention_backend": "flashmla", "page_size": "16"}
    subject = make_subject("sglang", "0.5.23", "9.0", DEEPSEEK, **chosen)
    warning = judge(subject)["backend.not-as-asked"].summary
    assert "pages of 64 tokens: SGLang takes that instead of 16" in warning
    fine = make_subject("sglang", "0.5.23", "9.0", DEEPSEEK, attention_backend="flashmla")
    assert "backend.not-as-asked" not in judge(fine)


def test_weights_that_cannot_be_served_are_not_called_slow() -> None:
    config = CONFIGS["qwen3-moe-nvfp4"]
    assert "quantization.weights-only" in judge(make_subject("sglang", "0.5.23", "9.0", config))
    old = judge(make_subject("sglang", "0.5.9", "9.0", config))
    assert old["backend.cannot-work"].blocks
    assert "quantization.weights-only" not in old


def test_nothing_is_judged_without_a_gpu() -> None:
    assert refused("sglang", "0.5.23", None, LLAMA, attention_backend="fa3") == []


def test_an_unknown_gpu_leaves_it_open_and_says_so() -> None:
    subject = make_subject("sglang", "0.5.23", "12.0", LLAMA, attention_backend="fa3")
    tree = make_tree(subject)
    unread = Unknown(reason="the driver does not answer")
    blind = {**tree, "hardware": dict.fromkeys(("count", "maker", "major", "arch"), unread)}
    found: Any = derive_backends(subject, blind)
    assert isinstance(found["refused"], Unknown)
    assert "the driver does not answer" in found["refused"].reason
    assert isinstance(found["fit"]["attention"], Unknown)


def test_an_unknown_release_leaves_only_what_changed_open() -> None:
    subject = make_subject("sglang", "0.5.23", "12.0", LLAMA, attention_backend="fa3")
    tree: Any = make_tree(subject)
    unread = {"engine": "sglang", "version": Unknown(reason="it does not tell")}
    found: Any = derive_backends(subject, {**tree, "stack": unread})
    assert len(found["refused"]) == 1


def test_what_fits() -> None:
    hybrid, experts = CONFIGS["qwen3-next"], CONFIGS["qwen3-moe-nvfp4"]
    attention = {"attention_backend": "fa3"}
    assert fit("attention", "sglang", "0.5.9", "12.0", hybrid, **attention) == ["triton"]
    runners = fit("moe-runner", "sglang", "0.5.23", "12.0", experts, moe_runner_backend="cutlass")
    assert {"flashinfer_cutlass", "marlin"} <= set(runners)
    assert "flashinfer_trtllm" not in runners
    latent = {"attention_backend": "FLASHMLA"}
    assert fit("attention", "vllm", "0.33.0", "12.0", DEEPSEEK, **latent) == ["TRITON_MLA"]
    sparse = CONFIGS["deepseek-v32-fp8"]
    assert fit("attention", "vllm", "0.23.0", "12.0", sparse, **latent) == []


STORY = ("sglang", "0.5.9", "12.0", CONFIGS["qwen3-next-nvfp4"])


def test_an_nvfp4_hybrid_on_a_blackwell_card() -> None:
    """The pair that nobody would guess, and Triton attention."""
    wanted = {
        "--moe-runner-backend": "flashinfer_cutlass",
        "--fp4-gemm-backend": "flashinfer_cudnn",
        "--attention-backend": "triton",
    }
    assert wanted.items() <= propose(make_subject(*STORY)).items()
    later = propose(make_subject("sglang", "0.5.23", "12.0", STORY[3]))
    assert later["--moe-runner-backend"] == "flashinfer_cutlass"
    assert {"--attention-backend", "--fp4-gemm-backend"}.isdisjoint(later)
    assert set(wanted).isdisjoint(propose(make_subject("sglang", "0.5.9", "10.0", STORY[3])))


def test_what_the_user_chose_is_left_alone() -> None:
    proposed = propose(make_subject(*STORY, moe_runner_backend="marlin"))
    assert "--moe-runner-backend" not in proposed


def test_deepgemm_is_switched_off_where_it_has_no_kernels() -> None:
    config = CONFIGS["qwen3-moe-fp8"]
    old = propose(make_subject("sglang", "0.5.9", "12.0", config))
    assert old["SGLANG_ENABLE_JIT_DEEPGEMM"] == "0"
    assert old["--fp8-gemm-backend"] == "triton"
    spark = propose(make_subject("sglang", "0.5.17", "12.1", config))
    assert spark["SGLANG_ENABLE_JIT_DEEPGEMM"] == "0"
    assert "SGLANG_ENABLE_JIT_DEEPGEMM" not in propose(
        make_subject("sglang", "0.5.17", "12.0", config)
    )
    assert propose(make_subject("vllm", "0.24.0", "12.0", config))["VLLM_USE_DEEP_GEMM"] == "0"
    assert "VLLM_USE_DEEP_GEMM" not in propose(make_subject("vllm", "0.25.0", "12.0", config))


def test_sparse_attention_without_kernels_blocks() -> None:
    sparse, glm = CONFIGS["deepseek-v32-fp8"], CONFIGS["glm5-fp8"]
    rule = "backend.sm120-sparse-attention"
    assert judge(make_subject("sglang", "0.5.23", "12.0", sparse))[rule].blocks
    assert rule not in judge(make_subject("sglang", "0.5.23", "12.0", glm))
    assert judge(make_subject("sglang", "0.5.16", "12.0", glm))[rule].blocks
    rule = "backend.vllm-sparse-attention"
    assert judge(make_subject("vllm", "0.22.0", "12.0", sparse))[rule].blocks
    assert rule not in judge(make_subject("vllm", "0.33.0", "12.0", sparse))


@cache
def described(engine: str, release: str, capability: str, model: str) -> tuple[Subject, Any]:
    subject = make_subject(engine, release, capability, CONFIGS[model])
    return subject, make_tree(subject)


def say(engine: str, release: str, capability: str, model: str, **chosen: str) -> list[str]:
    """The same as `refused`, without describing the model again for each flag."""
    subject, tree = described(engine, release, capability, model)
    subject = replace(subject, settings=make_settings(**chosen))
    named = {name.replace("_", "-"): value for name, value in chosen.items()}
    found: Any = derive_backends(subject, {**tree, "settings": {**tree["settings"], **named}})
    told: list[str] = found["refused"]
    return told


def answers(release: str) -> Any:
    text = (RECORDED / f"{release}.json").read_text(encoding="utf-8")
    return json.loads(text)["gpus"]


def one_flag(words: str) -> dict[str, str]:
    flag, value = words.removeprefix("--").split(" ")
    return {flag.replace("-", "_"): value}


#: What SGLang refuses for a reason that is no limit of a kernel.
_OTHER_REASONS = re.compile(r"KeyError|ModuleNotFoundError|ImportError")


@pytest.mark.parametrize("release", RELEASES)
def test_what_sglang_itself_refuses_is_refused(release: str) -> None:
    missed = [
        (capability, words, model, why)
        for capability, told in answers(release).items()
        for words, models in told["refused"].items()
        for model, why in models.items()
        if not _OTHER_REASONS.match(why)
        and not say("sglang", release, capability, model, **one_flag(words))
    ]
    assert missed == []


@pytest.mark.parametrize("release", RELEASES)
def test_what_our_rules_set_is_not_what_sglang_chooses_anyway(release: str) -> None:
    """A rule that sets what the engine chooses by itself is noise, or its range is wrong."""
    fields = {
        "--attention-backend": "attention_backend",
        "--moe-runner-backend": "moe_runner_backend",
        "--fp8-gemm-backend": "fp8_gemm_runner_backend",
        "--fp4-gemm-backend": "fp4_gemm_runner_backend",
    }
    for capability, told in answers(release).items():
        for model, chosen in told["chosen"].items():
            proposed = propose(make_subject("sglang", release, capability, CONFIGS[model]))
            for flag, field in fields.items():
                if flag in proposed and isinstance(chosen, dict):
                    assert proposed[flag] != chosen.get(field), (capability, model, flag)


ROW: Any = {
    "choice": "a",
    "names": ["x"],
    "because": "so",
    "effect": "refuses",
    "source": {"kind": "documented", "where": "here", "version": "1"},
}


def parse(*rows: Any, choices: int = 1) -> Any:
    choice = {"id": "a", "title": "A", "flags": ["a"]}
    return parse_backends("t", {"t.toml": {"choice": [choice] * choices, "limit": list(rows)}})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"choice": "b"}, "names a choice"),
        ({"names": []}, "names a choice"),
        ({"effect": "hurts"}, "an effect is one of"),
        ({"flags": ["z"]}, "not flags of that choice"),
        ({"versions": "new"}, "no range of versions"),
        (
            {"source": {"kind": "inferred", "where": "here", "date": "2026-11-30"}},
            "may warn, never block",
        ),
        ({"source": {"kind": "documented", "where": "here"}}, "a version or a date"),
        ({"needs": {"path": "launch.port", "eq": 1}}, "limits read"),
        ({"needs": {"path": "hardware.major", "eqq": 1}}, "no comparison"),
        ({"neds": {}}, "unknown key neds"),
    ],
)
def test_a_limit_that_cannot_be_is_refused(change: Any, complaint: str) -> None:
    assert len(parse(ROW).limits) == 1
    with pytest.raises(DataError, match=complaint):
        parse({**ROW, **change})


def test_a_table_that_cannot_be_is_refused() -> None:
    with pytest.raises(DataError, match="two choices"):
        parse(choices=2)
    with pytest.raises(DataError, match="a limit is a table"):
        parse("x")


VLLM = json.loads((RECORDED.parent / "vllm_attention.json").read_text(encoding="utf-8"))["releases"]


@pytest.mark.parametrize("release", VLLM)
def test_vllm_refuses_the_same_architectures(release: str) -> None:
    """Each backend's own word on the GPUs that it supports, against our table."""
    known = {normalise(name) for name in load_backends("vllm").choices["attention"].names}
    differ = []
    for name, accepted in VLLM[release].items():
        if normalise(name) not in known:
            continue
        latent = "deepseek-v32-fp8" if "SPARSE" in name else "deepseek-v3-fp8"
        model = latent if "MLA" in name else "llama"
        for gpu in ("8.0", "9.0", "10.0", "10.3", "12.0", "12.1"):
            told = say("vllm", release, gpu, model, attention_backend=name)
            said = [sentence for sentence in told if name in sentence]
            if bool(said) is (gpu in accepted):
                differ.append((name, gpu, said))
    assert differ == []
