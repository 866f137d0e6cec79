"""What a client library said, judged: pure, from answers as the door to it gives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from stoker.model.contract import Exchange, Feature, Offer, Offered, Request, Subject, Verdict
from tests.contract.hand_made import reply, try_check
from tests.contract.trying import NAME

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
CHAT = {"text": "Fine.", "finish_reason": "stop", "usage": USAGE, "flaws": []}
CALL = {"id": "call-1", "name": "get_weather", "arguments": '{"city": "Paris"}'}
REFUSED = {
    "type": "BadRequestError",
    "kinds": ["APIStatusError", "APIError", "OpenAIError"],
    "message": "Error code: 400 - messages must be a list",
    "status": 400,
    "body": {"message": "messages must be a list"},
}
CUT = {"type": "LengthFinishReasonError", "kinds": ["OpenAIError"], "message": "the limit"}

#: What the library makes of a correct server, by the call.
ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "chat": {"result": CHAT},
    "models": {"result": {"names": [NAME]}},
    "error": {"error": REFUSED},
    "stream": {"result": CHAT},
    "tools": {"result": {"calls": [CALL], "finish_reason": "tool_calls"}},
    "parse": {"result": {"parsed": {"answer": "yes"}, "finish_reason": "stop"}},
}


def serve(**changed: Mapping[str, Any]) -> Callable[[Request], Exchange]:
    answers = {**ANSWERS, **changed}
    return lambda request: reply(request, {"client": "openai 9.9", **answers[request.path]})


def result(**fields: Any) -> Mapping[str, Any]:
    return {"result": {**CHAT, **fields}}


def error(name: str, *kinds: str, **fields: Any) -> Mapping[str, Any]:
    return {"error": {"type": name, "kinds": list(kinds), "message": "no", **fields}}


def test_a_server_that_is_read() -> None:
    judgement = try_check("openai_client", serve())
    assert judgement.verdict is Verdict.PASSED
    assert judgement.found == 'openai 9.9 reads "Fine."'


@pytest.mark.parametrize(
    ("call", "answer", "note"),
    [
        ("error", {"result": CHAT}, ""),
        ("error", error("UnprocessableEntityError", "APIStatusError", status=422,
                        body={"detail": [{"msg": "Field required"}]}), ""),
        ("chat", result(text=None, reasoning="Let me see."), ""),
        ("chat", result(flaws=[{"where": "choices.0.message.refusal", "what": "no"}]), ""),
        ("chat", result(flaws=[{"where": "service_tier", "what": "no"}]), ""),
        ("tools", {"result": {"calls": [], "finish_reason": "stop"}}, ""),
        ("tools", {"result": {"calls": [{**CALL, "arguments": "[1]"}]}}, ""),
        ("tools", {"result": {"calls": [{**CALL, "arguments": '{"ci'}],
                              "finish_reason": "length"}}, ""),
        ("tools", {"error": CUT}, "the token limit"),
        ("tools", {"error": REFUSED}, "refuses tools"),
        ("parse", {"error": CUT}, "the token limit"),
        ("parse", {"error": REFUSED}, "refuses structured output"),
    ],
)  # fmt: skip
def test_what_is_no_flaw(call: str, answer: Mapping[str, Any], note: str) -> None:
    judgement = try_check("openai_client", serve(**{call: answer}))
    assert judgement.verdict is Verdict.PASSED, judgement.found
    assert note in judgement.found


@pytest.mark.parametrize(
    ("call", "answer", "symptom"),
    [
        ("chat", error("TypeError", "Exception"), "client_cannot_read"),
        ("chat", error("APITimeoutError", "APIConnectionError"), "timeout"),
        ("chat", error("AuthenticationError", "APIStatusError", status=401), "key_refused"),
        ("chat", error("NotFoundError", "APIStatusError", status=404), "client_refused"),
        ("chat", result(text=None), "no_text"),
        ("chat", result(usage=None), "no_usage"),
        ("chat", result(usage={**USAGE, "total_tokens": "5"}), "no_usage"),
        ("chat", result(flaws=[{"where": "created", "what": "no"}]), "client_wrong_type"),
        ("chat", result(flaws=[{"where": "usage.total_tokens", "what": "no"}]),
         "client_wrong_type"),
        ("stream", error("JSONDecodeError", "ValueError"), "client_cannot_read"),
        ("stream", result(flaws=[{"where": "choices.0.delta.tool_calls.0.function.name",
                                  "what": "no"}]), "client_wrong_type"),
        ("models", {"result": {"names": []}}, "client_no_models"),
        ("models", {"result": {"names": [None]}}, "client_no_models"),
        ("error", error("InternalServerError", "APIStatusError", status=500),
         "client_wrong_error"),
        ("error", error("JSONDecodeError"), "client_wrong_error"),
        ("error", error("BadRequestError", "APIStatusError", status=400, body="<html>"),
         "client_error_unreadable"),
        ("error", error("BadRequestError", "APIStatusError", status=400, body={}),
         "client_error_unreadable"),
        ("tools", {"result": {"calls": [{**CALL, "arguments": {"city": "Paris"}}]}},
         "wrong_tool_call"),
        ("tools", {"result": {"calls": [{**CALL, "id": None}]}}, "wrong_tool_call"),
        ("tools", {"result": {"calls": [{**CALL, "arguments": "{city"}]}}, "wrong_tool_call"),
        ("tools", error("RuntimeError"), "client_cannot_read"),
        ("parse", error("ValidationError", "ValueError"), "client_cannot_read"),
        ("parse", {"result": {"parsed": None, "finish_reason": "stop"}}, "client_not_parsed"),
    ],
)  # fmt: skip
def test_what_is_a_flaw(call: str, answer: Mapping[str, Any], symptom: str) -> None:
    judgement = try_check("openai_client", serve(**{call: answer}))
    assert (judgement.verdict, judgement.symptom) == (Verdict.FAILED, symptom), judgement.found
    assert judgement.expected


@pytest.mark.parametrize("feature", [Feature.TOOLS, Feature.STRUCTURED_OUTPUT])
def test_what_is_promised_must_not_be_refused(feature: Feature) -> None:
    subject = Subject(published_name=NAME, features={feature: Offered(offer=Offer.PROMISED)})
    call = "tools" if feature is Feature.TOOLS else "parse"
    judgement = try_check("openai_client", serve(**{call: {"error": REFUSED}}), subject)
    assert judgement.symptom == "client_refused"


def test_what_is_absent_is_not_asked_for() -> None:
    asked = []
    absent = Offered(offer=Offer.ABSENT)
    features: dict[str, Offered] = {Feature.TOOLS: absent, Feature.STRUCTURED_OUTPUT: absent}

    def note(request: Request) -> Exchange:
        asked.append(request.path)
        return serve()(request)

    subject = Subject(published_name=NAME, features=features)
    assert try_check("openai_client", note, subject).verdict is Verdict.PASSED
    assert asked == ["chat", "models", "error", "stream"]


def failing(call: str, kind: str) -> Callable[[Request], Exchange]:
    def answer(request: Request) -> Exchange:
        if request.path != call:
            return serve()(request)
        return Exchange(request=request, error="it ended", error_kind=kind)

    return answer


@pytest.mark.parametrize("call", ANSWERS)
@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("client", Verdict.SKIPPED),
        ("refused", Verdict.ERROR),
        ("timeout", Verdict.FAILED),
        ("protocol", Verdict.FAILED),
    ],
)
def test_calls_that_never_ended(call: str, kind: str, verdict: Verdict) -> None:
    assert try_check("openai_client", failing(call, kind)).verdict is verdict


@pytest.mark.parametrize("body", ["", "{}", "[]", "null", '{"result": 3}', '{"error": []}'])
@pytest.mark.parametrize("call", ANSWERS)
def test_the_judge_is_total(call: str, body: str) -> None:
    def answer(request: Request) -> Exchange:
        whole = json.dumps(ANSWERS[request.path])
        text = body if request.path == call else whole
        return Exchange(request=request, status=200, body=text)

    assert try_check("openai_client", answer).verdict in (Verdict.FAILED, Verdict.PASSED)
