"""The user's own requests: every form, everything that can be wrong, and replay in time."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Sequence
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.bench.lines import BLOCK_TOKENS
from stoker.bench.prompts import count_words, count_words_of
from stoker.bench.requests import CHAT_PATH, COMPLETIONS_PATH, Answer, Planned
from stoker.bench.trace import (
    Mixer,
    Recorded,
    describe_workload,
    judge_recorded,
    plan_recorded,
    read_requests,
)
from stoker.errors import UsageError
from stoker.model.facts import Plain

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
CONVERSATION = {
    "conversations": [
        {"from": "gpt", "value": "Welcome."},
        {"from": "human", "value": "How tall is it?"},
        {"from": "gpt", "value": "x" * 400},
        {"from": "human", "value": "And how wide?"},
    ]
}


def read(*lines: Plain, most: int = 1000) -> Recorded:
    text = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
    return read_requests(io.BytesIO(text.encode()), name="own.jsonl", most=most)


def refusal(*lines: Plain) -> str:
    with pytest.raises(UsageError) as refused:
        read(*lines)
    assert "\n" not in refused.value.summary
    return refused.value.summary


def plan(recorded: Recorded, count: int = 3, seed: int = 1, **more: Plain) -> list[Planned]:
    planned = plan_recorded(
        recorded, model="m", rng=random.Random(seed), tokens_per_word=1.0, **more
    )
    return list(islice(planned, count))


def body(planned: Planned) -> dict[str, Plain]:
    found = json.loads(planned.body)
    assert isinstance(found, dict)
    return found


# --- forms ---


def test_messages_go_to_chat_with_all_their_fields() -> None:
    line = {**HELLO, "model": "other", "max_tokens": 7, "top_k": 3, "stream": False}
    (planned,) = plan(read(line), 1)
    assert planned.path == CHAT_PATH
    assert planned.asked_tokens == 7
    assert body(planned) == {
        **HELLO,
        "model": "m",
        "temperature": 0,
        "max_tokens": 7,
        "top_k": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize("prompt", ["Once upon", [1, 2, 3]])
def test_a_prompt_goes_to_completions(prompt: Plain) -> None:
    (planned,) = plan(read({"prompt": prompt, "temperature": 0.5}), 1)
    assert planned.path == COMPLETIONS_PATH
    assert planned.asked_tokens is None
    assert body(planned)["prompt"] == prompt
    assert body(planned)["temperature"] == 0.5


def test_a_line_goes_before_what_is_given_for_all() -> None:
    extra = {"max_tokens": 5, "temperature": 0.2}
    one, other = plan(read(HELLO, {**HELLO, "max_tokens": 9}), 2, extra=extra)
    assert (one.asked_tokens, other.asked_tokens) == (5, 9)
    assert body(one)["temperature"] == 0.2


def test_the_length_of_a_text_is_never_forced() -> None:
    (planned,) = plan(read(HELLO), 1, whole_length={"ignore_eos": True})
    assert "ignore_eos" not in body(planned)


@pytest.mark.parametrize("url", [None, CHAT_PATH])
def test_a_line_of_a_batch_is_its_body(url: str | None) -> None:
    line = {"custom_id": "a", "method": "POST", "body": {**HELLO, "max_tokens": 3}}
    (planned,) = plan(read(line if url is None else {**line, "url": url}), 1)
    assert planned.path == CHAT_PATH
    assert planned.asked_tokens == 3
    assert "custom_id" not in body(planned)


def test_a_conversation_goes_on_with_the_servers_own_answers() -> None:
    (planned,) = plan(read(CONVERSATION), 1, extra={"max_tokens": 50})
    assert body(planned)["messages"] == [{"role": "user", "content": "How tall is it?"}]
    assert planned.asked_tokens == 100
    assert planned.follow is not None
    following = planned.follow(Answer(text="Very."))
    assert following is not None
    assert body(following)["messages"][1:] == [
        {"role": "assistant", "content": "Very."},
        {"role": "user", "content": "And how wide?"},
    ]
    assert following.asked_tokens == 50
    assert following.follow is None


def test_a_conversation_keeps_its_system_prompt() -> None:
    turns = [{"from": "system", "value": "Be brief."}, {"from": "USER", "value": "Why?"}]
    (planned,) = plan(read({"conversations": turns}), 1)
    assert [each["role"] for each in body(planned)["messages"]] == ["system", "user"]


def test_a_file_begins_again_behind_its_end() -> None:
    planned = plan(read({"prompt": "a"}, "", {"prompt": "b"}), 5)
    assert [body(each)["prompt"] for each in planned] == ["a", "b", "a", "b", "a"]
    assert [each.session for each in planned] == [0, 1, 2, 3, 4]
    assert {each.due_seconds for each in planned} == {None}


def test_a_mark_of_byte_order_and_ends_of_windows_are_no_trouble() -> None:
    text = b"\xef\xbb\xbf" + json.dumps(HELLO).encode() + b"\r\n\r\n"
    assert len(read_requests(io.BytesIO(text), name="a").lines) == 1


# --- what is wrong ---


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "it is not JSON"),
        ('{"prompt": NaN}', "NaN is no JSON number"),
        ("[" * 9 + "1", "begins with a JSON array"),
        ('{"a":' * 100_000, "it is not JSON (too deep)"),
        ("17", "it is no JSON object"),
        ({"text": "a"}, "it has none of messages, prompt, body, conversations or input_length"),
        ({"messages": []}, "messages is no list with at least one message"),
        ({"messages": [{"content": "a"}]}, "a message is an object with a role"),
        ({"messages": [{"role": "user", "content": 1}]}, "is a text or a list, not 1"),
        ({"prompt": ""}, "prompt is a text, or a list of token ids, that is not empty"),
        ({"prompt": ["a", "b"]}, "prompt is a text, or a list of token ids"),
        ({**HELLO, "n": 2}, "n is 2; only one answer a request is measured"),
        ({**HELLO, "max_tokens": 0}, "max_tokens is a whole number from 1"),
        ({**HELLO, "max_tokens": True}, "max_tokens is a whole number from 1"),
        ({"body": "a"}, "body is no JSON object"),
        ({"body": HELLO, "url": "/v1/embeddings"}, "url is one of"),
        ({"body": HELLO, "url": COMPLETIONS_PATH}, "its body is none for /v1/completions"),
        ({"conversations": 1}, "conversations is no list"),
        ({"conversations": [{"from": "human"}]}, "an object with from and value"),
        ({"conversations": [{"from": "tool", "value": "a"}]}, 'from is "tool"'),
        ({"conversations": [{"from": "gpt", "value": "a"}]}, "nobody asks anything"),
        ({"input_length": 10}, "output_length is a whole number"),
        ({"input_length": 10**9, "output_length": 1}, "input_length is a whole number from 1"),
        ({"input_length": 513, "output_length": 1, "hash_ids": [1]}, "513 tokens are 2 blocks"),
        ({"input_length": 5, "output_length": 1, "hash_ids": [-1]}, "hash_ids is no list"),
        ({**HELLO, "timestamp": "2026-01-01"}, "timestamp is a number that is not negative"),
        ({**HELLO, "timestamp": -1}, "timestamp is a number that is not negative"),
        ({**HELLO, "timestamp": 1.7e12}, "timestamp_ms is for milliseconds"),
        ('{"prompt": "a", "timestamp": 1' + "0" * 400 + "}", "timestamp_ms is for milliseconds"),
    ],
)
def test_a_wrong_line_is_told_in_one_sentence(line: Plain, problem: str) -> None:
    said = refusal(line)
    assert said.startswith("own.jsonl")
    assert problem in said


def test_all_wrong_lines_are_told_at_once() -> None:
    said = refusal(HELLO, "{", "", {"prompt": 1}, HELLO, "null")
    assert "has 3 lines that are no requests" in said
    assert [f"line {n}:" in said for n in (1, 2, 3, 4, 5, 6)] == [
        False,
        True,
        False,
        True,
        False,
        True,
    ]


def test_a_file_of_another_form_is_not_told_line_by_line() -> None:
    said = refusal(*["name,value"] * 5000)
    assert "has at least 100 lines that are no requests" in said
    assert "and 92 more" in said
    assert len(said) < 1000


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "own holds no request: it is empty"),
        (b"\n  \n\n", "own holds no request"),
        (gzip.compress(b"{}"), "own is compressed: unpack it first"),
        (b'{"prompt": "a"}\n\x00\x01', "zero byte in line 2"),
        (b'{"prompt": "a"}\n\n{"prompt": "\xff"}', "no text in UTF-8: line 3, byte 13"),
        (json.dumps([HELLO, HELLO], indent=1).encode(), "begins with a JSON array"),
        (b" " * (16 * 2**20 + 1), "line 1 is longer than 16 MiB"),
    ],
)
def test_a_file_that_is_none_gives_one_sentence(content: bytes, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_requests(io.BytesIO(content), name="own")
    assert problem in refused.value.summary


class Endless:
    """A file without an end; what it is asked for is counted."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def readline(self, size: int = -1, /) -> bytes:
        line = json.dumps(HELLO).encode() + b"\n"
        self.read_bytes += len(line)
        return line


