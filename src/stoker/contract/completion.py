"""The question of the quick contract, and reading the answer from either form of the reply.

A plain reply holds the answer whole; a streamed one holds it in pieces. Both become an
:class:`Answer`, so that both are judged by the same words. The checks use this; it is pure and
total: whatever a server sends is readable or a flaw, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.contract.judgement import Judgement, failed, quote
from stoker.contract.nonsense import Kind, find_nonsense, is_nan_note
from stoker.contract.reply import find_reply_flaw, parse_json
from stoker.model.contract import Exchange, Request
from stoker.model.facts import Plain, Unknown, read_path

#: Even the smallest models answer it, and no word of the answer is judged.
QUESTION = "What is 2+2?"
MAX_TOKENS = 32
DONE = "[DONE]"

#: The endings a question without tools can have, as the OpenAI interface names them.
_FINISH_REASONS = ("stop", "length")

_WRONG_SHAPE = "wrong_shape"


def ask(model: str, *, stream: bool = False, max_tokens: int = MAX_TOKENS) -> Request:
    """The question as a chat request, answered the same way each time as far as engines can."""
    streaming = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    return Request(
        method="POST",
        path="/v1/chat/completions",
        body={
            "model": model,
            "messages": [{"role": "user", "content": QUESTION}],
            "temperature": 0,
            "max_tokens": max_tokens,
            **streaming,
        },
        stream=stream,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The first choice of a reply as the server sent it; what is missing is None.

    ``reasoning`` is what a reasoning model thinks aloud before its ``content``. ``stop_note``
    is an engine's own word on what ended the text.
    """

    role: Plain = None
    content: Plain = None
    reasoning: Plain = None
    finish_reason: Plain = None
    stop_note: Plain = None

    @property
    def text(self) -> str:
        """What can be read: the content or, where there is none yet, the reasoning."""
        return next((text for text in (self.content, self.reasoning) if has_text(text)), "")


def has_text(value: Plain) -> bool:
    """Whether there is anything to read."""
    return isinstance(value, str) and bool(value.strip())


def describe_answer(answer: Answer) -> str:
    """The answer in a line, saying so where it is reasoning alone."""
    kind = "" if has_text(answer.content) else "no content yet, reasoning alone: "
    return f"{kind}{quote(answer.text)}"


def read_answer(body: Plain) -> Answer:
    """The answer of a plain reply; nothing in it where the body has another shape."""
    return _read_part(body, "message")


def read_chunks(events: Iterable[str]) -> tuple[Plain | Unknown, ...]:
    """The data of the events of a stream, the closing [DONE] left out."""
    return tuple(parse_json(event) for event in events if event != DONE)


def join_answer(chunks: Sequence[Plain]) -> Answer:
    """The answer of a streamed reply: the pieces in their order, the last word on the ending."""
    parts = [_read_part(chunk, "delta") for chunk in chunks]
    return Answer(
        role=next((part.role for part in parts if part.role is not None), None),
        content=_join([part.content for part in parts]),
        reasoning=_join([part.reasoning for part in parts]),
        finish_reason=_last([part.finish_reason for part in parts]),
        stop_note=_last([part.stop_note for part in parts]),
    )


def _read_part(data: Plain, holder: str) -> Answer:
    choice = _get(data, "choices.0")
    return Answer(
        role=_get(choice, f"{holder}.role"),
        content=_get(choice, f"{holder}.content"),
        reasoning=_first(choice, f"{holder}.reasoning_content", f"{holder}.reasoning"),
        finish_reason=_get(choice, "finish_reason"),
        stop_note=_first(choice, "matched_stop", "stop_reason"),
    )


def _get(data: Plain, path: str) -> Plain:
    value = read_path(data, path)
    return None if isinstance(value, Unknown) else value


def _first(data: Plain, *paths: str) -> Plain:
    return next((value for path in paths if (value := _get(data, path)) is not None), None)


def _last(values: Sequence[Plain]) -> Plain:
    return next((value for value in reversed(values) if value is not None), None)


