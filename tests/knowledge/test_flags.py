"""What is said of flags and their values, against the release that is there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engines import build_launch
from stoker.knowledge.derive import derive
from stoker.knowledge.derived.case import Case
from stoker.knowledge.derived.flags import derive_flags
from stoker.knowledge.derived.values import fits
from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.releases import fit_table, load_table_for
from stoker.knowledge.rules import evaluate_rules, load_rules
from stoker.model.deployment import Deployment
from stoker.model.deployment_fields import is_secret_name
from stoker.model.engine_table import FlagCatalogue, Option, Place
from stoker.model.facts import Facts, Unknown
from stoker.model.finding import Finding, Severity


def case_of(
    settings: dict[str, Any],
    kind: str = "sglang",
    version: str = "0.5.23",
    catalogue: FlagCatalogue | None = None,
) -> Case:
    engine = {"kind": kind, "environment": "path:/opt/v", "settings": settings}
    deployment = Deployment.model_validate(
        {"name": "x", "model": "path:/m", "engine": engine, "gpus": "none"}
    )
    table = load_table_for(kind, version)
    table = fit_table(table, catalogue) if catalogue else table
    facts = Facts(host="h", stoker_version="1")
    place = Place(command="/opt/v/bin/python3", build=version, model_path="/m")
    return Case(
        deployment=deployment,
        facts=facts,
        launch=build_launch(deployment, facts, table, place),
        table=table,
        preparations=(),
        own_pids=frozenset(),
        key_file=None,
        user="nobody",
        me="root",
    )


def findings_of(case: Case) -> dict[str, Finding]:
    tree = {
        "deployment": case.deployment.model_dump(mode="json"),
        "derived": {"flags": derive(case)["flags"]},
    }
    wanted = [rule for rule in load_rules() if "derived.flags" in str(rule.when)]
    return {each.rule: each for each in evaluate_rules(wanted, tree, stage="plan")}


def test_good_flags_give_no_findings() -> None:
    settings = {
        "attention-backend": "triton",
        "mem-fraction-static": 0.88,
        "lora-paths": ["a=b", "c=d"],
        "chunked-prefill-size": -1,
        "extra-metric-labels": '{"a": "b"}',
    }
    assert findings_of(case_of(settings)) == {}


@pytest.mark.parametrize(("kind", "version"), [("sglang", "0.5.23"), ("vllm", "0.33.0")])
def test_flags_that_count_tokens_are_no_secrets(kind: str, version: str) -> None:
    names = [option.names[0].lstrip("-") for option in load_catalogue(kind, version).options]
    secret = {name for name in names if is_secret_name(name)}
    assert secret <= {"hf-token", "api-key", "admin-api-key", "ssl-keyfile-password"} | {
        "allow-credentials"
    }
    assert is_secret_name("hf-token")
    assert is_secret_name("X_TOKEN_OF_MINE")


def test_a_renamed_flag_blocks_with_the_change_that_mends_it() -> None:
    settings = {"attention-backend": "triton", "nsa-decode-backend": "fa3"}
    finding = findings_of(case_of(settings))["engine.flag-renamed"]
    assert finding.severity is Severity.BLOCK
    assert finding.change == {
        "engine.settings": {"attention-backend": "triton", "dsa-decode-backend": "fa3"}
    }
    assert list(finding.change["engine.settings"]) == ["attention-backend", "dsa-decode-backend"]


def test_a_flag_that_is_gone_or_never_was_blocks() -> None:
    findings = findings_of(case_of({"torchao-config": "x", "fp4-gemm-runner-backend": "auto"}))
    said = findings["engine.unknown-flag"].summary
    assert "torchao-config (the engine has it from 0.5.6 to 0.5." in said
    assert "fp4-gemm-runner-backend (did you mean fp4-gemm-backend?)" in said
    assert findings["engine.unknown-flag"].blocks


def test_a_beginning_is_written_in_full() -> None:
    case = case_of({"tp": 2, "por": 1})
    assert "--tp-size" in case.launch.argv
    findings = findings_of(case)
    assert findings["engine.flag-shortened"].severity is Severity.NOTE
    # A beginning of a flag that another key sets is no way around that key.
    assert "serve.port" in findings["engine.flag-owned"].summary


def test_a_deprecated_flag_is_told() -> None:
    finding = findings_of(case_of({"grpc-mode": True}))["engine.flag-deprecated"]
    assert finding.severity is Severity.NOTE
    assert finding.change == {"engine.settings": {"smg-grpc-mode": True}}
    unsure = findings_of(case_of({"disable-cuda-graph": True}))["engine.flag-deprecated"]
    assert unsure.change == {}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"attention-backend": "tritn"}, "tritn, and must be"),
        ({"page-size": "x"}, "page-size is x, and must be a whole number"),
        ({"page-size": 1.5}, "page-size is 1.5, and must be a whole number"),
        ({"mem-fraction-static": "90%"}, "must be a number"),
        ({"extra-metric-labels": "{'a': 1}"}, "must be JSON"),
        ({"bucket-time-to-first-token": [0.1, "x"]}, "bucket-time-to-first-token is x"),
        ({"page-siz": "x"}, "page-siz is x"),
    ],
)
def test_wrong_values_block(settings: dict[str, Any], says: str) -> None:
    finding = findings_of(case_of(settings))["engine.flag-value"]
    assert finding.blocks
    assert says in finding.summary


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"page-size": True}, "page-size needs a value"),
        ({"enable-metrics": 1}, "enable-metrics takes no value"),
        ({"page-size": [1, 2]}, "page-size takes one value: of 2 only the last would count"),
    ],
)
def test_wrong_shapes_block(settings: dict[str, Any], says: str) -> None:
    finding = findings_of(case_of(settings))["engine.flag-argument"]
    assert finding.blocks
    assert says in finding.summary


def test_a_list_for_a_flag_that_takes_several_or_adds_up_is_right() -> None:
    flags = derive_flags(case_of({"lora-paths": ["a=b", "c=d"]}))
    assert flags["malformed"] == []
    repeated = case_of({"middleware": ["a", "b"]}, kind="vllm", version="0.32.0")
    assert derive_flags(repeated)["malformed"] == []


def test_parts_of_a_flag_are_not_judged_as_the_whole() -> None:
    settings = {"compilation-config.mode": 3, "speculative-config.method": "ngram"}
    assert findings_of(case_of(settings, kind="vllm", version="0.32.0")) == {}


def test_another_release_is_unknown_and_nothing_is_called_wrong() -> None:
    settings = {"nsa-decode-backend": "fa3", "mine": 1, "page-size": "x"}
    flags = derive_flags(case_of(settings, version="0.5.99"))
    assert isinstance(flags["unknown"], Unknown)
    assert isinstance(flags["renamed"], Unknown)
    assert isinstance(flags["unfit"], Unknown)
    assert not any(
        finding.blocks for finding in findings_of(case_of(settings, version="0.5.99")).values()
    )


def test_a_builder_s_mark_makes_no_other_release() -> None:
    assert derive_flags(case_of({"mine": 1}, version="0.5.23+cu130"))["unknown"] == ["mine"]


def test_flags_of_stoker_s_own_that_the_installed_parser_lacks() -> None:
    known = load_catalogue("sglang", "0.5.23")
    lacking = FlagCatalogue(
        engine="sglang",
        build="0.5.23",
        options=tuple(each for each in known.options if "--enable-metrics" not in each.names),
        source=known.source,
    )
    findings = findings_of(case_of({"mine": 1}, catalogue=lacking))
    assert "--enable-metrics" in findings["engine.own-flag-unknown"].summary
    assert "mine" not in findings["engine.own-flag-unknown"].summary


@pytest.mark.parametrize(
    ("type_", "right", "wrong"),
    [
        ("int", ["1", "-1", "1_000", " 7 "], ["1.5", "x", "8k", "1e3"]),
        ("float", ["1", ".5", "1e3", "inf", "1_0.5"], ["x", "50%", "1,5"]),
        ("json", ["{}", "[1]", "1", "null", "None", "", '{"a": 80m}'], ["{'a': 1}", "a=b", "[1"]),
        ("human_readable_int", ["16k", "1.5M", "2Ki", "7"], ["x", "1.5", "16 kk"]),
        ("str", ["x", "", "{"], []),
        ("parse_cuda_graph_config_arg", ["x"], []),
    ],
)
def test_values_by_what_reads_them(type_: str, right: list[str], wrong: list[str]) -> None:
    option = Option(names=("--x",), argument="x", type=type_)
    assert [value for value in right if not fits(value, option)] == []
    assert [value for value in wrong if fits(value, option)] == []


@given(st.text(max_size=30), st.sampled_from(["int", "float", "json", "human_readable_int", ""]))
def test_any_text_is_judged(value: str, type_: str) -> None:
    for kind in ("", "number"):
        assert fits(value, Option(names=("--x",), argument="x", type=type_, kind=kind)) in (
            True,
            False,
        )