def test_of_a_huge_file_only_what_is_needed_is_read() -> None:
    stream = Endless()
    recorded = read_requests(stream, name="huge", most=50)
    assert len(recorded.lines) == 50
    assert recorded.is_cut
    assert stream.read_bytes < 10_000
    assert describe_workload(recorded).title == "the first 50 requests of huge"


def test_a_file_that_was_read_whole_is_not_cut() -> None:
    assert not read(HELLO, HELLO, most=2).is_cut
    assert read(HELLO, HELLO, HELLO, most=2).is_cut


def plan_all(content: bytes) -> str:
    """Read a file and plan its requests; what it is refused with, or nothing."""
    try:
        recorded = read_requests(io.BytesIO(content), name="own")
    except UsageError as refused:
        return refused.summary
    assert all(json.loads(each.body) for each in plan(recorded, 3))
    return ""


@given(content=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    assert "\n" not in plan_all(content)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "from", "value"]), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = (
    *("messages", "prompt", "conversations", "body", "url", "n", "max_tokens", "timestamp"),
    *("timestamp_ms", "input_length", "output_length", "hash_ids"),
)


@given(data=st.dictionaries(st.sampled_from(KEYS), values, max_size=4))
def test_any_object_is_read_or_refused(data: dict[str, Plain]) -> None:
    assert "\n" not in plan_all(json.dumps(data).encode())


