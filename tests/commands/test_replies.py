"""A saved reply, in whatever form it was saved, as symptoms."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.commands.replies import read_reply


def chat(content: object, **choice: object) -> dict[str, object]:
    message = {"role": "assistant", "content": content}
    return {"object": "chat.completion", "choices": [{"message": message, **choice}]}


def stream(*pieces: str, last: dict[str, object] | None = None) -> str:
    chunks: list[dict[str, object]] = [
        {"choices": [{"delta": {"content": piece}}]} for piece in pieces
    ]
    if last:
        chunks.append({"choices": [{"delta": {}} | last]})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n"


def symptoms(text: str | bytes | dict[str, object]) -> list[str]:
    if isinstance(text, dict):
        text = json.dumps(text)
    raw = text.encode() if isinstance(text, str) else text
    return [each.symptom for each in read_reply(raw, "reply.json").symptoms]


NAN = chat("!!!!!!!!", finish_reason="stop", matched_stop="NaN happened")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NAN, ["nan", "one_character"]),
        (stream("!!!!", "!!!!", last={"finish_reason": "stop", "matched_stop": "NaN happened"}),
         ["nan", "one_character"]),
        (stream(*["!!"] * 8), ["one_character"]),
        ("!!!!!!!!!!!!", ["one_character"]),
        (f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{json.dumps(NAN)}",
         ["nan", "one_character"]),
        (f"{json.dumps(chat('4'))}\n{json.dumps(NAN)}\n", ["nan", "one_character"]),
        (json.dumps(NAN, indent=2), ["nan", "one_character"]),
        (chat("\0\0\0\0\0\0"), ["one_character"]),
        (chat("<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"),
         ["tools_marks_in_content"]),
        (chat("<think>Let me see.</think>4"), ["reasoning_marks_in_content"]),
        (chat("4<|im_end|>"), ["turn_marks_in_content"]),
        (chat("", finish_reason="stop"), ["no_text"]),
        ({"choices": [{"text": "????????????"}]}, ["one_character"]),
        ({"content": [{"type": "text", "text": "!!!!!!!!!!"}], "role": "assistant"},
         ["one_character"]),
        (b"\xff\xfe broken \xff", ["broken_characters"]),
        (chat("2 + 2 = 4."), []),
        (stream("2 + 2", " = 4."), []),
        ("The capital of France is Paris.", []),
        (chat(None, finish_reason="tool_calls"), []),
    ],
)  # fmt: skip
def test_what_a_reply_shows(text: str | bytes | dict[str, object], expected: list[str]) -> None:
    assert symptoms(text) == expected


def test_an_error_is_read_like_a_log() -> None:
    body = {"error": {"message": "CUDA out of memory. Tried to allocate 2 GiB", "code": 500}}
    found = read_reply(json.dumps(body).encode(), "r")
    assert [line.text for line in found.lines] == ["CUDA out of memory. Tried to allocate 2 GiB"]
    assert found.symptoms == ()


def test_half_characters_of_an_error_are_left_out() -> None:
    """JSON can spell them, and nothing that searches a text takes them."""
    found = read_reply(b'{"error": {"message": "\\ud800 CUDA out of memory \\ud83d\\ude00"}}', "r")
    (line,) = found.lines
    assert line.text.encode().decode().endswith("CUDA out of memory \N{GRINNING FACE}")


@pytest.mark.parametrize("head", ["", "HTTP/1.1 502 Bad Gateway\r\nServer: nginx\r\n\r\n"])
def test_a_page_is_no_answer_and_its_words_are_read(head: str) -> None:
    page = (
        "<!DOCTYPE html><html><style>p {}</style><script>!!!!!!!!!!!!!!!!!!!</script>"
        "<h1>502 Bad Gateway</h1><p>a &lt; b</p></html>"
    )
    found = read_reply((head + page).encode(), "r")
    assert [line.text for line in found.lines] == ["502 Bad Gateway", "a < b"]
    assert found.symptoms == ()
    assert read_reply(b"<html>" + b"<p>x\n" * 5000, "r").lines[-1].number == 1000


def test_more_than_anybody_saves() -> None:
    """A stream that broke off, data nested too deeply, and files of one thing alone."""
    assert symptoms(stream("2 + 2", " = 4.")[:-60]) == []
    deep = "[" * 100_000 + "]" * 100_000
    assert symptoms(f'{{"choices": [{{"message": {{"content": {deep}}}}}]}}') == []
    assert symptoms("{}\n" * 300_000) == []
    assert symptoms("!" * (5 << 20)) == ["one_character"]


@pytest.mark.parametrize("depth", range(900, 1000, 7))
def test_data_as_deep_as_can_just_be_read(depth: int) -> None:
    read_reply(f'{{"error": {"[" * depth + "]" * depth}}}'.encode(), "r")


def test_evidence_names_the_file() -> None:
    (first, _) = read_reply(json.dumps(NAN).encode(), "reply.json").symptoms
    assert first.evidence.origin == "reply.json"
    assert "NaN happened" in first.evidence.text


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_read(content: bytes) -> None:
    read_reply(content, "r")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "message", "content", "text", "error", "delta", "output"]
                ),
                inner,
                max_size=3,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_read(value: object) -> None:
    read_reply(json.dumps(value).encode(), "r")


@pytest.mark.parametrize("raw", ["[" * 100_000, "{" * 100_000, '{"choices": [{"message": {"cont'])
def test_half_a_document_is_no_answer(raw: str) -> None:
    found = read_reply(raw.encode(), "reply.json")
    assert not found.symptoms
    assert [line.text for line in found.lines] == [
        "Error: this reply is JSON that is cut short or broken"
    ]
