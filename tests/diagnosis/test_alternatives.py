"""Which kernels are tried, and in which order."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from stoker.diagnosis.alternatives import MOST_ALTERNATIVES, list_alternatives
from stoker.knowledge.backends import backend_engines, load_backends
from stoker.knowledge.causes import load_causes
from stoker.knowledge.derived.backends import list_fitting
from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.releases import known_builds
from stoker.model.facts import Unknown
from tests.knowledge.subjects import make_subject, make_table, make_tree

CONFIG = Path(__file__).parent.parent / "golden" / "configs" / "qwen3.5-397b-nvfp4.json"


def words(release: str, capability: str, *choices: str, **chosen: str) -> list[str]:
    config = json.loads(CONFIG.read_text())
    tree = make_tree(make_subject("sglang", release, capability, config, **chosen))
    found = list_alternatives(choices, tree, engine="sglang", release=release)
    return [each.words for each in found]


def test_what_cannot_run_here_is_not_tried() -> None:
    # Gated DeltaNet on Blackwell takes triton or trtllm_mha in this release, and this GPU no MHA.
    assert words("0.5.9", "12.0", "attention", attention_backend="flashinfer") == [
        "--attention-backend triton"
    ]


def test_what_is_chosen_already_is_not_tried() -> None:
    assert "--attention-backend triton" not in words(
        "0.5.23", "12.0", "attention", attention_backend="triton"
    )


def test_the_best_alone_then_together() -> None:
    found = words("0.5.23", "12.0", "moe-runner", "fp4-gemm", attention_backend="triton")
    assert found[:3] == [
        "--moe-runner-backend flashinfer_cutlass",
        "--fp4-gemm-backend flashinfer_cudnn",
        "--moe-runner-backend flashinfer_cutlass --fp4-gemm-backend flashinfer_cudnn",
    ]
    assert len(found) == len(set(found)) <= MOST_ALTERNATIVES


def test_nothing_known_forbids_nothing() -> None:
    found = list_alternatives(["attention"], {}, engine="vllm", release="")
    assert found[0].changes == {"engine.settings.attention-backend": "TRITON_ATTN"}
    assert list_alternatives(["attention"], {}, engine="", release="") == ()
    assert list_alternatives(["attention"], {}, engine="llamacpp", release="") == ()


def test_a_choice_that_there_is_not() -> None:
    table = make_table("sglang", "0.5.9")
    assert isinstance(list_fitting("no such choice", table, {}), Unknown)
    assert isinstance(list_fitting("weights", table, {}), Unknown)


@pytest.mark.parametrize("engine", backend_engines())
def test_what_is_tried_first_is_a_name_of_the_engine(engine: str) -> None:
    catalogues = [load_catalogue(engine, build) for build in known_builds(engine)]
    for choice in load_backends(engine).choices.values():
        options = [catalogue.find(flag) for catalogue in catalogues for flag in choice.flags]
        known = {name for option in options if option for name in option.choices}
        assert set(choice.first) <= known | set(choice.names), choice.id
        assert not set(choice.first) & set(choice.aside), choice.id


def test_rows_that_try_name_choices_of_their_engines() -> None:
    rows = [
        (cause.kind, row) for cause in load_causes().values() for row in cause.repair if row.tries
    ]
    assert rows
    for kind, row in rows:
        engines = row.engines or ("sglang", "vllm")
        for engine in engines:
            assert set(row.tries) <= load_backends(engine).choices.keys(), (kind, engine)
        assert "{tried.words}" in row.text, kind


def test_the_order_is_by_how_far_down_the_list() -> None:
    found = words("0.5.23", "9.0", "attention")
    table = [
        f"--attention-backend {name}" for name in load_backends("sglang").choices["attention"].first
    ]
    places = [table.index(each) for each in found if each in table]
    assert all(one < other for one, other in pairwise(places))