# --- replay ---


def lengths(moment: float, tokens: int, blocks: Sequence[int] = (), answer: int = 9) -> Plain:
    ids = {"hash_ids": list(blocks)} if blocks else {}
    return {"timestamp": moment, "input_length": tokens, "output_length": answer, **ids}


@pytest.mark.parametrize(("key", "scale"), [("timestamp", 1), ("timestamp_ms", 1000)])
def test_a_trace_of_texts_is_due_from_its_first_request_on(key: str, scale: int) -> None:
    begin = 1_700_000_000
    recorded = read(*({**HELLO, key: (begin + after) * scale} for after in (3.0, 0.0, 1.5)))
    assert recorded.is_trace
    assert [each.due_seconds for each in plan(recorded, 9)] == pytest.approx([0.0, 1.5, 3.0])
    faster = plan(recorded, 9, speed=2.0)
    assert [each.due_seconds for each in faster] == pytest.approx([0.0, 0.75, 1.5])
    assert key not in body(faster[0])


def test_a_trace_without_texts_is_in_milliseconds() -> None:
    recorded = read(lengths(1000, 100, [1]), lengths(4000, 600, [1, 2], answer=33))
    one, other = plan(recorded, 9, whole_length={"ignore_eos": True})
    assert (one.due_seconds, other.due_seconds) == (0.0, 3.0)
    assert other.asked_tokens == body(other)["max_tokens"] == 33
    assert body(other)["ignore_eos"] is True
    assert count_words(body(other)["messages"][0]["content"]) == 600


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf")])
def test_a_speed_that_is_none_is_refused(speed: float) -> None:
    with pytest.raises(UsageError, match="cannot be replayed"):
        plan(read(lengths(0, 10)), 1, speed=speed)


