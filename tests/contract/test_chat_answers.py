"""What is said: stop texts, limits, choices, probabilities, characters."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stoker.contract.judgement import Judgement
from stoker.model.contract import (
    Exchange,
    Feature,
    Manners,
    Offer,
    Offered,
    Request,
    Subject,
    Verdict,
)
from tests.contract.chat_replies import (
    KNOWN,
    NAME,
    STRANGER,
    Said,
    last_text,
    refuse,
    reply,
    try_check,
)

RIVER = "A river runs slowly through the green valley. A mountain stands high above the clouds."


def body(request: Request) -> dict[str, Any]:
    return dict(request.body or {})


# --- chat_answer ---


def answered(*said: Said, subject: Subject = STRANGER) -> Judgement:
    """The judgement where the first question gets the first answer, and the others the last."""
    return try_check(
        "chat_answer",
        lambda request, number: reply(request, said[min(number, len(said) - 1)]),
        subject,
    )


def loop(unit: str, count: int) -> Said:
    return Said(content=f"{unit} " * count, finish_reason="length", tokens=count)


def test_the_same_loop_for_every_question_is_no_answer() -> None:
    assert answered(loop("the", 32), loop("the", 96)).symptom == "repetition"
    assert answered(loop("I am here.", 8), loop("I am here.", 24)).symptom == "repetition"
    assert answered(loop("the", 32), loop("of", 96)).symptom == "repetition"


def test_a_small_model_may_be_caught_in_a_loop() -> None:
    assert answered(loop("What is 2+2?", 6), Said(content="An apple.")).verdict is Verdict.PASSED
    assert answered(loop("What is 2+2?", 6), loop("Name it.", 9)).verdict is Verdict.PASSED
    ended = replace(loop("four", 40), finish_reason="stop")
    assert answered(loop("four", 32), ended).verdict is Verdict.PASSED


@pytest.mark.parametrize("mark", ["<|im_end|>", "<|eot_id|>", "<end_of_turn>", "[/INST]"])
def test_marks_of_the_chat_template_are_no_words(mark: str) -> None:
    assert answered(Said(content=f"It is 4.{mark}")).symptom == "turn_marks_in_content"


@pytest.mark.parametrize("text", ["<b>4</b>", "a < b | c > d", "[INSTANT] 4", "</s", "<|", "x|>y"])
def test_words_with_signs_are_words(text: str) -> None:
    assert answered(Said(content=text)).verdict is Verdict.PASSED


def test_marks_that_nobody_takes_out_are_the_owners_wish() -> None:
    said = Said(content="<think>Two and two.</think> It is 4.")
    assert answered(said).symptom == "reasoning_marks_in_content"
    absent = Offered(offer=Offer.ABSENT, reason="no parser")
    features: dict[str, Offered] = {Feature.REASONING: absent}
    without = Subject(published_name=NAME, features=features)
    assert answered(said, subject=without).verdict is Verdict.PASSED


def test_a_question_before_each_answer_is_noticed() -> None:
    def echo(request: Request, number: int) -> Exchange:
        return reply(request, Said(content=f"user\n{last_text(request)}\n4"))

    assert try_check("chat_answer", echo).symptom == "question_echoed"
    once = (Said(content="What is 2+2? It is 4."), Said(content="An apple."))
    assert answered(*once).verdict is Verdict.PASSED


def test_thoughts_may_speak_of_marks() -> None:
    said = Said(content="It is 4.", reasoning="The answer ends in <|im_end|>.")
    assert answered(said).verdict is Verdict.PASSED


# --- stop_strings ---


def stopped(change: Callable[[Request, str], Said]) -> Judgement:
    """The judgement where an answer before its stop text is changed."""

    def answer(request: Request, number: int) -> Exchange:
        stop = body(request).get("stop")
        if stop is None:
            return reply(request, Said(content=RIVER))
        first = stop if isinstance(stop, str) else stop[0]
        return reply(request, change(request, first))

    return try_check("stop_strings", answer)


def before(stop: str) -> str:
    return RIVER[: RIVER.index(stop)]


def test_an_answer_that_ends_before_the_stop_text_is_right() -> None:
    assert stopped(lambda _, stop: Said(content=before(stop))).verdict is Verdict.PASSED
    trimmed = stopped(lambda _, stop: Said(content=before(stop).rstrip()))
    assert trimmed.verdict is Verdict.PASSED


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_text_that_is_not_heeded_is_noticed(stream: bool) -> None:
    def change(request: Request, stop: str) -> Said:
        return Said(content=RIVER if request.stream == stream else before(stop))

    judgement = stopped(change)
    assert judgement.symptom == "stop_ignored"
    assert judgement.details["form"] == ("streamed" if stream else "plain")


def test_a_part_of_the_stop_text_is_noticed() -> None:
    judgement = stopped(lambda _, stop: Said(content=f"{before(stop)}{stop[:2]}"))
    assert judgement.symptom == "stop_leaks"


def test_another_ending_is_noticed() -> None:
    judgement = stopped(lambda _, stop: Said(content=before(stop), finish_reason="length"))
    assert judgement.symptom == "wrong_finish_reason"


def test_another_answer_each_time_is_not_judged() -> None:
    judgement = stopped(lambda _, stop: Said(content="A river is a wet thing, and a hill is dry."))
    assert judgement.verdict is Verdict.SKIPPED


def test_an_answer_of_thoughts_alone_is_not_judged() -> None:
    said = Said(content="", reasoning=RIVER, finish_reason="length")
    judgement = try_check("stop_strings", lambda request, number: reply(request, said))
    assert judgement.verdict is Verdict.SKIPPED


# --- length_limit ---

NUMBERS = [f"{number} " for number in range(1, 60)]


def limited(
    change: Callable[[Request, int], Said | None] | None = None, *, whole: int = 59
) -> Judgement:
    """The judgement of a model that counts up to ``whole``, with some answers changed."""

    def answer(request: Request, number: int) -> Exchange:
        limit = body(request).get("max_tokens") or body(request)["max_completion_tokens"]
        count = min(limit, whole)
        said = Said(
            content="".join(NUMBERS[:count]),
            tokens=count,
            finish_reason="length" if whole >= limit else "stop",
        )
        return reply(request, (change and change(request, limit)) or said)

    return try_check("length_limit", answer)


def test_limited_answers_are_right() -> None:
    assert limited().verdict is Verdict.PASSED
    assert limited(whole=5).verdict is Verdict.PASSED


def test_an_answer_that_ends_at_its_very_limit_may_have_ended() -> None:
    def change(request: Request, limit: int) -> Said:
        return Said(content="".join(NUMBERS[: min(limit, 8)]), tokens=min(limit, 8))

    assert limited(change).symptom == "wrong_finish_reason"  # one of one token was surely cut
    whole = limited(lambda request, limit: change(request, limit) if limit >= 8 else None)
    assert whole.verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("said", "symptom"),
    [
        (Said(content="1 2 3", tokens=99, finish_reason="length"), "limit_ignored"),
        (Said(content="a b " * 200, tokens=8, finish_reason="length"), "limit_ignored"),
        (Said(content="1 2 3", tokens=3, finish_reason="length"), "wrong_finish_reason"),
        (Said(content="1 2 3", tokens=3, finish_reason="abort"), "wrong_finish_reason"),
    ],
)
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_limit_that_is_not_kept_is_noticed(said: Said, symptom: str, field: str) -> None:
    judgement = limited(lambda request, limit: said if field in body(request) else None)
    assert judgement.symptom == symptom


# --- several_choices ---


def chosen(*said: Said, subject: Subject = STRANGER) -> Judgement:
    return try_check("several_choices", lambda request, number: reply(request, said), subject)


TWO = (Said(content="It is 4."), Said(content="Four."))


def test_two_answers_are_two() -> None:
    assert chosen(*TWO).verdict is Verdict.PASSED


def test_a_server_may_refuse_several_answers() -> None:
    judgement = try_check("several_choices", lambda request, number: refuse(request))
    assert judgement.verdict is Verdict.SKIPPED
    broken = try_check("several_choices", lambda request, number: refuse(request, 500))
    assert broken.verdict is Verdict.FAILED
    half = try_check(
        "several_choices",
        lambda request, number: refuse(request) if request.stream else reply(request, TWO),
    )
    assert half.verdict is Verdict.FAILED


def test_one_answer_is_a_strangers_way_to_say_no() -> None:
    assert chosen(TWO[0]).verdict is Verdict.SKIPPED
    assert chosen(TWO[0], subject=KNOWN).symptom == "too_few_choices"
    half = try_check(
        "several_choices",
        lambda request, number: reply(request, TWO[0] if request.stream else TWO),
    )
    assert half.symptom == "too_few_choices"


def test_an_empty_second_answer_is_noticed() -> None:
    assert chosen(TWO[0], Said(content="")).symptom == "no_text"


def test_three_answers_are_too_many() -> None:
    assert chosen(*TWO, TWO[0]).symptom == "wrong_choice_index"


# --- seed_repeats ---


def seeded(keeps_seed: bool | None, texts: Callable[[int], str]) -> Judgement:
    subject = Subject(published_name=NAME, manners=Manners(keeps_seed=keeps_seed))
    return try_check(
        "seed_repeats", lambda request, number: reply(request, Said(content=texts(number))), subject
    )


def test_a_seed_that_is_kept_now_and_then_is_kept() -> None:
    assert seeded(True, lambda number: f"a poem {number // 2}").verdict is Verdict.PASSED
    assert seeded(True, lambda number: f"a poem {number % 5}").verdict is Verdict.PASSED


def test_a_seed_that_is_never_kept_is_noticed_where_it_is_promised() -> None:
    assert seeded(True, lambda number: f"a poem {number}").symptom == "seed_ignored"
    assert seeded(None, lambda number: f"a poem {number}").verdict is Verdict.SKIPPED
    assert seeded(False, lambda number: f"a poem {number}").verdict is Verdict.SKIPPED


# --- logprobs_add_up ---


def entry(token: str, logprob: Any = -0.5, top: Any = (-0.5, -1.5, -2.5)) -> dict[str, Any]:
    others = [token, " b", " c", " d"]
    rows = [{"token": each, "logprob": value} for each, value in zip(others, top, strict=False)]
    return {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": rows}


def probable(
    entries: Any, *, subject: Subject = STRANGER, tokens: int = 3, **said: Any
) -> Judgement:
    answer = Said(content="It is 4", tokens=tokens, entries=entries, **said)
    return try_check("logprobs_add_up", lambda request, number: reply(request, answer), subject)


TOKENS = [entry("It"), entry(" is"), entry(" 4")]


@pytest.mark.parametrize(
    ("entries", "tokens"),
    [
        (TOKENS, 3),
        (TOKENS, 4),  # the end of the turn is counted and not listed
        ([*TOKENS, entry("<|im_end|>")], 4),
        ([entry("It"), entry("is"), entry("4")], 3),  # without their spaces
        ([*TOKENS[:2], entry(" 4", -4.0, (-0.2, -2.5, -3.9))], 3),  # drawn, not the likeliest
        ([*TOKENS[:2], entry(" 4", -9999.0, (-9999.0, -0.2, -2.5))], 3),
        ([*TOKENS[:2], entry(" 4", 0, (0, -30, -3.4e38))], 3),
        ([*TOKENS[:2], entry(" 4", 1e-6, (1e-6, -30, -31))], 3),
    ],
)
def test_probabilities_of_the_engines_are_right(entries: Any, tokens: int) -> None:
    judgement = probable(entries, tokens=tokens)
    assert judgement.verdict is Verdict.PASSED, judgement


@pytest.mark.parametrize(
    ("entries", "symptom"),
    [
        ([*TOKENS[:2], entry(" 4", 0.6, (0.6, 0.3, 0.1))], "broken_logprobs"),
        ([*TOKENS[:2], entry(" 4", None)], "broken_logprobs"),
        ([*TOKENS[:2], entry(" 4", "-1")], "broken_logprobs"),
        ([*TOKENS[:2], entry(" 4", -(10**400))], "broken_logprobs"),
        ([*TOKENS[:2], entry(" 4", -0.1, (-0.1, -0.1, -0.1))], "broken_logprobs"),
        ([*TOKENS[:2], " 4"], "broken_logprobs"),
        ([*TOKENS[:2], entry(" 4", -0.5, (-2.5, -1.5, -0.5))], "wrong_top_logprobs"),
        ([*TOKENS[:2], entry(" 4", -0.5, (-0.5,))], "wrong_top_logprobs"),
        ([*TOKENS[:2], entry(" 4", -0.2, (-0.9, -1.5, -2.5))], "wrong_top_logprobs"),
        (TOKENS[:1], "logprobs_missing"),
        ([*TOKENS[:2], entry(" five")], "logprobs_of_another_text"),
        ([], "no_logprobs"),
    ],
)
def test_probabilities_that_are_none_are_noticed(entries: Any, symptom: str) -> None:
    assert probable(entries, subject=KNOWN).symptom == symptom


def test_a_server_may_have_no_probabilities() -> None:
    judgement = try_check("logprobs_add_up", lambda request, number: refuse(request))
    assert judgement.verdict is Verdict.SKIPPED
    assert probable(None).verdict is Verdict.SKIPPED
    assert probable(None, subject=KNOWN).symptom == "no_logprobs"


def test_thoughts_may_be_listed_or_not() -> None:
    assert probable(TOKENS, tokens=9, reasoning="Hm, hm.").verdict is Verdict.PASSED
    thought = [entry("<think>"), entry("Hm"), entry("</think>"), *TOKENS]
    assert probable(thought, tokens=6, reasoning="Hm").verdict is Verdict.PASSED


# --- unicode_whole ---


def repeated(change: Callable[[str, Request, int], str], finish_reason: str = "stop") -> Judgement:
    def answer(request: Request, number: int) -> Exchange:
        text = last_text(request).split(": ", 1)[1]
        said = Said(content=change(text, request, number), finish_reason=finish_reason)
        return reply(request, said)

    return try_check("unicode_whole", answer)


def test_texts_that_come_back_are_whole() -> None:
    assert repeated(lambda text, request, number: text).verdict is Verdict.PASSED
    cut = repeated(lambda text, request, number: f"{text}\ufffd", "length")
    assert cut.verdict is Verdict.PASSED


def test_a_small_model_may_repeat_badly() -> None:
    badly = repeated(lambda text, request, number: text if number < 2 else f"{text}\ufffd!")
    assert badly.verdict is Verdict.PASSED
    other = repeated(lambda text, request, number: text[::2])
    assert other.verdict is Verdict.PASSED
    plain = repeated(lambda text, request, number: "I do not know.")
    assert plain.verdict is Verdict.SKIPPED


def test_one_bad_stream_is_no_alarm() -> None:
    judgement = repeated(lambda text, request, number: "\ufffd" if number == 1 else text)
    assert judgement.verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("change", "form"),
    [
        (
            lambda text, request, number: f"\ufffd\ufffd{text[1:]}" if request.stream else text,
            "streamed",
        ),
        (lambda text, request, number: text[2:] if request.stream else text, "streamed"),
        (lambda text, request, number: text if request.stream else "\ufffd!", "plain"),
        (lambda text, request, number: "\ufffd" * len(text), "both"),
        (lambda text, request, number: f"{text}\ud83d" if request.stream else text, "streamed"),
        (
            lambda text, request, number: text.encode().decode("latin-1"),
            "plain",
        ),
    ],
)
def test_broken_characters_are_noticed(change: Any, form: str) -> None:
    judgement = repeated(change)
    assert judgement.symptom == "broken_characters"
    assert judgement.details["form"] == form


# --- published_name ---


def named(
    ids: list[str], answering: tuple[str, ...] = (), aliases: tuple[str, ...] = ()
) -> Judgement:
    def answer(request: Request, number: int) -> Exchange:
        if request.method == "GET":
            models = [{"id": each} for each in ids]
            return Exchange(request=request, status=200, body=json.dumps({"data": models}))
        is_known = body(request)["model"] in (*answering, *ids)
        return reply(request, Said()) if is_known else refuse(request, 404, "no such model")

    return try_check("published_name", answer, Subject(published_name=NAME, aliases=aliases))


def test_aliases_are_listed_or_answer() -> None:
    assert named([NAME, "short"], aliases=("short",)).verdict is Verdict.PASSED
    assert named([NAME], ("short",), ("short",)).verdict is Verdict.PASSED
    assert named([NAME], (), ("short",)).symptom == "alias_missing"


def test_a_list_names_each_model_once_and_no_path() -> None:
    assert named([NAME, NAME]).symptom == "name_twice"
    assert named([NAME, "/models/x"]).symptom == "path_in_name"
    assert named([NAME, "org/model"]).verdict is Verdict.PASSED
    assert named([NAME, "/models/x"], aliases=("/models/x",)).verdict is Verdict.PASSED
    assert named(["another"]).symptom == "name_not_listed"
