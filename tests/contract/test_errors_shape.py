"""What the official client can read of an error is one; what it cannot is not."""

from __future__ import annotations

import json

import pytest

from stoker.contract.errors import explain_shape, find_refusal_flaw, read_message
from stoker.model.contract import Exchange, Request, Verdict
from tests.contract.hand_made import REFUSALS, broken, raw, reply

REQUEST = Request(method="POST", path="/v1/chat/completions")


@pytest.mark.parametrize("body", REFUSALS, ids=json.dumps)
@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_every_engines_refusal_is_read(body: object, status: int) -> None:
    assert find_refusal_flaw(reply(REQUEST, body, status), "something wrong") is None


@pytest.mark.parametrize(
    ("body", "media_type", "reason"),
    [
        ("", "", "an empty body"),
        ("<html><h1>502 Bad Gateway</h1></html>", "text/html", "a page"),
        ("  <!doctype html>", "text/plain", "a page"),
        ("Internal Server Error", "text/plain", "no JSON"),
        ('{"error": ', "application/json", "no JSON"),
        ('"it is wrong"', "application/json", "no message"),
        ("[]", "application/json", "no message"),
        ('{"error": {"message": ""}}', "application/json", "no message"),
        ('{"error": {"code": 400}}', "application/json", "no message"),
        ('{"error": null, "detail": 4}', "application/json", "no message"),
        (json.dumps({"detail": "Traceback (most recent call last):\n"}), "", "a stack trace"),
    ],
)
def test_what_no_client_can_read_is_told(body: str, media_type: str, reason: str) -> None:
    exchange = raw(REQUEST, body, 400, media_type)
    assert reason in explain_shape(exchange)
    flaw = find_refusal_flaw(exchange, "something wrong")
    assert flaw is not None
    assert (flaw.verdict, flaw.symptom) == (Verdict.FAILED, "error_shape")


@pytest.mark.parametrize(
    ("exchange", "symptom"),
    [
        (reply(REQUEST, REFUSALS[0], 500), "server_error"),
        (reply(REQUEST, REFUSALS[0], 503), "server_error"),
        (reply(REQUEST, {}, 200), "wrong_accepted"),
        (reply(REQUEST, REFUSALS[0], 401), "key_refused"),
        (reply(REQUEST, REFUSALS[0], 429), "rate_limited"),
        (broken(REQUEST), "broken_http"),
        (broken(REQUEST, "timeout"), "timeout"),
        (broken(REQUEST, "refused"), "unreachable"),
    ],
    ids=["500", "503", "200", "401", "429", "protocol", "timeout", "refused"],
)
def test_what_is_no_refusal_has_its_symptom(exchange: Exchange, symptom: str) -> None:
    flaw = find_refusal_flaw(exchange, "something wrong")
    assert flaw is not None
    assert flaw.symptom == symptom


def test_the_file_that_fastapi_names_is_no_stack_trace() -> None:
    """SGLang's messages tell the line of its source; ugly, but a person can read them."""
    message = "1 validation error:\n  {'msg': 'Field required'}\n\n  File \"/a/b.py\", line 1870"
    assert explain_shape(reply(REQUEST, {"object": "error", "message": message}, 400)) == ""


def test_the_best_message_wins() -> None:
    assert read_message({"error": {"message": "a"}, "message": "b"}) == "a"
    assert read_message({"error": {"code": 4}, "message": "b"}) == "b"
    assert read_message("text") == ""
