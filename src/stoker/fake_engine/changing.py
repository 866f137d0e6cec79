"""Reading and changing what flows through the fake engine: for its faults.

Pure. A fault is about one kind of request and leaves everything else as it is, so each of these
answers the same data where there is nothing to change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stoker.fake_engine.fault import Data, Moment
from stoker.fake_engine.tokens import split_tokens
from stoker.fake_engine.values import Generated, say


def turns_of(moment: Moment) -> list[Data]:
    """The messages of the question."""
    messages = moment.question.get("messages")
    return [each for each in messages if isinstance(each, dict)] if messages else []


def limit_of(moment: Moment) -> int:
    """How many tokens the answer may have; very many where nobody says."""
    question = moment.question
    return int(question.get("max_completion_tokens") or question.get("max_tokens") or 1 << 20)


def say_within_limit(generated: Generated, text: str, moment: Moment) -> Generated:
    """Another content, as long as the limit allows."""
    tokens, limit = split_tokens(text), limit_of(moment)
    is_cut = len(tokens) >= limit
    return replace(
        say(generated, ""),
        content=tokens[:limit],
        reasoning=(),
        has_end=not is_cut,
        finish_reason="length" if is_cut else "stop",
        stop_note=None,
    )


def words_of(chunk: Data) -> str | None:
    """The content of a chunk, None where it has none."""
    for choice in chunk.get("choices") or ():
        content = (choice.get("delta") or {}).get("content")
        if content:
            return str(content)
    return None


def with_words(chunk: Data, text: str) -> Data:
    """The chunk with other words."""
    choices = [
        {**choice, "delta": {**choice["delta"], "content": text}} for choice in chunk["choices"]
    ]
    return {**chunk, "choices": choices}


def find_speaking(chunks: Sequence[Data]) -> list[int]:
    """Which chunks have words in them."""
    return [place for place, chunk in enumerate(chunks) if words_of(chunk) is not None]


def change_choices(data: Data, change: Callable[[Data], Data]) -> Data:
    """The reply or chunk with each choice changed; without choices as it is."""
    if not isinstance(data.get("choices"), list):
        return data
    return {**data, "choices": [change(choice) for choice in data["choices"]]}
