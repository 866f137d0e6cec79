"""What is heard: tokens tell it, a code word too, and a model that forgets is no broken server."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from stoker.contract.judgement import Judgement
from stoker.model.contract import Exchange, Request, Verdict
from tests.contract.chat_replies import (
    Said,
    count_words,
    last_text,
    refuse,
    reply,
    try_check,
)

_TOLD = r"The code word of {name} is (\w+)\."


def hear(request: Request, roles: tuple[str, ...] = ("system", "user", "assistant")) -> Said:
    """A model that hears the messages of these roles, and the last one."""
    messages = (request.body or {})["messages"]
    heard = [each["content"] for each in messages[:-1] if each["role"] in roles]
    texts = [*heard, messages[-1]["content"]]
    tokens = sum(len(text.split()) for text in texts) + 9
    asked = re.search(r"code word of (\w+)\?", texts[-1])
    found = re.search(_TOLD.format(name=asked[1]), " ".join(texts)) if asked else None
    return Said(content=found[1].lower() if found else "I do not know.", prompt_tokens=tokens)


def tried(check: str, model: Callable[[Request], Said], **counts: bool) -> Judgement:
    def answer(request: Request, number: int) -> Exchange:
        exchange = reply(request, model(request))
        if counts.get("counted", True):
            return exchange
        return replace(exchange, body=exchange.body.replace("prompt_tokens", "other"))

    return try_check(check, answer)


@pytest.mark.parametrize("check", ["question_reaches_model", "multi_turn", "system_prompt"])
def test_a_model_that_hears_is_right(check: str) -> None:
    assert tried(check, hear).verdict is Verdict.PASSED


@pytest.mark.parametrize("check", ["multi_turn", "system_prompt"])
def test_where_nobody_counts_the_code_word_tells(check: str) -> None:
    assert tried(check, hear, counted=False).verdict is Verdict.PASSED


@pytest.mark.parametrize("is_counted", [False, True])
@pytest.mark.parametrize(
    ("check", "roles", "symptom"),
    [
        ("multi_turn", ("system", "assistant"), "history_ignored"),
        ("system_prompt", ("user", "assistant"), "system_prompt_ignored"),
    ],
)
def test_what_is_not_heard_is_noticed(
    check: str, roles: tuple[str, ...], symptom: str, is_counted: bool
) -> None:
    judgement = tried(check, lambda request: hear(request, roles), counted=is_counted)
    assert judgement.symptom == symptom


def test_what_the_model_said_itself_must_be_in_the_prompt() -> None:
    judgement = tried("multi_turn", lambda request: hear(request, ("system", "user")))
    assert judgement.symptom == "history_ignored"


@pytest.mark.parametrize("check", ["multi_turn", "system_prompt"])
def test_a_model_that_knows_no_code_word_is_not_judged_by_it(check: str) -> None:
    def forget(request: Request) -> Said:
        return Said(content="Hello!", prompt_tokens=count_words(request))

    assert tried(check, forget).verdict is Verdict.PASSED
    assert tried(check, forget, counted=False).verdict is Verdict.SKIPPED


def test_what_is_counted_and_never_heeded_is_noticed() -> None:
    def ignore(request: Request) -> Said:
        return replace(hear(request, ()), prompt_tokens=count_words(request))

    assert tried("system_prompt", ignore).symptom == "system_prompt_ignored"
    assert tried("multi_turn", ignore).symptom == "history_ignored"


def test_a_template_without_a_system_role_refuses() -> None:
    judgement = try_check(
        "system_prompt", lambda request, number: refuse(request, 400, "System role not supported")
    )
    assert judgement.verdict is Verdict.SKIPPED


def test_a_template_of_its_own_is_replaced() -> None:
    """Without a system message the prompt is longer than with a short one."""

    def model(request: Request) -> Said:
        said = hear(request)
        has_own = all(each["role"] != "system" for each in (request.body or {})["messages"])
        return replace(said, prompt_tokens=said.prompt_tokens + 30 * has_own)

    assert tried("system_prompt", model).verdict is Verdict.PASSED


def test_a_question_that_is_not_in_the_prompt_is_noticed() -> None:
    def model(request: Request) -> Said:
        return Said(prompt_tokens=min(20, count_words(request) + 14))

    lost = tried("question_reaches_model", lambda request: Said(prompt_tokens=12))
    assert lost.symptom == "question_not_in_prompt"
    assert tried("question_reaches_model", model).symptom == "question_not_in_prompt"
    uncounted = tried("question_reaches_model", hear, counted=False)
    assert uncounted.verdict is Verdict.SKIPPED


def test_few_tokens_for_many_words_are_no_alarm() -> None:
    def model(request: Request) -> Said:
        return Said(prompt_tokens=5 + len(last_text(request).split()) // 2)

    assert tried("question_reaches_model", model).verdict is Verdict.PASSED
