"""Correct engines in every manner call tools and think as promised; each fault is noticed."""

from __future__ import annotations

from collections import Counter

import pytest

from stoker.fake_engine.fault import Fault
from stoker.fake_engine.faults import reasoning, tool_streams, tools
from stoker.fake_engine.script import MANNERS, REASONING, TOOLS, USUAL_FEATURES
from stoker.model.contract import Verdict
from tests.contract.tool_trying import PROMISED, REASONING_CHECKS, TOOL_CHECKS, try_fake

CHECKS = TOOL_CHECKS + REASONING_CHECKS
CALL_FAULTS = tools.FAULTS + tool_streams.FAULTS
FAULTS = CALL_FAULTS + reasoning.FAULTS


@pytest.mark.parametrize("kind", MANNERS)
@pytest.mark.parametrize("is_promised", [True, False])
def test_a_correct_engine_that_thinks_keeps_every_promise(kind: str, is_promised: bool) -> None:
    for result in try_fake(kind, only=CHECKS, promised=PROMISED if is_promised else ()):
        assert result.verdict is Verdict.PASSED, result


@pytest.mark.parametrize("kind", MANNERS)
@pytest.mark.parametrize("is_promised", [True, False])
def test_a_correct_engine_without_thoughts_breaks_none(kind: str, is_promised: bool) -> None:
    promised = PROMISED if is_promised else ()
    for result in try_fake(kind, only=CHECKS, features=USUAL_FEATURES, promised=promised):
        skips = result.check.startswith("reasoning_") and result.verdict is Verdict.SKIPPED
        assert skips or result.verdict is Verdict.PASSED, result


@pytest.mark.parametrize("kind", MANNERS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_is_noticed(fault: Fault, kind: str) -> None:
    for result in try_fake(kind, fault, only=sorted(fault.killed_by)):
        assert result.verdict is Verdict.FAILED, result
        assert result.symptom
        assert result.expected


@pytest.mark.parametrize("kind", MANNERS)
@pytest.mark.parametrize("fault", CALL_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_noticed_where_nobody_promised_anything(fault: Fault, kind: str) -> None:
    features = USUAL_FEATURES
    for result in try_fake(
        kind, fault, only=sorted(fault.killed_by), features=features, promised=()
    ):
        # Thoughts that hold a call are seen on a server that shows thoughts alone.
        assert result.verdict is Verdict.FAILED, result


@pytest.mark.parametrize("fault", CALL_FAULTS, ids=lambda fault: fault.name)
def test_what_calls_have_wrong_is_no_matter_of_thoughts(fault: Fault) -> None:
    for result in try_fake("sglang", fault, only=REASONING_CHECKS):
        assert result.verdict is not Verdict.FAILED, result


def test_every_check_is_killed_by_a_fault() -> None:
    kills = Counter(check for fault in FAULTS for check in fault.killed_by)
    assert {check: kills[check] for check in CHECKS if not kills[check]} == {}


@pytest.mark.parametrize("kind", MANNERS)
def test_a_model_that_never_calls_is_no_broken_auto(kind: str) -> None:
    (result,) = try_fake(kind, only=["tools_auto"], features=frozenset({REASONING}), promised=())
    assert result.verdict is Verdict.SKIPPED, result


@pytest.mark.parametrize("kind", MANNERS)
def test_a_required_call_that_never_comes_is_broken(kind: str) -> None:
    features = USUAL_FEATURES - {TOOLS}
    (result,) = try_fake(kind, only=["tools_called"], features=features, promised=())
    assert result.verdict in (Verdict.FAILED, Verdict.SKIPPED), result


@pytest.mark.parametrize("kind", MANNERS)
@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("calls_as_text", "writes-like-hermes"),
        ("calls_as_kimi_text", "kimi-k2"),
        ("calls_as_coder_text", "writes-like-qwen3-coder"),
        ("calls_as_bare_json", "llama-3"),
        ("thoughts_in_content", "qwen3"),
        ("thoughts_end_in_content", "qwen3-thinking"),
        ("thoughts_of_mistral", "mistral-thinking"),
    ],
)
def test_the_family_is_named(kind: str, name: str, family: str) -> None:
    fault = next(each for each in FAULTS if each.name == name)
    results = try_fake(kind, fault, only=sorted(fault.killed_by))
    assert {result.details["family"] for result in results} == {family}
