"""Running the contract: which checks, in which order, and what is kept of them."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field, replace

import pytest

from stoker.contract.evidence import EVIDENCE_BYTES
from stoker.contract.selection import FULL, LEVELS, QUICK, SOAK, discover_checks, select_checks
from stoker.endpoints.http import HttpEndpoint
from stoker.errors import UsageError
from stoker.fake_engine.script import Fixed, Script
from stoker.fake_engine.server import EngineServer
from stoker.model.contract import Exchange, Request, Verdict
from stoker.model.event import EventKind
from tests.contract.trying import Recorder, try_contract

QUICK_CHECKS = ["chat_answer", "published_name", "stream_ends_done", "usage_adds_up"]


def ids(checks: tuple[object, ...]) -> list[str]:
    return [check.id for check in checks]  # type: ignore[attr-defined]


# --- which checks ---


def test_levels_have_an_order() -> None:
    assert LEVELS == (QUICK, FULL, SOAK)


def test_the_quick_checks_come_first() -> None:
    checks = discover_checks()
    quick = [check.id for check in checks if check.level == QUICK]
    assert ids(checks)[: len(quick)] == quick == sorted(quick)
    assert set(QUICK_CHECKS) <= set(quick)
    assert all(check.title for check in checks)


OFFERED = [level for level in LEVELS if level in {each.level for each in discover_checks()}]


@pytest.mark.parametrize("level", sorted(set(LEVELS) - set(OFFERED)))
def test_a_level_without_checks_of_its_own_is_not_offered(level: str) -> None:
    """`verify --level full` must not pass with the quick checks alone."""
    with pytest.raises(UsageError, match=f"no level {level}"):
        select_checks(level)


@pytest.mark.parametrize("level", OFFERED)
def test_a_level_holds_the_levels_before_it(level: str) -> None:
    levels = {check.level for check in select_checks(level)}
    assert levels <= set(LEVELS[: LEVELS.index(level) + 1])
    assert set(QUICK_CHECKS) <= set(ids(select_checks(level)))


def test_named_checks_are_taken_once_and_in_the_usual_order() -> None:
    named = ("usage_adds_up", "chat_answer", "chat_answer")
    assert ids(select_checks(QUICK, named)) == ["chat_answer", "usage_adds_up"]
    assert ids(select_checks(QUICK, (), named)) == ["chat_answer", "usage_adds_up"]


def test_only_goes_before_require() -> None:
    assert ids(select_checks(QUICK, ["chat_answer"], ["usage_adds_up"])) == ["chat_answer"]


def test_an_unknown_check_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        select_checks(QUICK, ["chat_anwser"])
    assert "chat_anwser" in caught.value.summary
    assert "did you mean chat_answer?" in caught.value.hint
    with pytest.raises(UsageError, match="there is no check xyz"):
        select_checks(QUICK, (), ["xyz"])


def test_an_unknown_level_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        select_checks("quik")
    assert "did you mean quick?" in caught.value.hint


def test_to_require_nothing_is_refused() -> None:
    with pytest.raises(UsageError):
        select_checks(QUICK, (), [])


# --- what comes out ---


def test_a_verification_tells_what_was_tried() -> None:
    recorder = Recorder()
    with EngineServer(Script().saying("It is 4.")) as server:
        endpoint = HttpEndpoint(server.host, server.port)
        verification = try_contract(endpoint, only=QUICK_CHECKS, reporter=recorder)
    assert verification.has_passed
    assert (verification.name, verification.level) == ("a-deployment", QUICK)
    assert verification.url == endpoint.url
    assert verification.answer == "It is 4."
    assert verification.at_seconds > 0
    assert [result.check for result in verification.results] == QUICK_CHECKS
    assert all(result.exchanges == () for result in verification.results)
    assert all(result.expected and result.found for result in verification.results)


def test_every_check_is_an_event() -> None:
    recorder = Recorder()
    script = Script(fixed=Fixed(prompt_tokens=37))
    with EngineServer(script, fault="usage_off_by_one") as server:
        endpoint = HttpEndpoint(server.host, server.port)
        try_contract(endpoint, only=QUICK_CHECKS, reporter=recorder)
    assert [event.subject for event in recorder.events] == QUICK_CHECKS
    assert {event.kind for event in recorder.events} == {EventKind.CHECK}
    assert [event.fraction for event in recorder.events] == [0.25, 0.5, 0.75, 1.0]
    assert [event.data["verdict"] for event in recorder.events] == ["passed"] * 3 + ["failed"]
    assert "37 of the prompt" in recorder.events[-1].text
    assert json.dumps([event.data for event in recorder.events])


def test_a_failure_keeps_its_exchanges() -> None:
    with EngineServer(fault="usage_off_by_one") as server:
        endpoint = HttpEndpoint(server.host, server.port)
        verification = try_contract(endpoint, only=QUICK_CHECKS)
    evidence = {result.check: len(result.exchanges) for result in verification.results}
    assert evidence == {**dict.fromkeys(QUICK_CHECKS, 0), "usage_adds_up": 2}


@pytest.mark.parametrize("fault", ["too_large", "no_done"])
def test_evidence_is_bounded(fault: str) -> None:
    script = Script().saying("a bc " * 16 + "d" * 9_000_000)
    with EngineServer(script, fault=fault) as server:
        verification = try_contract(HttpEndpoint(server.host, server.port))
    assert not verification.has_passed
    for result in verification.results:
        for exchange in result.exchanges:
            kept = exchange.body + "".join(exchange.events)
            assert len(kept.encode()) <= EVIDENCE_BYTES + 100
    assert len(verification.answer.encode()) <= EVIDENCE_BYTES


def test_evidence_of_a_long_stream_is_both_of_its_ends() -> None:
    endpoint = Canned(events=tuple(f'{{"number": {number}}}' for number in range(10_000)))
    (result,) = try_contract(endpoint, only=["stream_ends_done"]).results
    events = result.exchanges[1].events
    assert events[0] == '{"number": 0}'
    assert events[-1] == '{"number": 9999}'
    (note,) = (event for event in events if "left out" in event)
    assert note == f"[{10_000 - len(events) + 1} events left out]"


def test_evidence_of_a_huge_event_is_its_beginning() -> None:
    endpoint = Canned(events=("\u00e4" * 1_000_000,))
    (result,) = try_contract(endpoint, only=["stream_ends_done"]).results
    (event,) = result.exchanges[1].events
    assert event.startswith("\u00e4\u00e4\u00e4")
    assert event.endswith("[cut: 2000000 bytes in all]")


def test_the_answer_is_text_that_every_file_takes() -> None:
    body = json.dumps({"choices": [{"message": {"content": "half \ud83d"}}]})
    verification = try_contract(Canned(body=body), only=["chat_answer"])
    assert verification.answer == "half ?"


def test_the_answer_of_a_failed_check_is_told_too() -> None:
    with EngineServer(fault="one_character") as server:
        verification = try_contract(HttpEndpoint(server.host, server.port))
    assert verification.answer.startswith("!!!!")


def test_without_the_chat_check_there_is_no_answer() -> None:
    with EngineServer() as server:
        endpoint = HttpEndpoint(server.host, server.port)
        assert try_contract(endpoint, only=["published_name"]).answer == ""


# --- a server that is not there ---


@dataclass
class Canned:
    """An endpoint that always gives the same reply, and breaks down after so many."""

    body: str = ""
    events: tuple[str, ...] = ()
    replies: int = 1000
    asked: list[Request] = field(default_factory=list)
    url: str = "http://127.0.0.1:1"

    def exchange(self, request: Request) -> Exchange:
        self.asked.append(request)
        if len(self.asked) > self.replies:
            return Exchange(request=request, error="nobody listens", error_kind="refused")
        exchange = Exchange(request=request, status=200, body=self.body)
        return replace(exchange, events=self.events) if request.stream else exchange


def test_a_server_that_cannot_be_reached_is_asked_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    recorder = Recorder()
    endpoint = HttpEndpoint("127.0.0.1", port)
    verification = try_contract(endpoint, only=QUICK_CHECKS, reporter=recorder)
    first, *rest = verification.results
    assert first.verdict is Verdict.ERROR
    assert "no connection" in first.found
    assert len(first.exchanges) == 1
    assert {result.verdict for result in rest} == {Verdict.SKIPPED}
    assert {result.found for result in rest} == {"the server could not be reached"}
    assert not verification.has_passed
    assert verification.answer == ""
    assert len(recorder.events) == len(QUICK_CHECKS)


def test_a_server_that_dies_between_two_requests_is_not_judged() -> None:
    endpoint = Canned(replies=2)
    results = try_contract(endpoint, only=QUICK_CHECKS).results
    verdicts = [result.verdict for result in results]
    assert verdicts == [Verdict.FAILED, Verdict.ERROR, Verdict.SKIPPED, Verdict.SKIPPED]
    assert len(endpoint.asked) == 3
