"""The contract has teeth: correct servers pass, and every broken promise is noticed.

Each switch of the fake engine names the checks that must fail on it. They are tried over real HTTP,
in the manners of each engine until one of them shows the fault: some can be broken by one only.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.commands.openai_client import with_clients
from stoker.contract.selection import FULL, LEVELS, QUICK, discover_checks
from stoker.endpoints.http import HttpEndpoint
from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.fault import Fault
from stoker.fake_engine.faults.basic import FAULTS as BASIC
from stoker.fake_engine.script import (
    ALL_FEATURES,
    MANNERS,
    SGLANG,
    USUAL_FEATURES,
    Delivery,
    Limits,
    Script,
    Timing,
)
from stoker.fake_engine.server import EngineServer
from stoker.fake_engine.switches import discover_faults
from stoker.model.contract import (
    CheckResult,
    Offer,
    Offered,
    Subject,
    Verdict,
    Verification,
)
from stoker.ports import Endpoint
from tests.commands.client_environment import client_world
from tests.contract.trying import NAME, Impatient, subject_of, try_contract

#: The first fault of the client library may download it.
pytestmark = pytest.mark.timeout(180)

CHECKS = {check.id: check for check in discover_checks()}
FAULTS = discover_faults()

#: What every one of the basic faults is judged by, exactly.
FIRST = {"published_name", "chat_answer", "stream_ends_done", "usage_adds_up"}
HIGHEST = LEVELS[-1]

#: A correct server never needs it; a fault that never ends always does.
TIMEOUT_SECONDS = 10.0
ENDLESS = {"slow_drip": 0.15, "never_answers": 0.15, "client_stream_hangs": 8.0}

#: The one check whose requests go through a client library; its faults need the real one.
CLIENT_CHECK = "openai_client"

#: How a server is set up and known; a fault has to show in one of these ways.
WAYS = ((USUAL_FEATURES, False), (ALL_FEATURES, False), (ALL_FEATURES, True))

RUNS = 200 if os.environ.get("FULL") else 40
#: For all of them: one takes about three seconds, and more on a machine that has other work.
RUNS_SECONDS = 20 * RUNS


def try_server(
    server: EngineServer,
    *,
    only: Collection[str] = (),
    level: str = QUICK,
    subject: Subject | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Verification:
    key = server.script.api_key
    endpoint: Endpoint = HttpEndpoint(server.host, server.port, api_key=key)
    if CLIENT_CHECK in only:
        endpoint = with_clients(client_world(), endpoint, url=server.url, key=key)
    patient = Impatient(endpoint, timeout_seconds)
    return try_contract(patient, only=only, level=level, subject=subject)


def failures(verification: Verification) -> dict[str, CheckResult]:
    return {
        result.check: result
        for result in verification.results
        if result.verdict not in (Verdict.PASSED, Verdict.SKIPPED)
    }


def assert_well(verification: Verification, script: Script, *, is_known: bool) -> None:
    """No check fails, but for what an engine is known to do wrong where nobody knows the engine."""
    stumbles = {"errors_malformed"} if script.manners == SGLANG and not is_known else set()
    found = failures(verification)
    assert found.keys() <= stumbles, {name: result.found for name, result in found.items()}
    assert stumbles or verification.has_passed


def try_fault(
    fault: Fault,
    manners: str,
    only: Collection[str],
    *,
    features: frozenset[str] = USUAL_FEATURES,
    is_promised: bool = False,
) -> Verification:
    """The checks on a server that is broken this way, which its owner does not know.

    ``is_promised``: what the checks need is what the owner has set the server up for.
    """
    script = Script(
        manners=manners, features=features, api_key="sk-secret", limits=Limits(context_tokens=8192)
    )
    needed = {feature for check in only for feature in CHECKS[check].needs} if is_promised else ()
    promised: dict[str, Offered] = {
        feature: Offered(offer=Offer.PROMISED, reason="it is set") for feature in needed
    }
    with EngineServer(script, fault=fault) as server:
        return try_server(
            server,
            only=only,
            level=fault.level,
            subject=replace(subject_of(script), features=promised),
            timeout_seconds=ENDLESS.get(fault.name, TIMEOUT_SECONDS),
        )


# --- correct servers ---


SAYINGS = {
    "own words": Script(),
    "a second name": Script(names=("another", NAME)),
    "a digit": Script().saying("4"),
    "dots": Script().saying("..."),
    "signs": Script().saying("= " * 3),
    "much": Script().saying("four " * 40),
    "characters": Script().saying("2 + 2 = 4 \U0001f468\u200d\U0001f469 \u0645\u0631\u062d\u0628"),
    "thoughts": Script().saying("4.", reasoning="Two and two are four."),
    "long thoughts": Script().saying("4.", reasoning="hmm " * 40),
    "a note": Script().saying("4.", extra={"matched_stop": 2}),
    "an empty note": Script().saying("4.", extra={"stop_reason": None}),
}


@pytest.mark.parametrize("manners", MANNERS)
@pytest.mark.parametrize("script", SAYINGS.values(), ids=SAYINGS)
def test_whatever_a_correct_server_says_is_no_broken_promise(script: Script, manners: str) -> None:
    with EngineServer(replace(script, manners=manners)) as server:
        verification = try_server(server, only=FIRST)
    assert failures(verification) == {}
    assert verification.has_passed


@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("features", [USUAL_FEATURES, ALL_FEATURES, frozenset()], ids=len)
@pytest.mark.parametrize("manners", MANNERS)
def test_a_correct_server_keeps_every_promise(
    manners: str, features: frozenset[str], *, is_known: bool
) -> None:
    script = Script(manners=manners, features=features, limits=Limits(context_tokens=8192))
    with EngineServer(script) as server:
        subject = subject_of(script) if is_known else None
        verification = try_server(server, level=HIGHEST_TRIED, subject=subject)
    assert_well(verification, script, is_known=is_known)


#: A soak takes its time; what it is made of is tried by tests of its own.
HIGHEST_TRIED = FULL if any(check.level == FULL for check in CHECKS.values()) else QUICK


@pytest.mark.parametrize("manners", MANNERS)
def test_a_correct_server_with_a_key_keeps_every_promise(manners: str) -> None:
    script = Script(manners=manners, api_key="sk-secret", limits=Limits(context_tokens=8192))
    with EngineServer(script) as server:
        found = try_server(server, level=HIGHEST_TRIED, subject=subject_of(script))
    assert failures(found) == {}


@pytest.mark.parametrize("manners", MANNERS)
def test_without_the_key_every_promise_is_broken(manners: str) -> None:
    with EngineServer(Script(manners=manners, api_key="sk-secret")) as server:
        found = failures(try_contract(HttpEndpoint(server.host, server.port), only=FIRST))
    assert found.keys() == FIRST
    assert all("wants an API key" in result.found for result in found.values())


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Correct servers of every kind, in other words, at other times and cut in other places."""
    delivery = Delivery(
        seed=draw(st.integers(0, 1 << 16)),
        most_tokens_per_chunk=draw(st.integers(1, 8)),
        most_writes_per_event=draw(st.integers(1, 4)),
        comment_rate=draw(st.sampled_from((0.0, 0.3))),
        pause_seconds=draw(st.sampled_from((0.0, 0.01))),
    )
    timing = Timing(
        first_token_seconds=draw(st.floats(0, 0.5)),
        seconds_per_token=draw(st.floats(0, 0.03)),
    )
    chosen = draw(st.sets(st.sampled_from(sorted(ALL_FEATURES))))
    return Script(
        manners=draw(st.sampled_from(MANNERS)),
        features=frozenset(chosen),
        delivery=delivery,
        timing=timing,
        limits=Limits(context_tokens=draw(st.sampled_from((4096, 8192, 32768)))),
        api_key=draw(st.sampled_from(("", "sk-secret"))),
        seed=draw(st.integers(0, 1 << 16)),
    )