def _join(pieces: Sequence[Plain]) -> Plain:
    """The whole text; None where no piece came; a piece that is no text where one is none."""
    present = [piece for piece in pieces if piece is not None]
    odd = next((piece for piece in present if not isinstance(piece, str)), None)
    if odd is not None or not present:
        return odd
    return "".join(present)


def find_completion_flaw(exchange: Exchange) -> Judgement | None:
    """Why this is not a plain chat reply with a readable answer, None if it is one."""
    body = parse_json(exchange.body)
    return (
        find_reply_flaw(exchange)
        or find_shape_flaw(body, "chat.completion")
        or _find_choice_flaw(body)
        or find_answer_flaw(read_answer(body))
    )


def _find_choice_flaw(body: Plain) -> Judgement | None:
    if isinstance(_get(body, "choices.0.message"), dict):
        return None
    found = f"choices: {quote(_get(body, 'choices'))}"
    return failed("a choice with a message", found, _WRONG_SHAPE)


def find_shape_flaw(data: Plain | Unknown, kind: str) -> Judgement | None:
    """Why the data is not an object of this kind of the OpenAI interface, None if it is one."""
    expected = f'a JSON object with "object": "{kind}", an id and choices'
    if isinstance(data, Unknown):
        return failed(expected, data.reason, _WRONG_SHAPE)
    if not isinstance(data, dict):
        return failed(expected, f"no object: {quote(data)}", _WRONG_SHAPE)
    if "error" in data and "choices" not in data:
        return failed(expected, f"an error: {quote(data['error'])}", "error_in_reply")
    if data.get("object") != kind:
        return failed(expected, f"object: {quote(data.get('object'))}", _WRONG_SHAPE)
    if not has_text(data.get("id")):
        return failed(expected, f"id: {quote(data.get('id'))}", _WRONG_SHAPE)
    if not isinstance(data.get("choices"), list):
        return failed(expected, f"choices: {quote(data.get('choices'))}", _WRONG_SHAPE)
    return None


def find_answer_flaw(answer: Answer) -> Judgement | None:
    """Why nobody could use this answer, None if somebody could. Its words are not judged."""
    if is_nan_note(answer.stop_note):
        found = f"the engine's note {quote(answer.stop_note)}: its numbers broke down"
        return failed("an answer that was computed", found, "nan")
    if answer.role != "assistant":
        return failed('the role "assistant"', f"the role {quote(answer.role)}", "wrong_role")
    if answer.finish_reason not in _FINISH_REASONS:
        expected = f"finish_reason {' or '.join(_FINISH_REASONS)}"
        found = f"finish_reason {quote(answer.finish_reason)}"
        return failed(expected, found, "wrong_finish_reason", finish_reason=answer.finish_reason)
    was_cut = answer.finish_reason == "length"
    return (
        _find_text_flaw("content", answer.content, was_cut=was_cut)
        or _find_text_flaw("reasoning", answer.reasoning, was_cut=was_cut)
        or _find_silence(answer)
    )


def _find_text_flaw(field: str, value: Plain, *, was_cut: bool) -> Judgement | None:
    if value is None:
        return None
    if not isinstance(value, str):
        found = f"data that is no text: {quote(value)}"
        return failed(f"text as {field}", found, _WRONG_SHAPE)
    # The token limit may cut through a character; an engine then replaces what is left of it.
    nonsense = find_nonsense(value, was_cut=was_cut)
    if nonsense is None:
        return None
    is_broken = nonsense.kind is Kind.BROKEN_CHARACTERS
    expected = f"{'whole characters' if is_broken else 'words'} in {field}"
    return failed(expected, f"{nonsense.found}: {quote(value)}", str(nonsense.kind), field=field)


def _find_silence(answer: Answer) -> Judgement | None:
    # Only the limit may end an answer before its content; clients show no thoughts.
    is_empty = answer.finish_reason == "stop" and not has_text(answer.content)
    if is_empty and has_text(answer.reasoning):
        found = f"finish_reason stop, no content, and all text as reasoning: {quote(answer.text)}"
        return failed("an answer in content", found, "empty_answer")
    if answer.text.strip("\ufffd"):
        return None
    found = f"no text, and finish_reason {answer.finish_reason}"
    return failed("an answer with text in it", found, "no_text")
