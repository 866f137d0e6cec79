"""Requests of workloads: bodies that engines take, conversations that go on from the answer."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from itertools import combinations, islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.bench.prompts import calibrate, count_words, draw_length
from stoker.bench.requests import (
    CHAT_PATH,
    Answer,
    Planned,
    judge_lengths,
    load_tools,
    most_tokens,
    plan_calibration,
    plan_requests,
)
from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.script import MANNERS, Limits, Script
from stoker.knowledge.workloads import load_workloads, whole_length_fields
from stoker.model.benchmark import Lengths, Workload
from stoker.model.contract import Request
from stoker.model.facts import Plain

NAMES = sorted(load_workloads())
seeds = st.integers(0, 2**32)
CALL = {"id": "call_7", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}


def plan(workload: Workload | str, seed: int = 1, count: int = 3, **more: Plain) -> list[Planned]:
    if isinstance(workload, str):
        workload = load_workloads()[workload]
    planned = plan_requests(
        workload, model="m", rng=random.Random(seed), tokens_per_word=1.25, **more
    )
    return list(islice(planned, count))


def body(planned: Planned | None) -> dict[str, Plain]:
    assert planned is not None
    found = json.loads(planned.body)
    assert isinstance(found, dict)
    return found


def go_on(planned: Planned, answer: Answer) -> Planned:
    assert planned.follow is not None
    following = planned.follow(answer)
    assert following is not None
    return following


def small(**more: Plain) -> Workload:
    values: dict[str, Plain] = {
        "prompt_tokens": Lengths(median=50),
        "output_tokens": Lengths(median=20),
        "turn_tokens": Lengths(median=30),
    }
    return Workload(**{"name": "small", "title": "small", **values, **more})


# --- every workload ---


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20)
@given(seed=seeds)
def test_the_same_seed_gives_the_same_bytes(name: str, seed: int) -> None:
    assert [each.body for each in plan(name, seed, 3)] == [each.body for each in plan(name, seed)]


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_other_bytes(name: str) -> None:
    assert {each.body for each in plan(name, 1, 5)} & {
        each.body for each in plan(name, 2, 5)
    } == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_body_is_a_streamed_question_of_the_workloads_lengths(name: str) -> None:
    workload = load_workloads()[name]
    for number, planned in enumerate(plan(name, 5, 20)):
        found = body(planned)
        assert planned.path == CHAT_PATH
        assert planned.session == number
        assert planned.due_seconds is None
        assert (found["model"], found["temperature"], found["stream"]) == ("m", 0, True)
        assert found["stream_options"] == {"include_usage": True}
        assert planned.asked_tokens == found["max_tokens"] <= _most(workload.output_tokens)
        tokens = count_words(found["messages"][-1]["content"]) * 1.25
        least = workload.prompt_tokens.least if workload.prompt_tokens.spread != "fixed" else 1
        assert least - 1.25 <= tokens <= _most(workload.prompt_tokens) + 1.25


def _most(lengths: Lengths) -> int:
    return lengths.median if lengths.spread == "fixed" else lengths.most


def test_lengths_are_those_that_were_drawn() -> None:
    workload = small(prompt_tokens=Lengths(spread="uniform", median=200, least=100, most=300))
    words = [count_words(body(each)["messages"][0]["content"]) for each in plan(workload, 1, 40)]
    assert min(words) >= 80
    assert max(words) <= 240
    assert len(set(words)) > 20


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine", MANNERS)
def test_engines_take_every_workload(name: str, engine: str) -> None:
    limits = Limits(context_tokens=131_072)
    endpoint = DirectEndpoint(Core(Script(names=("m",), manners=engine, limits=limits)))
    fields = whole_length_fields(engine)
    first = plan(name, 1, 1, whole_length=fields, extra={"max_tokens": 8})[0]
    for planned in (first, *_later_turns(first)):
        asked = body(planned) | {"max_tokens": 8}
        request = Request(method="POST", path=planned.path, body=asked, stream=True)
        exchange = endpoint.exchange(request)
        assert exchange.status == 200, exchange.body
        assert exchange.events[-1] == "[DONE]"
        assert json.loads(exchange.events[-2])["usage"]["completion_tokens"] >= 1


def _later_turns(planned: Planned) -> list[Planned]:
    """The turns after one that was answered with text, and after one that called tools."""
    if planned.follow is None:
        return []
    spoken = go_on(planned, Answer(text="Let me look.", finish_reason="stop"))
    called = go_on(spoken, Answer(tool_calls=(CALL, CALL), finish_reason="tool_calls"))
    return [spoken, called]


# --- beginnings ---


def _shared(one: str, other: str) -> int:
    """How many words two texts share at their beginning."""
    pairs = zip(one.split(), other.split(), strict=False)
    return next((n for n, (left, right) in enumerate(pairs) if left != right), len(one.split()))


@pytest.mark.parametrize("name", [name for name in NAMES if not load_workloads()[name].prefixes])
@settings(max_examples=20)
@given(seed=seeds)
def test_nothing_is_shared_by_chance(name: str, seed: int) -> None:
    texts = [body(each)["messages"][0]["content"] for each in plan(name, seed, 12)]
    assert len({text.split()[0] for text in texts}) == len(texts)


def test_a_prefix_is_shared_whole_and_nothing_behind_it() -> None:
    workload = small(shape="shared_prefix", prefixes=3, prefix_tokens=100)
    found = [body(each)["messages"] for each in plan(workload, 1, 40)]
    assert [[message["role"] for message in each] for each in found] == [["system", "user"]] * 40
    prefixes = {each[0]["content"] for each in found}
    assert len(prefixes) == 3
    assert {count_words(each) for each in prefixes} == {80}
    for one, other in combinations(sorted(prefixes), 2):
        assert _shared(one, other) == 0
    questions = [each[1]["content"] for each in found]
    assert max(_shared(one, other) for one, other in combinations(questions, 2)) == 0


def test_words_without_sense_have_no_order() -> None:
    (planned,) = plan(small(shape="random", prompt_tokens=Lengths(median=2000)), 1, 1)
    words = body(planned)["messages"][0]["content"].split()
    pairs = list(pairwise(words))
    assert len(set(pairs)) / len(pairs) > 0.99


# --- what a body holds ---


def test_an_engine_goes_on_to_the_end_only_where_the_workload_wants_it() -> None:
    fields = {"ignore_eos": True}
    assert body(plan(small(), whole_length=fields)[0])["ignore_eos"] is True
    assert "ignore_eos" not in body(plan(small(stops_early=True), whole_length=fields)[0])
    assert "ignore_eos" not in body(plan(small())[0])


def test_own_fields_go_before_ours_but_a_stream_stays_one() -> None:
    extra = {"temperature": 0.7, "top_p": 0.9, "stream": False, "stream_options": {"x": 1}}
    found = body(plan(small(), extra=extra)[0])
    assert (found["temperature"], found["top_p"], found["stream"]) == (0.7, 0.9, True)
    assert found["stream_options"] == {"x": 1, "include_usage": True}
    assert found["max_tokens"] == 20


def test_a_file_is_planned_elsewhere() -> None:
    with pytest.raises(ValueError, match=r"stoker[.]bench[.]trace"):
        plan(small(shape="file"))


# --- conversations ---


def loop(**more: Plain) -> Planned:
    return plan(small(shape="tool_loop", turns=4, text="code", **more), 1, 1)[0]


def test_a_turn_repeats_all_that_was_said_and_the_servers_own_answer() -> None:
    first = loop(prefixes=1, prefix_tokens=60)
    second = go_on(first, Answer(text="Looking.", tool_calls=(CALL,), finish_reason="tool_calls"))
    third = go_on(second, Answer(text="I think so.", finish_reason="stop"))
    said = [body(each)["messages"] for each in (first, second, third)]
    assert said[1][: len(said[0])] == said[0]
    assert said[2][: len(said[1])] == said[1]
    assert said[1][-2] == {"role": "assistant", "content": "Looking.", "tool_calls": [CALL]}
    assert said[1][-1]["role"] == "tool"
    assert said[1][-1]["tool_call_id"] == "call_7"
    assert count_words(said[1][-1]["content"]) == 24
    assert said[2][-2] == {"role": "assistant", "content": "I think so."}
    assert said[2][-1]["role"] == "user"
    assert {each.session for each in (first, second, third)} == {first.session}
    assert all(body(each)["tools"] == list(load_tools()) for each in (first, second, third))


def test_a_conversation_ends_after_its_turns() -> None:
    planned, turns = loop(), 1
    while planned.follow is not None:
        planned, turns = go_on(planned, Answer(text="Yes.")), turns + 1
    assert turns == 4


def test_every_call_gets_its_own_result() -> None:
    calls = tuple({**CALL, "id": f"call_{n}"} for n in range(3))
    said = body(go_on(loop(), Answer(tool_calls=calls)))["messages"]
    assert [message["tool_call_id"] for message in said[-3:]] == ["call_0", "call_1", "call_2"]


def test_the_next_turn_does_not_depend_on_when_it_is_asked_for() -> None:
    workload = small(shape="tool_loop", turns=2)
    early = plan_requests(workload, model="m", rng=random.Random(1), tokens_per_word=1.0)
    one = go_on(next(early), Answer(text="a"))
    late = plan_requests(workload, model="m", rng=random.Random(1), tokens_per_word=1.0)
    first = next(late)
    list(islice(late, 20))
    assert go_on(first, Answer(text="a")).body == one.body


@pytest.mark.parametrize(
    "call",
    [
        {},
        {"id": None, "function": None},
        {"id": "a", "function": {"name": "read_file", "arguments": '{"path": "a.p'}},
        {"id": "a", "function": {"name": "read_file", "arguments": "[1]"}},
        {"id": "a", "function": {"name": "read_file", "arguments": {"path": "a"}}},
        {"id": "a", "function": {"name": "", "arguments": "[" * 100_000}},
    ],
    ids=["nothing", "null", "cut short", "a list", "no text", "deep"],
)
def test_a_broken_call_is_sent_back_whole(call: Mapping[str, Plain]) -> None:
    said = body(go_on(loop(), Answer(tool_calls=(call,))))["messages"]
    sent = said[-2]["tool_calls"][0]
    assert json.loads(sent["function"]["arguments"]) == {}
    assert sent["id"]
    assert sent["function"]["name"]
    assert said[-1]["tool_call_id"] == sent["id"]


def test_an_empty_answer_is_filled_in() -> None:
    """Thoughts alone leave no text, and templates refuse a turn with nothing in it."""
    said = body(go_on(loop(), Answer(text="", finish_reason="length")))["messages"]
    assert said[-2]["content"]


@given(text=st.text(), seed=seeds)
def test_whatever_was_answered_the_next_body_is_json(text: str, seed: int) -> None:
    first = plan(small(shape="tool_loop", turns=2), seed, 1)[0]
    said = body(go_on(first, Answer(text=text)))["messages"]
    assert said[-2]["content"] == (text or "I have no answer to this yet.")


# --- calibration and context ---


@pytest.mark.parametrize("name", NAMES)
def test_calibration_finds_the_template_and_the_words(name: str) -> None:
    asked = plan_calibration(load_workloads()[name], model="m", rng=random.Random(1))
    words = [each.words for each in asked]
    sent = [body(each.planned) for each in asked]
    assert [count_words(each["messages"][-1]["content"]) for each in sent] == words
    assert {each["max_tokens"] for each in sent} == {1}
    found = calibrate(words, [round(1.3 * count) + 17 for count in words])
    assert found is not None
    assert abs(found.tokens_per_word - 1.3) < 0.01
    assert abs(found.overhead_tokens - 17) < 1


def test_a_workload_that_is_longer_than_the_context_is_refused_in_one_sentence() -> None:
    workload = load_workloads()["long-prompt"]
    assert judge_lengths(workload, None) is None
    assert judge_lengths(workload, 16_384) is None
    assert judge_lengths(workload, most_tokens(workload)) is None
    said = judge_lengths(workload, 8192)
    assert said is not None
    assert "the workload long-prompt needs up to" in said
    assert "holds 8,192" in said
    assert "\n" not in said


@given(
    prompt=st.integers(1, 5000),
    output=st.integers(1, 5000),
    turns=st.integers(1, 8),
    prefix=st.integers(0, 3000),
    context=st.integers(1, 100_000),
)
def test_no_conversation_that_is_let_through_is_longer_than_the_context(
    prompt: int, output: int, turns: int, prefix: int, context: int
) -> None:
    workload = small(
        shape="chat",
        turns=turns,
        prefix_tokens=prefix,
        prompt_tokens=Lengths(median=prompt),
        output_tokens=Lengths(median=output),
        turn_tokens=Lengths(median=prompt),
    )
    chance = random.Random(1)
    drawn = prefix + turns * (
        draw_length(workload.prompt_tokens, chance) + draw_length(workload.output_tokens, chance)
    )
    if judge_lengths(workload, context) is None:
        assert drawn < context