@pytest.mark.timeout(RUNS_SECONDS)
@given(scripts(), st.booleans())
@settings(
    max_examples=RUNS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_no_correct_server_raises_an_alarm(script: Script, is_known: bool) -> None:
    subject = subject_of(script) if is_known else None
    endpoint = DirectEndpoint(Core(script))
    verification = try_contract(endpoint, level=HIGHEST_TRIED, subject=subject)
    assert_well(verification, script, is_known=is_known)


# --- broken servers ---


@pytest.mark.parametrize("fault", BASIC, ids=lambda fault: fault.name)
def test_a_basic_fault_breaks_its_promises_and_no_others(fault: Fault) -> None:
    verification = try_fault(fault, MANNERS[-1], FIRST)
    found = failures(verification)
    assert found.keys() == fault.killed_by & FIRST
    assert {result.verdict for result in found.values()} <= {Verdict.FAILED}
    assert all(result.expected and result.found for result in found.values())
    assert all(result.exchanges for result in found.values())
    assert not verification.has_passed or not fault.killed_by & FIRST


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_broken_promise_is_noticed_by_its_checks(fault: Fault) -> None:
    missed: dict[str, object] = {}
    for (features, is_promised), manners in product(WAYS, reversed(MANNERS)):
        verification = try_fault(
            fault, manners, fault.killed_by, features=features, is_promised=is_promised
        )
        found = failures(verification)
        if fault.killed_by <= found.keys():
            assert {result.verdict for result in found.values()} == {Verdict.FAILED}
            assert all(result.expected and result.found for result in found.values())
            assert all(result.exchanges for result in found.values())
            assert not verification.has_passed
            return
        missed[f"{manners}/{len(features)}/{is_promised}"] = {
            result.check: result.found
            for result in verification.results
            if result.check not in found
        }
    pytest.fail(f"{fault.name} ({fault.title}) was not noticed: {missed}")


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_names_checks_that_are_tried_at_its_level(fault: Fault) -> None:
    assert fault.killed_by
    assert fault.killed_by <= CHECKS.keys()
    highest = LEVELS.index(fault.level)
    assert all(LEVELS.index(CHECKS[check].level) <= highest for check in fault.killed_by)
    assert fault.title
    assert fault.title[0].islower() or not fault.title[0].isalpha() or fault.title[1].isupper()


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_notices_something(check: str) -> None:
    assert any(check in fault.killed_by for fault in FAULTS.values())
