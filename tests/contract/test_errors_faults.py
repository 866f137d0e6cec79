"""Correct engines in every manner keep these promises, and each broken one is noticed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from stoker.endpoints.http import HttpEndpoint
from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.fault import Fault
from stoker.fake_engine.faults import errors, structure
from stoker.fake_engine.script import LLAMACPP, MANNERS, Script, Timing
from stoker.fake_engine.server import EngineServer
from stoker.model.contract import CheckResult, Feature, Offer, Offered, Subject, Verdict
from tests.contract.hand_made import subject_of
from tests.contract.test_errors_total import CHECKS
from tests.contract.trying import NAME, try_contract

KEY = "k3y-0f-the-0wner"
FAULTS = errors.FAULTS + structure.FAULTS

#: llama.cpp has no field for it.
ABSENT = {LLAMACPP: {"regex_followed"}}


def script_of(kind: str, *, seconds_per_token: float = 0.0) -> Script:
    timing = Timing(seconds_per_token=seconds_per_token)
    return Script(names=(NAME,), manners=kind, api_key=KEY, timing=timing)


def subject(kind: str) -> Subject:
    features = {Feature.KEY: Offered(offer=Offer.PROMISED, reason="a key is set")}
    return subject_of(kind, context_tokens=2048, parallel_requests=4, features=features)


def try_directly(
    kind: str, *faults: Fault, only: Collection[str] = CHECKS
) -> tuple[CheckResult, ...]:
    endpoint = DirectEndpoint(Core(script_of(kind), faults=faults))
    return try_contract(endpoint, only=only, subject=subject(kind), level="full").results


def try_over_http(kind: str, fault: Fault | None = None, *, check: str) -> CheckResult:
    script = script_of(kind, seconds_per_token=0.002)
    with EngineServer(script, fault=fault) as server:
        endpoint = HttpEndpoint(server.host, server.port, api_key=KEY)
        verification = try_contract(endpoint, only=[check], subject=subject(kind), level="full")
    (result,) = verification.results
    return result


@pytest.mark.parametrize("kind", MANNERS)
def test_a_correct_engine_keeps_every_promise(kind: str) -> None:
    for result in try_directly(kind):
        is_absent = result.check in ABSENT.get(kind, ())
        expected = Verdict.SKIPPED if is_absent else Verdict.PASSED
        assert result.verdict is expected, result


@pytest.mark.parametrize("kind", MANNERS)
@pytest.mark.parametrize(
    "fault", [each for each in FAULTS if not each.script], ids=lambda fault: fault.name
)
def test_every_fault_is_noticed(fault: Fault, kind: str) -> None:
    checks = fault.killed_by - ABSENT.get(kind, set())
    # An empty choice of checks would stand for all of them.
    for result in try_directly(kind, fault, only=checks) if checks else ():
        assert result.verdict is Verdict.FAILED, result
        assert result.symptom


@pytest.mark.parametrize("kind", MANNERS)
def test_a_correct_engine_frees_the_place_of_a_client_that_has_gone(kind: str) -> None:
    assert try_over_http(kind, check="cancel_frees_slot").verdict is Verdict.PASSED


@pytest.mark.parametrize("kind", MANNERS)
@pytest.mark.parametrize(
    "fault", [each for each in FAULTS if each.script], ids=lambda fault: fault.name
)
def test_a_client_that_has_gone_and_keeps_its_place_is_noticed(fault: Fault, kind: str) -> None:
    (check,) = fault.killed_by
    result = try_over_http(kind, fault, check=check)
    assert (result.verdict, result.symptom) == (Verdict.FAILED, "cancel_ignored"), result


def test_every_check_is_killed_by_two_faults() -> None:
    killers = {check: [each for each in FAULTS if check in each.killed_by] for check in CHECKS}
    assert all(len(faults) >= 2 for faults in killers.values()), killers


def test_without_a_gauge_the_wait_tells() -> None:
    """Every place is taken by somebody who has gone."""
    fault = next(each for each in FAULTS if each.name == "cancel_ignored")
    blind = replace(subject(LLAMACPP), manners=replace(subject(LLAMACPP).manners, running=()))
    script = replace(script_of(LLAMACPP), timing=Timing(seconds_per_token=0.002))
    for each, verdict in ((fault, Verdict.FAILED), (None, Verdict.PASSED)):
        with EngineServer(script, fault=each) as server:
            endpoint = HttpEndpoint(server.host, server.port, api_key=KEY)
            found = try_contract(endpoint, only=["cancel_frees_slot"], subject=blind, level="full")
        assert found.results[0].verdict is verdict, found.results[0]
