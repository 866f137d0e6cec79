"""Rules that choose settings: what they propose, and what is said of those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.errors import DataError
from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.resolution import explain_rules, propose_settings
from stoker.knowledge.rules import Rule, parse_rules
from stoker.model.facts import Unknown
from stoker.model.finding import Status
from stoker.model.launch import Origin

CATALOGUE = load_catalogue("sglang", "0.5.23")
TREE: dict[str, Any] = {
    "deployment": {"engine": {"kind": "sglang"}},
    "parallel": {"tensor": 4, "unknown": Unknown(reason="nobody looked"), "sizes": [1, 2]},
    "hardware": {"count": 8, "arch": Unknown(reason="no driver")},
}


def rules(*chosen: str, when: str = '{ path = "hardware.count", gt = 1 }', **words: str) -> Any:
    """A rule for each of these `set` lines."""
    kind = words.get("kind", "documented")
    return parse_rules(
        "\n".join(
            f"""
[[rule]]
id = "{words.get("id", "choice.number")}-{number}"
title = "A choice"
severity = "note"
stages = ["resolve"]
applies = ["sglang"]
when = {when}
{line}
summary = "so that {{hardware.count}} GPUs are used"
remedy = "one GPU computes"
source = {{ kind = "{kind}", where = "here", date = "2026-11-30" }}
  [[rule.example]]
  status = "fired"
  facts = {{ "hardware.count" = 2 }}
  [[rule.example]]
  status = "clear"
  facts = {{ "hardware.count" = 1 }}
"""
            for number, line in enumerate(chosen)
        ),
        origin="test",
    )


def words(made: tuple[Rule, ...]) -> list[tuple[str, Any, tuple[str, ...]]]:
    chosen = propose_settings(made, TREE, CATALOGUE)
    return [(each.name, each.value, each.more) for each in chosen]


def test_a_rule_that_fires_chooses_with_its_reason() -> None:
    (setting,) = propose_settings(
        rules('set = { "tp-size" = "{parallel.tensor}" }'), TREE, CATALOGUE
    )
    assert (setting.name, setting.value, setting.kind) == ("--tp-size", "4", "flag")
    assert setting.origin is Origin.RULE
    assert setting.reason == "so that 8 GPUs are used"
    assert setting.rule == "choice.number-0"
    assert setting.source is not None
    assert setting.source.date == "2026-11-30"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('set = { "enable-metrics" = true }', [("--enable-metrics", None, ())]),
        ('set = { "enable-metrics" = false }', []),
        ('set = { "no-such-flag" = 1 }', []),
        ('set = { "tp-size" = "{parallel.unknown}" }', []),
        ('set = { "tp-size" = "{parallel.absent}" }', []),
        ('set = { "mem-fraction-static" = 0.00001 }', [("--mem-fraction-static", "0.00001", ())]),
        (
            'set = { "cuda-graph-bs-decode" = "{parallel.sizes}" }',
            [("--cuda-graph-bs-decode", "1", ("2",))],
        ),
        ('set_env = { NCCL_P2P_LEVEL = "SYS" }', [("NCCL_P2P_LEVEL", "SYS", ())]),
    ],
)
def test_values(line: str, expected: Any) -> None:
    if "cuda-graph-bs-decode" in line and CATALOGUE.find("cuda-graph-bs-decode") is None:
        expected = []
    assert words(rules(line)) == expected


def test_an_unknown_chooses_nothing() -> None:
    made = rules('set = { "tp-size" = 2 }', when='{ path = "hardware.arch", eq = "sm_90" }')
    assert words(made) == []


def test_what_was_measured_goes_before_what_is_concluded() -> None:
    inferred = rules('set = { "tp-size" = 1 }', id="a.first", kind="inferred")
    observed = rules('set = { "tp-size" = 2 }', id="z.last", kind="observed")
    assert [value for _, value, _ in words((*inferred, *observed))] == ["2", "1"]


def test_a_rule_that_does_not_choose_is_explained() -> None:
    made = rules('set = { "tp-size" = 2 }', when='{ path = "hardware.arch", eq = "sm_90" }')
    (answer,) = explain_rules(made, TREE, CATALOGUE, name="--tensor-parallel-size")
    assert answer.status is Status.UNKNOWN
    assert answer.missing == ("hardware.arch: no driver",)
    assert explain_rules(made, TREE, CATALOGUE, name="--port") == ()


@pytest.mark.parametrize(("stages", "line"), [("resolve", ""), ("plan", 'set = { "tp-size" = 2 }')])
def test_rules_that_choose_are_those_of_the_resolve_stage(stages: str, line: str) -> None:
    text = f"""
[[rule]]
id = "a.b"
title = "T"
severity = "note"
stages = ["{stages}"]
when = {{ path = "hardware.count", gt = 1 }}
{line}
summary = "s"
remedy = "r"
source = {{ kind = "documented", where = "here", date = "2026-11-30" }}
example = [{{ status = "fired", facts = {{}} }}, {{ status = "clear", facts = {{}} }}]
"""
    with pytest.raises(DataError, match="resolve stage"):
        parse_rules(text, origin="test")
