"""Where the thoughts of a reasoning model stand in its turn, and whether they belong there.

Thoughts go into a field of their own; left in the content they end in what programs and persons
take for the answer. The checks of reasoning use this. Pure.
"""

from __future__ import annotations

from stoker.contract.completion import QUESTION
from stoker.contract.judgement import Judgement, failed, quote
from stoker.contract.markers import Kind, find_markers
from stoker.contract.reply import parse_json
from stoker.contract.tool_calls import Turn
from stoker.contract.tool_flaws import find_text_flaw
from stoker.contract.tool_questions import fit_tokens
from stoker.model.contract import Exchange, Request, Subject
from stoker.model.facts import Plain, Unknown, read_path

#: The beginnings of thoughts show where they go; whole ones need more room.
FEW_TOKENS = 192
MANY_TOKENS = 1024
_LONG_SECONDS = 240.0

#: More than the question has, whatever a template puts around it.
_PROMPT_TOKENS = 256

#: Shorter thoughts ("4") may stand in an answer without having been copied there.
_COPIED_CHARACTERS = 40


def ask_for_thoughts(
    subject: Subject, *, stream: bool = False, max_tokens: int = FEW_TOKENS, **fields: Plain
) -> Request:
    """A question that a model may think about. ``fields`` are further ones of the request."""
    streaming = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    return Request(
        method="POST",
        path="/v1/chat/completions",
        body={
            "model": subject.published_name,
            "messages": [{"role": "user", "content": QUESTION}],
            "temperature": 0,
            "max_tokens": fit_tokens(subject, max_tokens, _PROMPT_TOKENS),
            **streaming,
            **fields,
        },
        stream=stream,
        timeout_seconds=60.0 if max_tokens <= FEW_TOKENS else _LONG_SECONDS,
    )


def find_thought_flaw(turn: Turn) -> Judgement | None:
    """Why the thoughts of a turn are not apart from its content, None if they are or are none."""
    return turn.flaw or find_text_flaw(turn) or _find_marker_flaw(turn) or _find_copy(turn)


def _find_marker_flaw(turn: Turn) -> Judgement | None:
    for place, text in (("content", turn.text), ("reasoning", turn.thoughts)):
        marker = next(iter(find_markers(text, Kind.REASONING)), None)
        # Thoughts may name the mark in a sentence; at their ends it is what the parser left.
        is_left = place == "content" or (
            marker and (text.strip().startswith(marker.text) or text.strip().endswith(marker.text))
        )
        if marker and is_left:
            return failed(
                "thoughts apart from the answer, without their marks",
                f"{quote(marker.text)} in the {place} of the {turn.form} reply, as the family "
                f"{marker.family} frames its thoughts: {quote(text)}",
                "reasoning_in_content",
                marker=marker.text,
                family=marker.family,
                place=place,
                form=turn.form,
            )
    return None


def _find_copy(turn: Turn) -> Judgement | None:
    thoughts = turn.thoughts.strip()
    if len(thoughts) < _COPIED_CHARACTERS or thoughts not in turn.text:
        return None
    found = f"the thoughts again in the content of the {turn.form} reply: {quote(thoughts)}"
    return failed("thoughts apart from the answer", found, "reasoning_twice", form=turn.form)


def find_swallowed_answer(turn: Turn, expected: str) -> Judgement | None:
    """Whether a turn that ended by itself has no content: all of it was taken for thought."""
    if turn.finish_reason != "stop" or turn.text.strip() or turn.calls:
        return None
    if not turn.thoughts.strip():
        found = f"neither content nor thoughts in the {turn.form} reply"
        return failed(expected, found, "empty_answer", form=turn.form)
    found = (
        f"no content in the {turn.form} reply, which ended by itself, but thoughts: "
        f"{quote(turn.thoughts)}; the mark that ends them never came, or the parser takes all for "
        "thought"
    )
    return failed(expected, found, "answer_in_reasoning", form=turn.form)


def find_count_flaw(exchange: Exchange) -> Judgement | None:
    """What is wrong with the number of tokens of thought, where the reply gives one."""
    usage = read_path(parse_json(exchange.body), "usage")
    counts = [
        value
        for path in ("completion_tokens_details.reasoning_tokens", "reasoning_tokens")
        if not isinstance(value := read_path(usage, path), Unknown) and value is not None
    ]
    total = read_path(usage, "completion_tokens")
    for count in counts:
        is_number = isinstance(count, int) and not isinstance(count, bool)
        if not is_number or count < 0 or (isinstance(total, int) and count > total):
            shown = "no count" if isinstance(total, Unknown) else quote(total)
            found = f"{quote(count)} tokens of thought in an answer of {shown}"
            expected = "tokens of thought that are a part of the answer's"
            return failed(expected, found, "reasoning_tokens_implausible")
    return None
