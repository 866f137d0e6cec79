"""The interfaces beside chat: correct engines keep them, and every switch of theirs is noticed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from stoker.contract.judgement import Judgement
from stoker.contract.run import Selection, judge_check, verify
from stoker.contract.selection import discover_checks
from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.fault import Fault
from stoker.fake_engine.faults.apis import FAULTS
from stoker.fake_engine.script import MANNERS, REASONING, USUAL_FEATURES, Delivery, Script
from stoker.model.contract import Exchange, Feature, Offer, Offered, Request, Subject, Verdict
from tests.contract.hand_made import REFUSALS, broken, raw, reply, subject_of, try_check
from tests.contract.trying import NAME, Recorder, WallClock

NEEDS = {
    "completions_api": Feature.COMPLETIONS,
    "responses_api": Feature.RESPONSES,
    "messages_api": Feature.MESSAGES,
}
CHECKS = {check.id: check for check in discover_checks()}
FEATURES: tuple[frozenset[str], ...] = (frozenset(), USUAL_FEATURES, USUAL_FEATURES | {REASONING})
#: Several tokens in a chunk, writes that end anywhere, comments in between.
ROUGH = Delivery(seed=7, most_tokens_per_chunk=3, most_writes_per_event=4, comment_rate=0.2)


def ask_engine(script: Script, *faults: Fault) -> Callable[[Request], Exchange]:
    core = Core(script)
    core.break_with(*faults)
    return DirectEndpoint(core).exchange


def engine(manners: str, **fields: Any) -> Script:
    return Script(manners=manners, names=(NAME,), **fields)


@pytest.mark.parametrize("check_id", NEEDS)
@pytest.mark.parametrize("manners", MANNERS)
@pytest.mark.parametrize("features", FEATURES, ids=lambda some: "+".join(sorted(some)) or "none")
@pytest.mark.parametrize("delivery", [Delivery(), ROUGH], ids=["plain", "rough"])
def test_a_correct_engine_keeps_them(
    check_id: str, manners: str, features: frozenset[str], delivery: Delivery
) -> None:
    script = engine(manners, features=features, delivery=delivery)
    judgement = try_check(check_id, ask_engine(script), subject_of(manners))
    assert judgement.verdict is Verdict.PASSED, judgement.found


@pytest.mark.parametrize("check_id", NEEDS)
@pytest.mark.parametrize("text", ["4.", "\u56db", "four \U0001f600", "yes\n\nno\n"])
def test_the_words_of_a_model_are_not_judged(check_id: str, text: str) -> None:
    script = engine("vllm", features=frozenset()).saying(text)
    judgement = try_check(check_id, ask_engine(script), subject_of("vllm"))
    assert judgement.verdict is Verdict.PASSED, judgement.found


OURS = [fault for fault in FAULTS if fault.killed_by & NEEDS.keys()]


@pytest.mark.parametrize("manners", MANNERS)
@pytest.mark.parametrize("fault", OURS, ids=lambda fault: fault.name)
def test_a_broken_promise_is_noticed(fault: Fault, manners: str) -> None:
    for check_id in fault.killed_by & NEEDS.keys():
        judgement = try_check(check_id, ask_engine(engine(manners), fault), subject_of(manners))
        assert judgement.verdict is Verdict.FAILED, judgement.found
        assert judgement.symptom
        assert judgement.expected


def test_every_check_has_switches() -> None:
    for check_id in (*NEEDS, "openai_client"):
        assert sum(check_id in fault.killed_by for fault in FAULTS) >= 2


def not_there(request: Request) -> Exchange:
    return raw(request, '{"detail":"Not Found"}', 404)


ABSENCES = (
    not_there,
    lambda request: raw(request, "", 405),
    lambda request: raw(request, "<html>no</html>", 501, "text/html"),
    lambda request: reply(
        request, {"error": {"message": "The model does not support Responses API"}}, 400
    ),
)


@pytest.mark.parametrize("check_id", NEEDS)
@pytest.mark.parametrize("serve", ABSENCES)
def test_what_is_not_there_is_no_broken_promise(
    check_id: str, serve: Callable[[Request], Exchange]
) -> None:
    assert try_check(check_id, serve).verdict is Verdict.SKIPPED
    promised = Offered(offer=Offer.PROMISED, reason="it is in the file")
    subject = Subject(published_name=NAME, features={NEEDS[check_id]: promised})
    judgement = try_check(check_id, serve, subject)
    assert (judgement.verdict, judgement.symptom) == (Verdict.FAILED, "api_missing")
    assert "it is in the file" in judgement.expected


@pytest.mark.parametrize("check_id", NEEDS)
@pytest.mark.parametrize("body", REFUSALS)
def test_an_error_of_the_server_is_one(check_id: str, body: Any) -> None:
    judgement = try_check(check_id, lambda request: reply(request, body, 500))
    assert judgement.verdict is Verdict.FAILED
    refused = try_check(check_id, lambda request: reply(request, body, 401))
    assert refused.symptom == "key_refused"


@pytest.mark.parametrize("check_id", NEEDS)
@pytest.mark.parametrize("kind", ["protocol", "timeout", "refused", "tls"])
def test_no_reply_at_all(check_id: str, kind: str) -> None:
    judgement = try_check(check_id, lambda request: broken(request, kind))
    wanted = Verdict.ERROR if kind in ("refused", "tls") else Verdict.FAILED
    assert judgement.verdict is wanted


def test_an_absent_interface_is_not_asked_for() -> None:
    absent = Offered(offer=Offer.ABSENT, reason="it is switched off")
    subject = Subject(published_name=NAME, features=dict.fromkeys(NEEDS.values(), absent))
    core = Core(engine("vllm"))
    result = verify(
        DirectEndpoint(core),
        name="a-deployment",
        subject=subject,
        clock=WallClock(),
        reporter=Recorder(),
        selection=Selection(level="full", only=tuple(NEEDS)),
    )
    assert {each.verdict for each in result.results} == {Verdict.SKIPPED}
    assert {each.found for each in result.results} == {"it is switched off"}


def without_tools(request: Request) -> Request:
    """The same question without its tools: what an engine sees whose template knows none."""
    body = dict(request.body or {})
    body.pop("tools", None)
    body.pop("tool_choice", None)
    return replace(request, body=body)


@pytest.mark.parametrize("check_id", ["responses_api", "messages_api"])
def test_tools_that_do_not_reach_the_model(check_id: str) -> None:
    ask = ask_engine(engine("vllm"))

    def serve(request: Request) -> Exchange:
        return replace(ask(without_tools(request)), request=request)

    judgement = try_check(check_id, serve)
    assert judgement.verdict is Verdict.PASSED
    assert "do not reach the model" in judgement.found
    promised = Offered(offer=Offer.PROMISED)
    subject = Subject(published_name=NAME, features={Feature.TOOLS: promised})
    judgement = try_check(check_id, serve, subject)
    assert (judgement.verdict, judgement.symptom) == (Verdict.FAILED, "tools_not_in_prompt")


@pytest.mark.parametrize("check_id", ["responses_api", "messages_api"])
def test_a_tool_that_was_required_and_is_not_called(check_id: str) -> None:
    ask, chatty = ask_engine(engine("vllm")), ask_engine(engine("vllm").saying("No idea."))

    def serve(request: Request) -> Exchange:
        if "tools" not in (request.body or {}):
            return ask(request)
        real = chatty(without_tools(request))
        return _with_longer_prompt(replace(real, request=request))

    judgement = try_check(check_id, serve)
    assert (judgement.verdict, judgement.symptom) == (Verdict.FAILED, "required_ignored")


def _with_longer_prompt(exchange: Exchange) -> Exchange:
    """The reply with a prompt of a hundred tokens more."""
    body = json.loads(exchange.body)
    body["usage"]["input_tokens"] += 100
    if "total_tokens" in body["usage"]:
        body["usage"]["total_tokens"] += 100
    return replace(exchange, body=json.dumps(body))


@pytest.mark.parametrize("check_id", NEEDS)
@pytest.mark.parametrize("manners", MANNERS)
def test_the_judges_are_total(check_id: str, manners: str) -> None:
    """Whatever stands at any place of a reply, there is a judgement and no exception."""
    chance = random.Random(f"{check_id}/{manners}")
    ask = ask_engine(engine(manners))
    for _ in range(150):
        judgement = try_check(check_id, lambda request: _spoil(ask(request), chance))
        assert isinstance(judgement, Judgement)


_ODD: Sequence[Any] = (None, True, -1, 7, 1.5, "", "word", "\ud800", [], [None], {}, {"a": []})


def _spoil(exchange: Exchange, chance: random.Random) -> Exchange:
    if chance.random() < 0.5:
        return exchange
    if not exchange.events:
        return replace(exchange, body=_spoil_text(exchange.body, chance))
    events = list(exchange.events)
    place = chance.randrange(len(events))
    events[place] = _spoil_text(events[place], chance)
    if chance.random() < 0.2:
        del events[chance.randrange(len(events))]
    return replace(exchange, events=tuple(events))


def _spoil_text(text: str, chance: random.Random) -> str:
    try:
        data = json.loads(text)
    except ValueError:
        return text
    return json.dumps(_spoil_data(data, chance))


def _spoil_data(data: Any, chance: random.Random) -> Any:
    """The data with one of its parts replaced or left out."""
    if not data or not isinstance(data, dict | list) or chance.random() < 0.15:
        return chance.choice(_ODD)
    if isinstance(data, list):
        place = chance.randrange(len(data))
        return [*data[:place], _spoil_data(data[place], chance), *data[place + 1 :]]
    name = chance.choice(list(data))
    if chance.random() < 0.2:
        return {key: value for key, value in data.items() if key != name}
    return {**data, name: _spoil_data(data[name], chance)}


@pytest.mark.parametrize("check_id", NEEDS)
def test_recordings_are_judged_alike(check_id: str) -> None:
    """The judge alone, given all exchanges, says what it said on the way."""
    exchanges: list[Exchange] = []
    ask, check = ask_engine(engine("sglang")), CHECKS[check_id]
    subject = subject_of("sglang")
    while batch := check.plan(subject, tuple(exchanges)):
        exchanges += map(ask, batch)
    assert judge_check(check, subject, exchanges).verdict is Verdict.PASSED
    assert judge_check(check, subject, exchanges[:1]).verdict is Verdict.SKIPPED
