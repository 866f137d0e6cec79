"""The contract has teeth: the correct server passes, and every broken promise is noticed.

The table names exactly the checks that fail for each fault, so a check that grows blind shows,
and so does one that complains about what is another's matter.
"""

from __future__ import annotations

import pytest

from stoker.contract.selection import discover_checks
from stoker.endpoints.http import HttpEndpoint
from stoker.model.contract import CheckResult, Verdict, Verification
from tests.contract.trying import NAME, Impatient, try_contract
from tests.fakes.engine_replies import Engine, Fault
from tests.fakes.engine_server import EngineServer

NAMED = {"published_name"}
CHAT = {"chat_answer"}
STREAM = {"stream_ends_done"}
USAGE = {"usage_adds_up"}
ALL = NAMED | CHAT | STREAM | USAGE

#: A correct server never needs it; a fault that never ends always does.
TIMEOUT_SECONDS = 10.0
ENDLESS = {Fault.SLOW_DRIP: 0.15}

KILLED_BY: dict[Fault, set[str]] = {
    Fault.NAMED_AFTER_FILE: NAMED,
    Fault.ANOTHER_NAME: NAMED,
    Fault.NO_MODELS: NAMED,
    Fault.NO_LIST: NAMED,
    Fault.LIST_NOT_FOUND: NAMED,
    Fault.PATH_IN_REPLY: NAMED,
    Fault.NO_NAME_IN_REPLY: NAMED,
    Fault.EMPTY_ANSWER: CHAT | STREAM | USAGE,
    Fault.ONE_CHARACTER: CHAT | STREAM,
    Fault.NAN: CHAT | STREAM,
    Fault.REPLACED_CHARACTER: CHAT | STREAM,
    Fault.HALF_CHARACTER: CHAT | STREAM,
    Fault.ABORTED: CHAT | STREAM,
    Fault.ANOTHER_SHAPE: CHAT,
    Fault.NO_ID: CHAT,
    Fault.NO_CHOICES: CHAT,
    Fault.CONTENT_IN_PARTS: CHAT,
    Fault.ANOTHER_ROLE: CHAT,
    Fault.NO_FINISH_REASON: CHAT,
    Fault.NO_USAGE: USAGE,
    Fault.USAGE_OFF_BY_ONE: USAGE,
    Fault.USAGE_AS_TEXT: USAGE,
    Fault.TOO_MANY_TOKENS: USAGE,
    Fault.NAN_IN_JSON: CHAT | USAGE,
    Fault.NOT_UTF8: CHAT | STREAM | USAGE,
    Fault.NOT_STREAMED: STREAM,
    Fault.NO_EVENTS: STREAM,
    Fault.NO_DONE: STREAM,
    Fault.DONE_TWICE: STREAM,
    Fault.TEXT_AFTER_DONE: STREAM,
    Fault.ENDS_EARLY: STREAM,
    Fault.BREAKS_OFF: STREAM | USAGE,
    Fault.BROKEN_EVENT: STREAM,
    Fault.ERROR_EVENT: STREAM,
    Fault.PLAIN_CHUNKS: STREAM,
    Fault.NO_ROLE: STREAM,
    Fault.NO_ENDING: STREAM,
    Fault.NO_WORDS: STREAM,
    Fault.OTHER_FIELD: STREAM,
    Fault.STREAM_USAGE_OFF_BY_ONE: USAGE,
    Fault.HTML_PAGE: ALL,
    Fault.SERVER_ERROR: CHAT | STREAM | USAGE,
    Fault.REDIRECT: ALL,
    Fault.PACKED: ALL,
    Fault.CLOSES_AT_ONCE: ALL,
    Fault.GARBAGE: ALL,
    Fault.SLOW_DRIP: ALL,
    Fault.ENDLESS: ALL,
    Fault.TOO_LARGE: ALL,
}


def try_server(server: EngineServer, *, timeout_seconds: float = TIMEOUT_SECONDS) -> Verification:
    endpoint = HttpEndpoint(server.host, server.port, api_key=server.api_key)
    return try_contract(Impatient(endpoint, timeout_seconds))


def failures(verification: Verification) -> dict[str, CheckResult]:
    return {
        result.check: result
        for result in verification.results
        if result.verdict is not Verdict.PASSED
    }


@pytest.mark.parametrize(
    "engine",
    [
        Engine(),
        Engine(names=("another", NAME)),
        Engine(text="4"),
        Engine(text="..."),
        Engine(text="= " * 3),
        Engine(text="four " * 40),
        Engine(text="2 + 2 = 4 \U0001f468\u200d\U0001f469 \u0645\u0631\u062d\u0628\u0627"),
        Engine(text="4.", reasoning="Two and two are four."),
        Engine(text="4.", reasoning="hmm " * 40),
        Engine(text="4.", extra={"matched_stop": 2}),
        Engine(text="4.", extra={"stop_reason": None}),
    ],
    ids=lambda engine: f"{engine.text[:12]}/{engine.reasoning[:4]}/{len(engine.extra)}",
)
def test_a_correct_server_keeps_every_promise(engine: Engine) -> None:
    with EngineServer(engine) as server:
        verification = try_server(server)
    assert failures(verification) == {}
    assert verification.has_passed


def test_a_correct_server_with_a_key_keeps_every_promise() -> None:
    with EngineServer(api_key="sk-secret") as server:
        assert failures(try_server(server)) == {}


def test_without_the_key_every_promise_is_broken() -> None:
    with EngineServer(api_key="sk-secret") as server:
        found = failures(try_contract(HttpEndpoint(server.host, server.port)))
    assert found.keys() == ALL
    assert all("wants an API key" in result.found for result in found.values())


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name)
def test_a_broken_promise_is_noticed_by_its_checks(fault: Fault) -> None:
    with EngineServer(fault=fault) as server:
        verification = try_server(server, timeout_seconds=ENDLESS.get(fault, TIMEOUT_SECONDS))
    found = failures(verification)
    assert found.keys() == KILLED_BY[fault]
    assert {result.verdict for result in found.values()} == {Verdict.FAILED}
    assert all(result.expected and result.found for result in found.values())
    assert all(result.exchanges for result in found.values())
    assert not verification.has_passed


def test_every_check_notices_something() -> None:
    assert {check.id for check in discover_checks()} == set().union(*KILLED_BY.values())
