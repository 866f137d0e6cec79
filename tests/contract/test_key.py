"""Who is answered without the key, and what of it is only told."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from stoker.endpoints.http import make_key
from stoker.model.contract import Exchange, Feature, Key, Offer, Offered, Request, Verdict
from tests.contract.hand_made import Serve, answer, listing, reply, subject_of, try_check

CHECK = "key_required"
KEYED = {Feature.KEY: Offered(offer=Offer.PROMISED, reason="a key file is set")}
UNAUTHORIZED = {"error": "Unauthorized"}


def guarded(
    *,
    open_paths: Collection[str] = (),
    absent: Collection[str] = (),
    open_keys: Collection[Key] = (),
    status: int = 401,
) -> Serve:
    """A server with a key, with doors that stand open."""

    def serve(request: Request) -> Exchange:
        if request.path in absent:
            return reply(request, {"detail": "Not Found"}, 404)
        may = request.key is Key.OWN or request.key in open_keys or request.path in open_paths
        if not may:
            return reply(request, UNAUTHORIZED, status)
        return listing(request) if request.path == "/v1/models" else answer(request)

    return serve


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("kind", ["", "sglang", "vllm", "llamacpp"])
def test_a_guarded_server_keeps_the_promise(status: int, kind: str) -> None:
    serve = guarded(status=status, absent=["/slots", "/props", "/generate"])
    judgement = try_check(CHECK, serve, subject_of(kind, features=KEYED))
    assert judgement.verdict is Verdict.PASSED, judgement


def test_open_figures_are_told() -> None:
    judgement = try_check(
        CHECK, guarded(open_paths=["/metrics", "/server_info"]), subject_of("sglang")
    )
    assert judgement.verdict is Verdict.PASSED
    assert "open to everybody all the same: /metrics, /server_info" in judgement.found


@pytest.mark.parametrize(
    "path",
    ["/v1/models", "/v1/chat/completions", "/v1/completions", "/completion", "/generate", "/slots"],
)
def test_an_open_door_breaks_the_promise(path: str) -> None:
    judgement = try_check(CHECK, guarded(open_paths=[path]), subject_of("vllm", features=KEYED))
    assert (judgement.verdict, judgement.symptom) == (Verdict.FAILED, "open_without_key")
    assert judgement.details["path"] == path


def test_a_door_that_an_engine_leaves_open_is_told_and_a_strangers_is_a_flaw() -> None:
    """vLLM's key does not guard /invocations, whatever is set."""
    serve = guarded(open_paths=["/invocations"])
    known = try_check(CHECK, serve, subject_of("vllm", features=KEYED))
    assert known.verdict is Verdict.PASSED
    assert "/invocations (computes answers)" in known.found
    assert try_check(CHECK, serve, subject_of("sglang")).symptom == "open_without_key"


@pytest.mark.parametrize("key", [Key.NONE, Key.WRONG, Key.NEAR, Key.OTHER_CASE])
def test_any_key_is_no_key(key: Key) -> None:
    judgement = try_check(CHECK, guarded(open_keys=[key]))
    assert judgement.symptom == "open_without_key"
    assert judgement.details["key"] == key


def test_a_door_that_takes_any_key_is_noticed() -> None:
    def serve(request: Request) -> Exchange:
        if request.path == "/generate" and request.key is Key.WRONG:
            return answer(request)
        return guarded()(request)

    judgement = try_check(CHECK, serve)
    assert judgement.details == {"path": "/generate", "key": "wrong"}


def test_a_server_without_a_key_is_none_of_it_unless_one_was_promised() -> None:
    serve = guarded(open_keys=list(Key))
    assert try_check(CHECK, serve).verdict is Verdict.SKIPPED
    judgement = try_check(CHECK, serve, subject_of(features=KEYED))
    assert judgement.symptom == "open_without_key"


def test_the_own_key_must_open() -> None:
    judgement = try_check(CHECK, lambda each: reply(each, UNAUTHORIZED, 401))
    assert judgement.symptom == "key_refused"
    assert "with the key" in judgement.expected


def test_a_refusal_must_say_that_it_is_about_the_key() -> None:
    judgement = try_check(CHECK, guarded(status=500))
    assert judgement.symptom == "key_refusal_unclear"


@pytest.mark.parametrize("key", [Key.NONE, Key.WRONG, Key.NEAR])
def test_a_stream_is_guarded_as_well(key: Key) -> None:
    def serve(request: Request) -> Exchange:
        is_chat = request.path == "/v1/chat/completions"
        return (
            answer(request)
            if is_chat and request.stream and request.key is key
            else served(request)
        )

    served = guarded()
    judgement = try_check(CHECK, serve)
    assert judgement.details == {"path": "/v1/chat/completions", "key": key}
    assert "as a stream" in judgement.found


@pytest.mark.parametrize(
    "path", ["/v1/completions", "/v1/responses", "/v1/messages", "/completion", "/generate"]
)
def test_so_are_the_streams_of_other_paths(path: str) -> None:
    def serve(request: Request) -> Exchange:
        is_open = request.path == path and request.stream
        return answer(request) if is_open else served(request)

    served = guarded()
    assert try_check(CHECK, serve).details == {"path": path, "key": "none"}


def test_a_stream_that_tells_an_error_answers_nobody() -> None:
    def serve(request: Request) -> Exchange:
        if request.stream and request.key is not Key.OWN:
            told = '{"error": {"message": "Unauthorized"}}'
            return Exchange(request=request, status=200, events=(told,))
        return served(request)

    served = guarded()
    assert try_check(CHECK, serve).symptom == "key_refusal_unclear"


OWN = "Sk-Own-0123456789"


def test_what_is_made_of_the_key_is_no_key() -> None:
    assert make_key(OWN, Key.OWN) == OWN
    assert make_key(OWN, Key.NONE) == ""
    assert make_key(OWN, Key.NEAR) == f"{OWN}x"
    assert make_key(OWN, Key.OTHER_CASE) == "sK-oWN-0123456789"


@pytest.mark.parametrize("own", ["", "0123456789"])
def test_a_key_without_letters_has_no_other_case(own: str) -> None:
    assert make_key(own, Key.OTHER_CASE) == make_key(own, Key.WRONG)
    assert make_key("", Key.NEAR) == make_key(own, Key.WRONG)
