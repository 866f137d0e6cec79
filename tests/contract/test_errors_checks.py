"""The checks of errors: what servers may answer, and what they may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stoker.model.contract import Exchange, Request, Subject, Verdict
from tests.contract.hand_made import (
    REFUSALS,
    Serve,
    answer,
    broken,
    listing,
    raw,
    reply,
    subject_of,
    try_check,
)
from tests.contract.trying import NAME

MALFORMED, MODEL, PARAMETER = "errors_malformed", "errors_model", "errors_parameter"


def is_small_question(request: Request) -> bool:
    body = request.body or {}
    return body.get("temperature") == 0 and body.get("max_tokens") == 4 and "stop" not in body


def refusing(status: int = 400, body: Any = REFUSALS[0]) -> Serve:
    """A server that refuses what is wrong and answers the small question."""

    def serve(request: Request) -> Exchange:
        body_ = dict(request.body or {})
        is_right = request.body is not None and is_small_question(request)
        is_right = is_right and body_.get("top_p") != 5 and is_plain(body_.get("messages"))
        if is_right and body_.get("model") == NAME:
            return answer(request)
        return reply(request, body, status)

    return serve


def is_plain(messages: Any) -> bool:
    return isinstance(messages, list) and messages[0]["role"] == "user"


def replacing(serve: Serve, when: Callable[[Request], bool], instead: Serve) -> Serve:
    """The same server with another answer to some requests."""
    return lambda request: instead(request) if when(request) else serve(request)


@pytest.mark.parametrize("check", [MALFORMED, MODEL, PARAMETER])
@pytest.mark.parametrize("body", REFUSALS, ids=str)
def test_refusals_of_every_engine_keep_the_promise(check: str, body: object) -> None:
    for kind in ("", "sglang", "vllm", "llamacpp"):
        judgement = try_check(check, refusing(400, body), subject_of(kind))
        assert judgement.verdict is Verdict.PASSED, judgement


@pytest.mark.parametrize("check", [MALFORMED, MODEL, PARAMETER])
@pytest.mark.parametrize(
    ("instead", "symptom"),
    [
        (lambda request: reply(request, REFUSALS[0], 500), "server_error"),
        (lambda request: raw(request, "<html>no</html>", 400, "text/html"), "error_shape"),
        (lambda request: raw(request, "", 400), "error_shape"),
        (broken, "broken_http"),
    ],
    ids=["500", "html", "empty", "dropped"],
)
def test_an_unreadable_end_breaks_the_promise(check: str, instead: Serve, symptom: str) -> None:
    judgement = try_check(check, replacing(refusing(), lambda _: True, instead))
    assert (judgement.verdict, judgement.symptom) == (Verdict.FAILED, symptom)


@pytest.mark.parametrize("check", [MALFORMED, PARAMETER])
def test_a_server_that_dies_of_it_is_noticed(check: str) -> None:
    serve = replacing(
        refusing(), is_small_question, lambda request: reply(request, REFUSALS[0], 503)
    )
    serve = replacing(serve, lambda each: (each.body or {}).get("top_p") == 5, refused)
    serve = replacing(serve, lambda each: not is_plain_or_none(each), refused)
    judgement = try_check(check, serve)
    assert judgement.symptom == "dead_afterwards"


def refused(request: Request) -> Exchange:
    return reply(request, REFUSALS[0], 400)


def is_plain_or_none(request: Request) -> bool:
    return request.body is None or is_plain(request.body.get("messages"))


def test_malformed_requests_must_not_be_answered() -> None:
    judgement = try_check(MALFORMED, answer)
    assert judgement.symptom == "wrong_accepted"


def test_a_known_stumble_is_told_and_any_other_is_not_forgiven() -> None:
    """SGLang 0.5.23 answers a list with a server error, and so it is no news of this server."""
    serve = replacing(
        refusing(),
        lambda each: each.text == "[1, 2]",
        lambda each: raw(each, "Internal Server Error", 500),
    )
    known = try_check(MALFORMED, serve, subject_of("sglang"))
    assert known.verdict is Verdict.PASSED
    assert "a JSON array is a server error (500)" in known.found
    assert try_check(MALFORMED, serve, subject_of("vllm")).symptom == "server_error"
    empty = replacing(
        refusing(), lambda each: each.text == "", lambda each: raw(each, "Internal", 500)
    )
    assert try_check(MALFORMED, empty, subject_of("sglang")).symptom == "server_error"


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("", Verdict.PASSED),
        ("sglang", Verdict.PASSED),
        ("llamacpp", Verdict.PASSED),
        ("vllm", Verdict.FAILED),
    ],
)
def test_an_answer_for_another_model_is_an_engines_manner(kind: str, verdict: Verdict) -> None:
    assert try_check(MODEL, answer, subject_of(kind)).verdict is verdict


def test_an_answer_for_another_model_must_be_one() -> None:
    judgement = try_check(MODEL, lambda request: reply(request, {"ok": True}))
    assert judgement.verdict is Verdict.FAILED


def test_what_an_engine_takes_may_be_answered_and_what_none_takes_may_not() -> None:
    """As llama.cpp does: no limit, any role, any top_p."""

    def lenient(request: Request) -> Exchange:
        body = request.body or {}
        wrong = isinstance(body.get("temperature"), str) or isinstance(body.get("max_tokens"), str)
        return (
            reply(request, REFUSALS[0], 400) if wrong or "messages" not in body else answer(request)
        )

    judgement = try_check(PARAMETER, lenient)
    assert judgement.verdict is Verdict.PASSED
    assert "max_tokens -1" in judgement.found
    assert try_check(PARAMETER, answer).symptom == "wrong_accepted"


def test_an_odd_request_that_is_answered_without_an_answer_is_noticed() -> None:
    serve = replacing(
        refusing(),
        lambda each: (each.body or {}).get("top_p") == 5,
        lambda each: reply(each, {"error": "oops"}),
    )
    assert try_check(PARAMETER, serve).symptom == "error_shape"


# --- prompts that do not fit ---

CONTEXT = 1000


def limited(request: Request, *, context: int = CONTEXT, rate: float = 1.3) -> Exchange:
    """A server with a context, which publishes it and refuses what is longer."""
    if request.path == "/v1/models":
        return listing(request, max_model_len=context)
    count = count_tokens(request, rate)
    return (
        reply(request, REFUSALS[0], 400)
        if count >= context
        else answer(request, prompt_tokens=count)
    )


def count_tokens(request: Request, rate: float = 1.3) -> int:
    messages: Any = (request.body or {})["messages"]
    return int(len(messages[0]["content"].split()) * rate) + 500 // 5


def is_long(request: Request) -> bool:
    return request.path != "/v1/models" and count_tokens(request) >= CONTEXT


TOO_LONG = "errors_too_long"


@pytest.mark.parametrize("rate", [1.0, 1.3, 2.5, 5.0])
@pytest.mark.parametrize("context", [700, 2048, 40_000])
def test_a_readable_refusal_keeps_the_promise(rate: float, context: int) -> None:
    judgement = try_check(TOO_LONG, lambda each: limited(each, rate=rate, context=context))
    assert judgement.verdict is Verdict.PASSED, judgement


@pytest.mark.parametrize("published", [{"meta": {"n_ctx": CONTEXT, "n_ctx_train": 9}}, {}])
def test_the_context_may_be_known_otherwise_or_guessed(published: dict[str, Any]) -> None:
    serve = replacing(
        limited, lambda each: each.path == "/v1/models", lambda each: listing(each, **published)
    )
    for promised in (CONTEXT, None):
        judgement = try_check(TOO_LONG, serve, subject_of(context_tokens=promised))
        assert judgement.verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("instead", "symptom"),
    [
        (lambda each: answer(each, prompt_tokens=CONTEXT), "prompt_cut"),
        (lambda each: answer(each, prompt_tokens=CONTEXT // 2), "prompt_cut"),
        (lambda each: answer(each, prompt_tokens=count_tokens(each)), "too_long_accepted"),
        (lambda each: reply(each, REFUSALS[0], 500), "server_error"),
        (broken, "broken_http"),
        (lambda each: broken(each, "timeout"), "timeout"),
        (lambda each: raw(each, "", 400), "error_shape"),
    ],
    ids=["cut", "halved", "taken", "500", "dropped", "hangs", "empty"],
)
def test_any_other_end_of_a_long_prompt_breaks_it(instead: Serve, symptom: str) -> None:
    judgement = try_check(TOO_LONG, replacing(limited, is_long, instead))
    assert (judgement.verdict, judgement.symptom) == (Verdict.FAILED, symptom)


def test_a_prompt_that_is_cut_by_a_stranger_is_noticed() -> None:
    """It publishes nothing, and cuts every prompt at 4096 tokens."""

    def serve(request: Request) -> Exchange:
        if request.path == "/v1/models":
            return listing(request)
        return answer(request, prompt_tokens=min(count_tokens(request), 4096))

    assert try_check(TOO_LONG, serve).symptom == "prompt_cut"


def test_a_stranger_that_holds_everything_is_left_alone() -> None:
    def serve(request: Request) -> Exchange:
        if request.path == "/v1/models":
            return listing(request)
        return answer(request, prompt_tokens=count_tokens(request))

    assert try_check(TOO_LONG, serve).verdict is Verdict.SKIPPED
    assert try_check(TOO_LONG, serve, subject_of(context_tokens=900)).verdict is Verdict.SKIPPED


def test_a_stream_may_tell_it_by_its_first_event_and_must_not_be_silent() -> None:
    def is_stream(request: Request) -> bool:
        return is_long(request) and request.stream

    def streamed(*events: str) -> Serve:
        return lambda each: Exchange(request=each, status=200, events=events)

    told = streamed('{"error": {"message": "too long", "code": 400}}', "[DONE]")
    assert try_check(TOO_LONG, replacing(limited, is_stream, told)).verdict is Verdict.PASSED
    for silent in (streamed("[DONE]"), streamed(), streamed('{"choices": []}')):
        judgement = try_check(TOO_LONG, replacing(limited, is_stream, silent))
        assert judgement.symptom == "too_long_accepted"


def test_without_counts_nothing_is_measured() -> None:
    def serve(request: Request) -> Exchange:
        return (
            listing(request) if request.path == "/v1/models" else answer(request, prompt_tokens=0)
        )

    assert try_check(TOO_LONG, serve).verdict is Verdict.SKIPPED


def test_the_context_that_is_published() -> None:
    check, subject = "context_published", subject_of(context_tokens=4096)

    def published(subject_: Subject = subject, **fields: Any) -> tuple[Verdict, str]:
        judgement = try_check(check, lambda each: listing(each, **fields), subject_)
        return judgement.verdict, judgement.symptom

    assert published(max_model_len=4096) == (Verdict.PASSED, "")
    assert published(meta={"n_ctx": 8192, "n_ctx_train": 2048}) == (Verdict.PASSED, "")
    assert published(max_model_len=4095) == (Verdict.FAILED, "context_smaller")
    assert published(max_model_len=0) == (Verdict.FAILED, "context_nonsense")
    assert published(max_model_len="4096") == (Verdict.FAILED, "context_nonsense")
    assert published(max_model_len=True) == (Verdict.FAILED, "context_nonsense")
    assert published() == (Verdict.SKIPPED, "")
    assert published(meta={"n_ctx_train": 2048}) == (Verdict.SKIPPED, "")
    assert published(subject_of(), max_model_len=12) == (Verdict.PASSED, "")
    empty = try_check(check, lambda each: reply(each, {"data": []}), subject)
    assert empty.symptom == "no_model_listed"
