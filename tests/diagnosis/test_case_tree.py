"""What a few words about a failure tell, in the words of rules."""

from __future__ import annotations

import pytest

from stoker.diagnosis.case_tree import Told, describe_arguments, describe_case, read_release


@pytest.mark.parametrize(
    ("text", "release", "is_near"),
    [
        ("0.5.10", "0.5.10", False),
        ("0.5.10-cu130", "0.5.10", False),
        ("~0.5.9", "0.5.9", True),
        ("~0.5.20 / main 2026-09", "0.5.20", True),
        ("0.3.6.post2", "0.3.6.post2", False),
        ("0.15.2rc1.dev93", "0.15.2rc1.dev93", False),
        ("v0.8.5", "0.8.5", False),
        ("b6710", "b6710", False),
        ("2026-08", "", False),
        ("main 2026-09", "", False),
        ("with flashinfer 0.6.4", "", False),
        ("", "", False),
    ],
)
def test_the_release_of_a_text(text: str, release: str, *, is_near: bool) -> None:
    assert read_release(text) == (release, is_near)


def test_a_case() -> None:
    case = describe_case(
        Told(
            engine="sglang",
            engine_version="0.5.10-cu130",
            gpu="NVIDIA H20 96GB",
            gpu_count=8,
            arch="sm_90",
            model="Qwen/Qwen3-235B-A22B-FP8",
            quantization="fp8",
            flags=("--tp 4", "--mem-fraction-static=0.8", "--enable-dp-attention", "A_B=1"),
        )
    )
    assert (case.engine, case.release) == ("sglang", "0.5.10")
    tree = case.tree
    assert tree["stack"] == {"version": "0.5.10", "engine": "sglang", "cuda": "13.0"}
    assert tree["hardware"]["key"] == "h20"
    assert tree["hardware"]["capability"] == 90
    assert tree["checkpoint"]["quantization"] == "fp8"
    settings = tree["settings"]
    assert (settings["tp-size"], settings["tp"], settings["mem-fraction-static"]) == (4, 4, 0.8)
    assert settings["enable-dp-attention"] is True
    assert "attention-backend" not in settings
    assert tree["env"] == {"A_B": "1"}


def test_what_is_not_said_is_not_there() -> None:
    case = describe_case(
        Told(engine="driver", gpu="not stated", quantization="none", engine_version="n/a")
    )
    assert (case.engine, case.release) == ("", "")
    assert case.tree == {
        part: {} for part in ("stack", "hardware", "checkpoint", "settings", "env")
    }


def test_words_of_other_makers_and_of_several_gpus() -> None:
    case = describe_case(Told(engine="llama.cpp", gpu="AMD MI308", arch="gfx942"))
    assert case.engine == "llamacpp"
    assert case.tree["hardware"]["maker"] == "amd"
    both = describe_case(Told(gpu="NVIDIA L40 / RTX 4090", arch="sm_89")).tree["hardware"]
    assert both["capability"] == 89
    assert "key" not in both
    driver = describe_case(Told(engine_version="NVIDIA 570.144 proprietary")).tree["stack"]
    assert driver == {"driver": "570.144", "driver_flavour": "proprietary"}


def test_arguments_as_an_engine_prints_them() -> None:
    told = {"tp_size": 2, "kv_cache_dtype": "auto", "there_is_no_such": None}
    settings = describe_arguments(told, engine="sglang", release="0.5.17")
    assert settings["tensor-parallel-size"] == 2
    assert settings["kv-cache-dtype"] == "auto"
    assert settings["there-is-no-such"] is None