def test_moments_are_given_to_all_or_to_none() -> None:
    said = refusal({**HELLO, "timestamp": 1}, HELLO, {**HELLO, "timestamp": 2}, HELLO)
    assert said == "own.jsonl: 2 of 4 requests have no timestamp (lines 2, 4)"


block_lists = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4), min_size=2, max_size=5)


@given(blocks=block_lists, seed=st.integers(0, 2**32))
def test_equal_ids_share_their_blocks_and_nothing_more(blocks: list[list[int]], seed: int) -> None:
    recorded = read(*(lengths(n, BLOCK_TOKENS * len(ids), ids) for n, ids in enumerate(blocks)))
    texts = [_blocks_of(each) for each in plan(recorded, 9, seed)]
    assert [len(text) for text in texts] == [len(ids) for ids in blocks]
    known: dict[int, list[str]] = {}
    for ids, text in zip(blocks, texts, strict=True):
        for identity, block in zip(ids, text, strict=True):
            assert known.setdefault(identity, block) == block
    beginnings = [tuple(block[:3]) for block in known.values()]
    assert len(set(beginnings)) == len(beginnings)


def _blocks_of(planned: Planned) -> list[list[str]]:
    """The words of a prompt, a list for each block of the trace."""
    words = body(planned)["messages"][0]["content"].split()
    text = body(planned)["messages"][0]["content"]
    size = count_words_of(BLOCK_TOKENS, 1.0)
    parts: list[list[str]] = [[]]
    counted = 0
    for word in words:
        if counted == size:
            parts.append([])
            counted = 0
        parts[-1].append(word)
        counted += count_words(word)
    assert count_words(text) == size * len(parts)
    return parts


def test_requests_without_ids_share_nothing_and_come_again() -> None:
    recorded = read(*(lengths(n, 600) for n in range(50)))
    texts = [body(each)["messages"][0]["content"] for each in plan(recorded, 50)]
    assert len({tuple(text.split()[:3]) for text in texts}) == 50
    assert [each.body for each in plan(recorded, 50)] == [each.body for each in plan(recorded, 50)]
    assert plan(recorded, 1, seed=2)[0].body != plan(recorded, 1, seed=1)[0].body


@given(seed=st.integers(0, 2**64))
def test_the_mixer_fills_its_range_evenly(seed: int) -> None:
    mixer = Mixer(seed)
    drawn = [mixer.random() for _ in range(400)]
    assert all(0.0 <= each < 1.0 for each in drawn)
    assert len(set(drawn)) == 400
    assert 0.38 < sum(drawn) / len(drawn) < 0.62


# --- what it is, and whether it fits ---


def test_a_file_is_a_workload_of_its_lengths() -> None:
    workload = describe_workload(read(lengths(0, 100), lengths(5, 2000, answer=70)))
    assert workload.shape == "file"
    assert (workload.prompt_tokens.least, workload.prompt_tokens.most) == (100, 2000)
    assert (workload.output_tokens.least, workload.output_tokens.most) == (9, 70)
    assert not workload.stops_early
    assert workload.title == "2 requests of own.jsonl"
    assert describe_workload(read(CONVERSATION)).turns == 2
    assert describe_workload(read(HELLO)).stops_early


def test_requests_that_do_not_fit_are_counted_and_the_longest_is_named() -> None:
    recorded = read(lengths(0, 100), lengths(1, 4000), lengths(2, 5000), lengths(3, 4087))
    assert judge_recorded(recorded, None) is None
    assert judge_recorded(recorded, 8192) is None
    said = judge_recorded(recorded, 4096)
    assert said is not None
    assert said.startswith("1 request of own.jsonl would not fit")
    assert "4,096 tokens (line 3 needs 5,009 or more)" in said


def test_a_text_is_too_long_only_where_it_surely_is() -> None:
    text = {"prompt": "word " * 2000, "max_tokens": 100}
    assert judge_recorded(read(text), 1000) is None
    assert "line 1 needs 725 or more" in str(judge_recorded(read(text), 700))
    talk = {"messages": [{"role": "user", "content": "x" * 16_000}]}
    assert judge_recorded(read(talk), 999) is not None
