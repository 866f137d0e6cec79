"""Loading rules and what they say about a tree."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.errors import DataError
from stoker.knowledge.conditions import list_paths
from stoker.knowledge.examples import build_example_tree, check_example
from stoker.knowledge.rules import evaluate_rules, load_rules, parse_rules
from stoker.knowledge.subjects import load_subjects, name_subject
from stoker.model.facts import Unknown
from stoker.model.finding import Finding, Severity, Status

RULE = """
[[rule]]
id = "test.too-hot"
title = "The machine is too hot"
severity = "block"
stages = ["plan"]
when = { path = "heat.degrees", gt = 90 }
summary = "it has {heat.degrees} degrees, {heat.free_bytes} are free on {heat.where}"
remedy = "open a window near {heat.where}"
change = { "serve.port" = "{heat.port}", "gpus" = "none" }
source = { kind = "observed", where = "our cellar", date = "2026-11-29" }
  [[rule.example]]
  status = "fired"
  facts = { "heat.degrees" = 95, "heat.free_bytes" = 1024, "heat.where" = "a, b" }
  says = "it has 95 degrees, 1.0 KiB are free on a, b"
  [[rule.example]]
  status = "clear"
  facts = { "heat.degrees" = 20 }
"""


def variant(old: str, new: str) -> str:
    assert old in RULE
    return RULE.replace(old, new)


def judge(tree: dict[str, Any], text: str = RULE, **options: Any) -> tuple[Finding, ...]:
    return evaluate_rules(parse_rules(text, origin="test"), tree, stage="plan", **options)


HOT: dict[str, Any] = {"heat": {"degrees": 95, "free_bytes": 1024, "where": ["a", "b"], "port": 7}}


def test_a_rule_that_fires_tells_everything() -> None:
    (finding,) = judge(HOT)
    assert finding.status is Status.FIRED
    assert finding.blocks
    assert finding.summary == "it has 95 degrees, 1.0 KiB are free on a, b"
    assert finding.remedy == "open a window near a, b"
    assert finding.change == {"serve.port": 7, "gpus": "none"}
    assert finding.evidence == {
        "heat.degrees": 95,
        "heat.free_bytes": 1024,
        "heat.where": ["a", "b"],
    }
    assert finding.source.where == "our cellar"


def test_sentences_in_a_list_are_told_apart() -> None:
    (finding,) = judge({"heat": {**HOT["heat"], "where": ["a, b or c", "d"]}})
    assert finding.remedy == "open a window near a, b or c; d"


def test_a_change_with_an_unknown_in_it_is_not_offered() -> None:
    (finding,) = judge({"heat": {**HOT["heat"], "port": Unknown(reason="none is free")}})
    assert finding.change == {}


def test_a_clear_rule_says_nothing() -> None:
    assert judge({"heat": {"degrees": 20}}) == ()


def test_a_blocking_rule_that_cannot_be_judged_names_what_is_missing() -> None:
    (finding,) = judge({"heat": Unknown(reason="no thermometer")})
    assert finding.status is Status.UNKNOWN
    assert not finding.blocks
    assert finding.missing == ("heat.degrees",)
    assert finding.summary == "cannot tell whether the machine is too hot: no thermometer"


def test_what_is_missing_is_told_in_words() -> None:
    text = variant("heat.degrees", "derived.memory.degrees")
    (finding,) = judge({"derived": Unknown(reason="denied")}, text)
    assert finding.missing == (load_subjects()["derived.memory"],)
    assert "derived" not in finding.summary
    named = variant("The machine is too hot", "GPUs are too hot")
    (finding,) = judge({"heat": Unknown(reason="denied")}, named)
    assert finding.summary == "cannot tell whether GPUs are too hot: denied"


def test_every_path_that_a_rule_reads_has_its_words() -> None:
    paths = {path for rule in load_rules() for path in list_paths(rule.when)}
    assert [path for path in paths if name_subject(path) == path] == []


GIVING_WAY = RULE + RULE.replace("test.too-hot", "test.burns").replace(
    "gt = 90", "gt = 80"
).replace("title =", 'unless = ["test.too-hot"]\ntitle =')


@pytest.mark.parametrize(
    ("degrees", "accept", "told"),
    [
        (95, set(), ["test.too-hot"]),
        (95, {"test.too-hot"}, ["test.burns", "test.too-hot"]),
        (85, set(), ["test.burns"]),
        (Unknown(reason="no thermometer"), set(), ["test.too-hot"]),
        (20, set(), []),
    ],
)
def test_a_rule_gives_way_to_one_that_says_it_better(
    degrees: Any, accept: set[str], told: list[str]
) -> None:
    findings = judge({"heat": {"degrees": degrees}}, GIVING_WAY, accept=accept)
    assert [finding.rule for finding in findings] == told


def test_a_warning_that_cannot_be_judged_says_nothing() -> None:
    assert judge({}, variant('severity = "block"', 'severity = "warning"')) == ()


def test_an_accepted_rule_fires_and_does_not_block() -> None:
    (finding,) = judge(HOT, accept={"test.too-hot"})
    assert (finding.status, finding.accepted, finding.blocks) == (Status.FIRED, True, False)


def test_rules_of_other_stages_and_engines_keep_silent() -> None:
    rules = parse_rules(RULE, origin="test")
    assert evaluate_rules(rules, HOT, stage="diagnose") == ()
    narrow = variant("title =", 'applies = ["sglang"]\ntitle =')
    assert judge(HOT, narrow) == ()
    served = {**HOT, "deployment": {"engine": {"kind": "sglang"}}}
    assert len(judge(served, narrow)) == 1


def test_findings_come_gravest_first() -> None:
    others = [
        RULE.replace("test.too-hot", name).replace('"block"', f'"{severity}"')
        for name, severity in [
            ("b.x", "note"),
            ("a.x", "note"),
            ("z.x", "warning"),
            ("y.x", "block"),
        ]
    ]
    assert [finding.rule for finding in judge(HOT, RULE + "".join(others))] == [
        "test.too-hot",
        "y.x",
        "z.x",
        "a.x",
        "b.x",
    ]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('status = "clear"', 'status = "unknown"', "one fired and one clear"),
        ('status = "fired"', 'status = "clear"', "one fired and one clear"),
        ('kind = "observed"', 'kind = "inferred"', "never block"),
        ('kind = "observed"', 'kind = "guessed"', "a source is one of"),
        (', date = "2026-11-29"', "", "needs its date"),
        ('kind = "observed"', 'kind = "documented"', ""),
        ('kind = "observed", where = "our cellar"', 'kind = "observed", where = ""', "where"),
        ('id = "test.too-hot"', 'id = "Too Hot"', "an id is"),
        ('["plan"]', '["later"]', "stages are some of"),
        ('["plan"]', "[]", "stages are some of"),
        ('severity = "block"', 'severity = "fatal"', "expected one of block, warning, note"),
        ('title = "The machine is too hot"', "", "missing key title"),
        ("title =", "colour = 1\ntitle =", "unknown key colour"),
        ('title = "The machine is too hot"', "title = 3", "expected str"),
        ("when = { path", "when = { pfad", "exactly one of"),
        ('when = { path = "heat.degrees", gt = 90 }', "", "a condition under when"),
        ('remedy = "open a window near {heat.where}"', 'remedy = ""', "a summary and a remedy"),
        ("[[rule]]", "[[rules]]", "[[rule]] blocks"),
        ("[[rule]]", "[[rule", "is not TOML"),
    ],
)
def test_a_malformed_rule_is_refused(old: str, new: str, complaint: str) -> None:
    text = variant(old, new)
    if not complaint:  # a documented source with a date is fine
        assert len(parse_rules(text, origin="test")) == 1
        return
    with pytest.raises(DataError, match="test") as error:
        parse_rules(text, origin="test")
    assert complaint in error.value.summary


def test_a_documented_source_needs_a_version_or_a_date() -> None:
    text = variant('kind = "observed"', 'kind = "documented"').replace(', date = "2026-11-29"', "")
    with pytest.raises(DataError, match="version or a date"):
        parse_rules(text, origin="test")


def test_examples_are_judged() -> None:
    (rule,) = parse_rules(RULE, origin="test")
    assert [check_example(rule, example) for example in rule.example] == ["", ""]
    (wrong,) = parse_rules(variant('"heat.degrees" = 95', '"heat.degrees" = 5'), origin="test")
    assert "expected fired, found clear" in check_example(wrong, wrong.example[0])
    (other,) = parse_rules(variant("says = ", 'says = "x" #'), origin="test")
    assert "expected the sentence 'x'" in check_example(other, other.example[0])
    (silent,) = parse_rules(
        variant(', "heat.where" = "a, b"', "").replace("says", "#"), origin="test"
    )
    assert "must give all values" in check_example(silent, silent.example[0])


def test_example_facts_become_a_tree() -> None:
    facts = {"a.b.c": 1, "a.b.d": {"e": "@null"}, "f": ["@null"]}
    assert build_example_tree(facts) == {"a": {"b": {"c": 1, "d": {"e": None}}}, "f": ["@null"]}
    with pytest.raises(DataError, match="goes through a value"):
        build_example_tree({"a": 1, "a.b": 2})


def test_rules_that_only_infer_never_block() -> None:
    inferred = [rule for rule in load_rules() if rule.source.kind == "inferred"]
    assert inferred
    assert not [rule.id for rule in inferred if rule.severity is Severity.BLOCK]
