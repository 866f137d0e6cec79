"""What is said of flags that a release calls otherwise, does not have, or is to lose."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.renames import Verdict, find_new_name, judge_flags


def judge(build: str, settings: dict[str, Any], kind: str = "sglang") -> dict[str, Verdict]:
    return {each.name: each for each in judge_flags(settings, load_catalogue(kind, build))}


def test_flags_that_are_there_need_no_word() -> None:
    settings = {
        "context-length": 4096,
        "tp-size": 2,
        "attention_backend": "fa3",
        "grpc-mode": False,
    }
    assert judge("0.5.23", settings) == {}


@pytest.mark.parametrize(
    ("build", "name", "value", "instead"),
    [
        ("0.5.23", "nsa-decode-backend", "fa3", "dsa-decode-backend"),
        ("0.5.23", "nsa_decode_backend", "fa3", "dsa-decode-backend"),
        # The other way round: a note for a new release on an old one.
        ("0.5.9", "dsa-decode-backend", "fa3", "nsa-decode-backend"),
        ("0.5.23", "stream-output", True, "incremental-streaming-output"),
    ],
)
def test_a_new_name_is_certain_where_the_engine_says_it(
    build: str, name: str, value: Any, instead: str
) -> None:
    verdict = judge(build, {name: value})[name]
    assert (verdict.kind, verdict.instead) == ("renamed", instead)
    assert instead in verdict.says


def test_a_new_name_is_not_certain() -> None:
    # The new flag is set too, and its value is none that the new one takes.
    both = judge("0.5.23", {"nsa-decode-backend": "fa3", "dsa-decode-backend": "fa3"})
    assert both["nsa-decode-backend"].kind == "unknown"
    wrong = judge("0.5.23", {"nsa-decode-backend": "no-such-backend"})
    assert wrong["nsa-decode-backend"].kind == "unknown"
    assert "dsa-decode-backend" in wrong["nsa-decode-backend"].says


def test_a_removed_flag_comes_with_its_lifetime() -> None:
    said = judge("0.5.23", {"torchao-config": "int4wo"})["torchao-config"].says
    assert said.startswith("torchao-config (the engine has it from 0.5.6 to 0.5.")


def test_a_flag_that_is_yet_to_come_comes_with_its_first_release() -> None:
    said = judge("0.5.9", {"boundary-reduction": "ar"})["boundary-reduction"].says
    assert said == "boundary-reduction (the engine has it since 0.5.21)"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        # A note may name the field instead of the flag, or be misspelt.
        ("fp4-gemm-runner-backend", "fp4-gemm-backend"),
        ("moe-runner-backed", "moe-runner-backend"),
        ("port=30000", "port"),
    ],
)
def test_a_misspelt_flag_comes_with_the_nearest(name: str, near: str) -> None:
    verdict = judge("0.5.23", {name: "x"})[name]
    assert verdict.says == f"{name} (did you mean {near}?)"
    assert verdict.instead == ""


def test_a_beginning_is_no_name() -> None:
    verdict = judge("0.5.23", {"context-len": 4096})["context-len"]
    assert (verdict.kind, verdict.instead) == ("shortened", "context-length")
    catalogue = load_catalogue("sglang", "0.5.23")
    assert judge("0.5.23", {"tp": 2})["tp"].instead == "tp-size"
    assert (catalogue.find("tp"), catalogue.spell("tp")) == (None, "--tp-size")
    assert judge("0.5.23", {"disable": True})["disable"].kind == "unknown"
    # With the whole flag beside it, it stands there twice, which another rule tells.
    both = judge("0.5.23", {"context-len": 1, "context-length": 2})
    assert "context-len" not in both


def test_an_engine_with_another_reader_completes_nothing() -> None:
    assert load_catalogue("llamacpp", "b11549").complete("ctx-siz") == ""
    assert judge("b11549", {"ctx-siz": 1}, "llamacpp")["ctx-siz"].kind == "unknown"


def test_deprecated_flags() -> None:
    told = judge("0.5.23", {"grpc-mode": True, "disable-cuda-graph": True})
    assert (told["grpc-mode"].kind, told["grpc-mode"].instead) == ("deprecated", "smg-grpc-mode")
    # The engine names two flags with a value each: that is said, and not done.
    assert told["disable-cuda-graph"].instead == ""
    assert "--cuda-graph-backend-{decode,prefill}=disabled" in told["disable-cuda-graph"].says


def test_an_opposite_is_no_new_name() -> None:
    catalogue = load_catalogue("vllm", "0.33.0")
    assert find_new_name("disable-log-requests", catalogue) == ("", "")
    assert catalogue.find("disable-lora") is not None


def test_a_part_of_a_flag_is_that_flag() -> None:
    catalogue = load_catalogue("vllm", "0.32.0")
    assert judge("0.32.0", {"compilation-config.mode": 3, "hf-overrides.a.b": 1}, "vllm") == {}
    assert catalogue.spell("compilation-config.cudagraph_mode") == (
        "--compilation-config.cudagraph_mode"
    )
    assert judge("0.32.0", {"compilation-confg.mode": 3}, "vllm")[
        "compilation-confg.mode"
    ].kind == ("unknown")
    assert judge("0.5.23", {"json-model-override-args.a": 1})[
        "json-model-override-args.a"
    ].kind == ("unknown")
