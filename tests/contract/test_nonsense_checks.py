"""The checks of nonsense, tried on servers made by hand: small models, limits, and odd replies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.contract.evidence import EVIDENCE_BYTES, shorten
from stoker.contract.judgement import Judgement
from stoker.contract.procedure import ask_all, ask_one, judge_of, plan_of
from stoker.contract.questions import QUESTIONS
from stoker.contract.run import judge_check
from stoker.contract.selection import discover_checks
from stoker.model.contract import (
    Acceptance,
    Exchange,
    Feature,
    Offer,
    Offered,
    Request,
    Subject,
    Verdict,
)
from tests.contract.hand_made import subject_of, try_check

FACT = re.compile(r"code word of (\w+) is (\w+)")
ASKED = re.compile(r"What is the code word of (\w+)\?")

Say = Callable[[str, Request], str]

CHECK_BY_ID = {check.id: check for check in discover_checks()}


def text_of(request: Request) -> str:
    content = (request.body or {})["messages"][-1]["content"]
    return str(content if isinstance(content, str) else content[-1]["text"])


def clever(text: str, request: Request | None = None) -> str:
    """What a model says that knows every answer."""
    asked = ASKED.search(text)
    if asked:
        return str(dict(FACT.findall(text)).get(asked[1], "I do not know."))
    known = next((each for each in QUESTIONS if each.text == text), None)
    return known.answers[0] if known else "Once there was a mill by the river."


def tokens_of(text: str) -> int:
    return 10 + len(text.split())


def chat_alone(serve: Callable[[Request], Exchange]) -> Callable[[Request], Exchange]:
    """The same server without any other path."""

    def answer(request: Request) -> Exchange:
        if request.path == "/v1/chat/completions":
            return serve(request)
        return Exchange(request=request, status=404, body='{"error": {"message": "no"}}')

    return answer


def server(
    say: Say = clever,
    *,
    finish: str = "stop",
    prompt_tokens: Callable[[str], int] = tokens_of,
    cached_tokens: int | None = None,
    seconds: Callable[[str], float] = lambda text: 0.1,
    **message: Any,
) -> Callable[[Request], Exchange]:
    """A server that answers chat requests in either form."""

    @chat_alone
    def serve(request: Request) -> Exchange:
        text = text_of(request)
        count = prompt_tokens(text)
        usage: dict[str, Any] = {
            "prompt_tokens": count,
            "completion_tokens": 5,
            "total_tokens": count + 5,
        }
        if cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": cached_tokens}
        words = {"role": "assistant", "content": say(text, request), **message}
        exchange = Exchange(request=request, status=200, seconds=seconds(text))
        if not request.stream:
            choice = {"index": 0, "message": words, "finish_reason": finish}
            data = {"id": "a", "object": "chat.completion", "choices": [choice], "usage": usage}
            return replace(exchange, body=json.dumps(data))
        choice = {"index": 0, "delta": words, "finish_reason": finish}
        data = {"id": "a", "object": "chat.completion.chunk", "choices": [choice]}
        return replace(exchange, events=(json.dumps(data), "[DONE]"))

    return serve


def promised(*features: Feature, **fields: Any) -> Subject:
    offers: dict[str, Offered] = {each: Offered(offer=Offer.PROMISED) for each in features}
    return replace(subject_of(**fields), features=offers)


# --- procedures ---


def test_a_procedure_asks_in_steps_and_judges_at_its_end() -> None:
    def procedure(subject: Subject) -> Any:
        first = yield from ask_one(Request(method="GET", path="/one"))
        nothing = yield from ask_all([])
        both = yield from ask_all([Request(method="GET", path=first.body)] * 2)
        return Judgement(verdict=Verdict.PASSED, expected="", found=f"{len(both)}{nothing}")

    plan, judge = plan_of(procedure), judge_of(procedure)
    subject = subject_of()
    (one,) = plan(subject, ())
    exchanges = [Exchange(request=one, body="/two")]
    two = plan(subject, exchanges)
    assert [each.path for each in two] == ["/two", "/two"]
    assert judge(subject, exchanges).verdict is Verdict.SKIPPED
    exchanges += [Exchange(request=each) for each in two]
    assert plan(subject, exchanges) == ()
    assert judge(subject, exchanges).found == "2()"


# --- known answers ---


def ramble(text: str, request: Request) -> str:
    return f"and then the {len(text)} people went on and on and on along the river " * 2


def test_a_model_that_was_never_taught_to_answer_is_not_judged() -> None:
    found = try_check("known_answers", server(ramble, finish="length"))
    assert found.verdict is Verdict.SKIPPED


def test_a_small_model_passes() -> None:
    def small(text: str, request: Request) -> str:
        return clever(text) if len(text) % 2 else "The word is a noun."

    found = try_check("known_answers", server(small))
    assert found.verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("say", "symptom"),
    [
        (lambda text, request: "4.", "same_answer"),
        (lambda text, request: "", "same_answer"),
        (lambda text, request: f"It is item {len(text)}.", "wrong_answers"),
        (lambda text, request: "!!!!!!!!" if len(text) % 2 else clever(text), "one_character"),
        (lambda text, request: "\ufffd\ufffd not", "broken_characters"),
    ],
)
def test_what_no_working_server_says_is_noticed(say: Say, symptom: str) -> None:
    found = try_check("known_answers", server(say))
    assert (found.verdict, found.symptom) == (Verdict.FAILED, symptom)


def test_broken_numbers_are_noticed_in_a_single_answer() -> None:
    @chat_alone
    def serve(request: Request) -> Exchange:
        exchange = server()(request)
        if "velvet" not in text_of(request):
            return exchange
        data = json.loads(exchange.body)
        data["choices"][0]["matched_stop"] = "NaN happened"
        return replace(exchange, body=json.dumps(data))

    assert try_check("known_answers", serve).symptom == "nan"


def test_thoughts_that_can_be_switched_off_are() -> None:
    asked: list[Request] = []

    @chat_alone
    def serve(request: Request) -> Exchange:
        asked.append(request)
        is_quiet = "chat_template_kwargs" in (request.body or {})
        answered = server() if is_quiet else server(content=None, reasoning="Hm, 2 and 3")
        return answered(request)

    assert try_check("known_answers", serve).verdict is Verdict.PASSED
    assert len(asked) == 2 + len(QUESTIONS)


def test_thoughts_that_cannot_be_switched_off_get_room() -> None:
    @chat_alone
    def serve(request: Request) -> Exchange:
        if "chat_template_kwargs" in (request.body or {}):
            return Exchange(request=request, status=400, body='{"error": {"message": "what?"}}')
        room = (request.body or {})["max_tokens"]
        if room < 200:
            return server(content="<think> Let me", finish="length")(request)
        return server(lambda text, _: f"<think> 5 or 6? </think>{clever(text)}")(request)

    assert try_check("known_answers", serve).verdict is Verdict.PASSED


# --- long prompts ---


CONTEXT = 4096


def forgets(above_words: int, *, knows: Callable[[str], bool] = lambda text: False) -> Say:
    def say(text: str, request: Request) -> str:
        is_long = len(text.split()) > above_words
        return "It is a lemon tree." if is_long and not knows(text) else clever(text)

    return say


def stands_late(text: str) -> bool:
    fact = FACT.search(text)
    return fact is not None and fact.start() > len(text) / 2


def weak(say: Say) -> Say:
    """A model that knows little but code words, as small ones do."""
    return lambda text, request: say(text, request) if ASKED.search(text) else "A noun."


@pytest.mark.parametrize(
    ("say", "symptom"),
    [
        (clever, ""),
        (forgets(1000), "long_prompt_forgets"),
        (weak(forgets(1000)), "long_prompt_forgets"),
        (forgets(1000, knows=stands_late), "long_prompt_forgets"),
        (weak(forgets(1000, knows=stands_late)), ""),
        (
            lambda text, _: "\x01\x02\x03" if len(text) > 9000 else clever(text),
            "long_prompt_nonsense",
        ),
    ],
)
def test_long_prompts(say: Say, symptom: str) -> None:
    found = try_check("long_prompts", server(say), subject_of(context_tokens=CONTEXT))
    assert found.symptom == symptom, found.found
    assert found.verdict is (Verdict.FAILED if symptom else Verdict.PASSED)


def test_a_prompt_that_is_cut_is_noticed_by_its_count() -> None:
    serve = server(prompt_tokens=lambda text: min(tokens_of(text), 1200))
    found = try_check("long_prompts", serve, subject_of(context_tokens=CONTEXT))
    assert found.symptom == "prompt_cut"
    assert found.details["prompt_tokens"] == 1200


def refusing(above_tokens: int) -> Callable[[Request], Exchange]:
    @chat_alone
    def serve(request: Request) -> Exchange:
        if tokens_of(text_of(request)) > above_tokens:
            return Exchange(request=request, status=400, body='{"error": {"message": "too long"}}')
        return server()(request)

    return serve


def test_a_refusal_within_the_context_is_noticed() -> None:
    found = try_check("long_prompts", refusing(3000), subject_of(context_tokens=CONTEXT))
    assert found.symptom == "long_prompt_refused"


def test_a_refusal_ends_the_search_where_nobody_says_what_fits() -> None:
    found = try_check("long_prompts", refusing(12_000))
    assert found.verdict is Verdict.PASSED
    assert "refused" in found.found


LIMIT_WORDS = (
    "This model's maximum context length is 4096 tokens. However, your prompt has 7900.",
    "request (7900 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "The input (7900 tokens) is longer than the model's context length (4096 tokens).",
    "too long",
)


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize("message", LIMIT_WORDS)
@pytest.mark.parametrize("check", ["long_prompts", "long_prompts_inside", "long_parallel"])
def test_a_limit_that_nobody_published_is_found(check: str, message: str, status: int) -> None:
    @chat_alone
    def serve(request: Request) -> Exchange:
        if tokens_of(text_of(request)) + (request.body or {})["max_tokens"] > 4096:
            body = json.dumps({"error": {"message": message}})
            return Exchange(request=request, status=status, body=body)
        return server()(request)

    found = try_check(check, serve)
    assert found.verdict is Verdict.PASSED, found.found
    assert "0 of" not in found.found


def test_what_fits_is_judged_where_a_limit_was_found() -> None:
    @chat_alone
    def serve(request: Request) -> Exchange:
        if tokens_of(text_of(request)) > 4096:
            body = json.dumps({"error": {"message": LIMIT_WORDS[0]}})
            return Exchange(request=request, status=400, body=body)
        return server(forgets(3000))(request)

    assert try_check("long_prompts", serve).symptom == "long_prompt_forgets"


def inside(text: str) -> bool:
    fact = FACT.search(text)
    return fact is not None and 300 < fact.start() < len(text) - 300


@pytest.mark.parametrize(
    ("say", "verdict"),
    [
        (clever, Verdict.PASSED),
        (weak(clever), Verdict.PASSED),
        (forgets(600, knows=lambda text: not inside(text)), Verdict.FAILED),
        (weak(forgets(600, knows=lambda text: not inside(text))), Verdict.FAILED),
        # It forgets in short texts too, or the ends of long ones as well.
        (weak(forgets(100, knows=lambda text: not inside(text))), Verdict.SKIPPED),
        (weak(forgets(600)), Verdict.PASSED),
        # What a weak model loses only in a very long text is its own.
        (weak(forgets(1500, knows=lambda text: not inside(text))), Verdict.PASSED),
        (forgets(1500, knows=lambda text: not inside(text)), Verdict.FAILED),
    ],
)
def test_facts_inside_long_prompts(say: Say, verdict: Verdict) -> None:
    found = try_check("long_prompts_inside", server(say), subject_of(context_tokens=8192))
    assert found.verdict is verdict, found.found
    assert found.symptom == ("long_prompt_forgets" if verdict is Verdict.FAILED else "")


def test_a_slow_server_is_not_asked_for_the_longest() -> None:
    serve = server(seconds=lambda text: len(text.split()) / 10)
    found = try_check("long_prompts", serve, subject_of(context_tokens=CONTEXT))
    assert found.verdict is Verdict.PASSED
    assert "5 minutes" in found.found


def test_a_long_prompt_is_cut_in_the_evidence() -> None:
    body: dict[str, Any] = {"n": 1, "messages": [{"role": "user", "content": "word " * 90_000}]}
    request = Request(method="POST", path="/", body=body)
    kept = shorten(Exchange(request=request))
    assert len(json.dumps(kept.request.body)) < EVIDENCE_BYTES + 100
    assert kept.request.body is not None
    assert kept.request.body["n"] == 1
    assert "450000 bytes in all" in text_of(kept.request)


def test_a_tiny_context_has_no_long_prompts() -> None:
    found = try_check("long_prompts", server(), subject_of(context_tokens=300))
    assert found.verdict is Verdict.SKIPPED


# --- many at once ---


def limited(status: int, message: str) -> Callable[[Request], Exchange]:
    seen: list[str] = []

    @chat_alone
    def serve(request: Request) -> Exchange:
        text = text_of(request)
        seen.append(text)
        if seen.count(text) > 2 and len(seen) % 3 == 0:
            body = json.dumps({"error": {"message": message}})
            return Exchange(request=request, status=status, body=body)
        return server()(request)

    return serve


def test_a_server_that_limits_requests_is_judged_without_those() -> None:
    for serve in (limited(429, "slow down"), limited(503, "The server is overloaded")):
        found = try_check("parallel_answers", serve)
        assert found.verdict is Verdict.PASSED, found.found
        assert "limits" in found.found


def test_one_lost_request_is_enough() -> None:
    found = try_check("parallel_answers", limited(500, "Internal Server Error"))
    assert found.symptom == "lost_in_parallel"


def test_a_fact_that_flips_once_is_no_alarm() -> None:
    count = 0

    def say(text: str, request: Request) -> str:
        nonlocal count
        count += "opposite of hot" in text
        return "warm" if "opposite of hot" in text and count == 3 else clever(text)

    found = try_check("parallel_answers", server(say))
    assert found.verdict is Verdict.PASSED
    assert "1 of them not every time" in found.found


def test_answers_of_others_are_noticed() -> None:
    before: list[str] = []

    def say(text: str, request: Request) -> str:
        before.append(clever(text))
        return before[-2] if len(before) > 60 else before[-1]

    found = try_check("parallel_answers", server(say))
    assert found.symptom == "answers_swapped"


def in_crowd(say: Say, check: str, **fields: Any) -> Judgement:
    """Lead a check through its plan where ``say`` is what a crowd is told, one at a time not."""
    plan_and_judge, exchanges = CHECK_BY_ID[check], list[Exchange]()
    subject = subject_of(**fields)
    while batch := plan_and_judge.plan(subject, tuple(exchanges)):
        serve = server(say) if len(batch) > 1 else server()
        exchanges += map(serve, batch)
    return judge_check(plan_and_judge, subject, exchanges)


def reversed_words(text: str, request: Request) -> str:
    return " ".join(reversed(repeat(text, request).split()))


def repeat(text: str, request: Request) -> str:
    return text.partition("Repeat exactly this: ")[2] or clever(text)


def test_pieces_in_another_order_are_noticed() -> None:
    def say(text: str, request: Request) -> str:
        return reversed_words(text, request) if is_crowd else repeat(text, request)

    check, exchanges, is_crowd = CHECK_BY_ID["parallel_order"], list[Exchange](), False
    while batch := check.plan(subject_of(), tuple(exchanges)):
        is_crowd = len(batch) > 1
        exchanges += map(server(say), batch)
    found = judge_check(check, subject_of(), exchanges)
    assert (found.verdict, found.symptom) == (Verdict.FAILED, "parallel_wrong")


def test_a_model_that_repeats_nothing_tells_nothing_of_the_order() -> None:
    assert try_check("parallel_order", server(repeat)).verdict is Verdict.PASSED
    assert try_check("parallel_order", server()).verdict is Verdict.SKIPPED


@pytest.mark.parametrize(
    ("say", "symptom"),
    [
        (clever, ""),
        (forgets(2200), "parallel_wrong"),
        (forgets(1200, knows=stands_late), "parallel_wrong"),
        (lambda text, _: "!!!!!!!!" if len(text) > 9000 else clever(text), "parallel_nonsense"),
        (lambda text, _: clever(text) if len(text) < 9000 else "", "parallel_wrong"),
    ],
)
def test_long_prompts_at_once(say: Say, symptom: str) -> None:
    found = in_crowd(say, "long_parallel", context_tokens=16384)
    assert found.symptom == symptom, found.found
    assert found.verdict is (Verdict.FAILED if symptom else Verdict.PASSED)


def test_a_weak_model_may_know_no_long_prompt() -> None:
    found = try_check("long_parallel", server(forgets(1000)), subject_of(context_tokens=16384))
    assert found.verdict is Verdict.SKIPPED


@pytest.mark.parametrize(
    ("fields", "longest"),
    [
        ({"context_tokens": 16384, "kv_tokens": 8192}, 2500),
        ({"context_tokens": 1024}, 1024),
        ({"context_tokens": 1 << 20}, 60_000),
    ],
)
def test_long_prompts_at_once_are_bounded(fields: dict[str, Any], longest: int) -> None:
    asked: list[int] = []

    @chat_alone
    def serve(request: Request) -> Exchange:
        asked.append(tokens_of(text_of(request)))
        return server(seconds=lambda text: len(text.split()) / 3000)(request)

    found = try_check("long_parallel", serve, subject_of(**fields))
    assert found.verdict is Verdict.PASSED, found.found
    assert max(asked) <= longest


def test_a_server_for_one_at_a_time_is_asked_for_no_crowd() -> None:
    found = try_check("long_parallel", server(), subject_of(parallel_requests=1))
    assert found.verdict is Verdict.SKIPPED


# --- caches and guesses ---


def test_one_flip_of_a_small_model_in_the_cache_is_no_alarm() -> None:
    seen: list[str] = []

    def say(text: str, request: Request) -> str:
        is_flip = text in seen and not any("flipped" in each for each in seen)
        seen.append(text + (" flipped" if is_flip and len(text) > 900 else ""))
        return "A lemon." if seen[-1].endswith("flipped") else clever(text)

    found = try_check("cache_answers", server(say, cached_tokens=64))
    assert found.verdict is Verdict.PASSED
    assert "64 tokens from the cache" in found.found


def test_the_host_cache_says_what_it_sent() -> None:
    subject = promised(Feature.HOST_CACHE, context_tokens=2048, kv_tokens=6000)
    found = try_check("host_cache_answers", server(cached_tokens=0), subject)
    assert found.verdict is Verdict.SKIPPED
    assert "nothing came from a cache" in found.found
    found = try_check("host_cache_answers", server(cached_tokens=70), subject)
    assert found.verdict is Verdict.PASSED
    assert "280 tokens came from a cache" in found.found


def test_a_huge_cache_is_not_filled_where_nobody_promises_another_behind_it() -> None:
    found = try_check("host_cache_answers", server(), subject_of(kv_tokens=1 << 20))
    assert found.verdict is Verdict.SKIPPED
    assert "do not fill the device's cache" in found.found


@pytest.mark.parametrize("check", ["cache_answers", "host_cache_answers"])
def test_a_model_that_knows_no_code_word_tells_nothing_of_a_cache(check: str) -> None:
    subject = promised(Feature.HOST_CACHE, context_tokens=2048, kv_tokens=6000)
    found = try_check(check, server(lambda *_: "A noun.", cached_tokens=70), subject)
    assert found.verdict is Verdict.SKIPPED
    assert "the model knows no code word" in found.found


@pytest.mark.parametrize("cached_tokens", [0, None])
def test_answers_that_came_from_no_cache_prove_nothing(cached_tokens: int | None) -> None:
    found = try_check("cache_answers", server(cached_tokens=cached_tokens))
    assert found.verdict is Verdict.SKIPPED


def test_a_promised_cache_that_counts_nothing_is_held_to_its_answers() -> None:
    found = try_check("cache_answers", server(), promised(Feature.PREFIX_CACHE))
    assert found.verdict is Verdict.PASSED


OFF = Acceptance(off={"draft": False}, length=("x:length",))


def speculating(say: Say = clever, *, length: float = 2.0) -> Callable[[Request], Exchange]:
    def serve(request: Request) -> Exchange:
        if request.path == "/metrics":
            return Exchange(request=request, status=200, body=f"x:length {length}\n")
        return server(say)(request)

    return serve


def speculative_subject() -> Subject:
    subject = promised(Feature.SPECULATION)
    return replace(subject, manners=replace(subject.manners, acceptance=OFF))


def test_speculation_that_changes_nothing_passes() -> None:
    found = try_check("speculation_agrees", speculating(), speculative_subject())
    assert found.verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("guessed", "kind"),
    [("A noun.", "wrong"), ("!!!!!!!!!!!!", "one_character")],
)
def test_speculation_that_changes_answers_is_noticed(guessed: str, kind: str) -> None:
    def say(text: str, request: Request) -> str:
        return clever(text) if "draft" in (request.body or {}) else guessed

    found = try_check("speculation_agrees", speculating(say), speculative_subject())
    assert found.symptom == "speculation_changes_answers"
    assert found.details["kind"] == kind


@pytest.mark.parametrize(
    ("length", "verdict"),
    [(2.5, Verdict.PASSED), (1.0, Verdict.FAILED), (0.0, Verdict.SKIPPED)],
)
def test_the_gauge_of_accepted_tokens(length: float, verdict: Verdict) -> None:
    found = try_check("speculation_helps", speculating(length=length), speculative_subject())
    assert found.verdict is verdict


# --- pictures ---


def seeing(
    colours: tuple[str, str], *, more_tokens: int = 60, status: int = 200, message: str = ""
) -> Callable[[Request], Exchange]:
    pictures: list[str] = []

    @chat_alone
    def serve(request: Request) -> Exchange:
        content = (request.body or {})["messages"][-1]["content"]
        if isinstance(content, str):
            return server()(request)
        if status != 200:
            body = json.dumps({"error": {"message": message}})
            return Exchange(request=request, status=status, body=body)
        url = content[0]["image_url"]["url"]
        if url not in pictures:
            pictures.append(url)
        said = colours[pictures.index(url)]
        return server(lambda *_: said, prompt_tokens=lambda text: tokens_of(text) + more_tokens)(
            request
        )

    return serve


@pytest.mark.parametrize(
    ("serve", "verdict", "symptom"),
    [
        (seeing(("Red", "Blue")), Verdict.PASSED, ""),
        (seeing(("It is crimson.", "It is navy.")), Verdict.PASSED, ""),
        (seeing(("A blue one", "Blue")), Verdict.PASSED, ""),
        (seeing(("Grey", "Grey")), Verdict.FAILED, "image_not_seen"),
        (seeing(("Red", "Blue"), more_tokens=0), Verdict.FAILED, "image_ignored"),
        (seeing(("", ""), status=400, message="no multimodal model"), Verdict.SKIPPED, ""),
        (seeing(("", ""), status=500, message="image input is not supported"), Verdict.SKIPPED, ""),
        (seeing(("", ""), status=500, message="oops"), Verdict.FAILED, "http_status"),
    ],
)
def test_pictures(serve: Callable[[Request], Exchange], verdict: Verdict, symptom: str) -> None:
    found = try_check("images_seen", serve)
    assert (found.verdict, found.symptom) == (verdict, symptom), found.found


def test_a_promised_picture_must_not_be_refused() -> None:
    serve = seeing(("", ""), status=400, message="no multimodal model")
    assert try_check("images_seen", serve, promised(Feature.VISION)).symptom == "image_refused"


# --- whatever a server sends ---


CHECKS = (
    *("known_answers", "long_prompts", "parallel_answers", "cache_answers", "images_seen"),
    *("host_cache_answers", "speculation_agrees", "speculation_helps", "soak_canary"),
    *("long_prompts_inside", "long_parallel", "parallel_order"),
)
ODD = st.sampled_from(
    [None, "", "4", "!!!!!!!!", "\ud83d", -1, 9**400, 1e308, [], {}, ["a"], {"content": 3}, True]
)


@given(data=st.data())
@settings(max_examples=12, deadline=None)
@pytest.mark.parametrize("check", CHECKS)
def test_no_reply_raises(check: str, data: st.DataObject) -> None:
    def serve(request: Request) -> Exchange:
        draw = data.draw
        kind = draw(st.sampled_from(["right", "right", "right", "odd", "error"]))
        if kind == "error" or request.path != "/v1/chat/completions":
            return Exchange(
                request=request,
                status=draw(st.sampled_from([0, 200, 400, 429, 500, 503])),
                body=draw(
                    st.sampled_from(["", "{}", "[" * 9999, '{"data": [{"meta": 3}]}', "x 1e9"])
                ),
                error=draw(st.sampled_from(["", "it broke off"])),
            )
        if kind == "right":
            return server()(request)
        body = json.loads(server()(replace(request, stream=False)).body)
        body["choices"][0]["message"]["content"] = draw(ODD)
        body["choices"][0]["finish_reason"] = draw(ODD)
        body["usage"]["prompt_tokens"] = draw(ODD)
        body["usage"]["prompt_tokens_details"] = {"cached_tokens": draw(ODD)}
        body["timings"] = {"draft_n": draw(ODD), "draft_n_accepted": draw(ODD), "predicted_n": 7}
        return Exchange(request=request, status=200, body=json.dumps(body), events=("{}",))

    judgement = try_check(check, serve, speculative_subject())
    f"{judgement.expected}{judgement.found}".encode()
