"""Broken promises of streams: their characters, their words, and their token counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from stoker.fake_engine.changing import change_choices, find_speaking, with_words, words_of
from stoker.fake_engine.fault import Data, Fault, Moment

_FULL = "full"

Chunks = Callable[[list[Data], Moment], list[Data]]

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_BEYOND = re.compile("[^\x00-\x7f]")


def _each_word(change: Callable[[str], str]) -> Chunks:
    def chunks(found: list[Data], moment: Moment) -> list[Data]:
        return [
            chunk if (text := words_of(chunk)) is None else with_words(chunk, change(text))
            for chunk in found
        ]

    return chunks


def _mangle(change: Callable[[str], str]) -> Callable[[Data, Moment], Data]:
    def on_choice(choice: Data) -> Data:
        content = (choice.get("message") or {}).get("content")
        if not content:
            return choice
        return {**choice, "message": {**choice["message"], "content": change(content)}}

    def reply(data: Data, moment: Moment) -> Data:
        return change_choices(data, on_choice)

    return reply


def _misread(text: str) -> str:
    return text.encode("utf-8", "replace").decode("latin-1")


def _replace_astral(text: str) -> str:
    return _ASTRAL.sub("\ufffd\ufffd", text)


def _replace_beyond(text: str) -> str:
    return _BEYOND.sub("\ufffd", text)


def _drop_beyond(text: str) -> str:
    return _BEYOND.sub("", text)


def _lose_middle(chunks: list[Data], moment: Moment) -> list[Data]:
    places = find_speaking(chunks)
    if len(places) < 3:
        return chunks
    lost = places[len(places) // 2]
    return [*chunks[:lost], *chunks[lost + 1 :]]


def _lose_last(chunks: list[Data], moment: Moment) -> list[Data]:
    places = find_speaking(chunks)
    return [*chunks[: places[-1]], *chunks[places[-1] + 1 :]] if len(places) > 1 else chunks


def _double_one(chunks: list[Data], moment: Moment) -> list[Data]:
    places = find_speaking(chunks)
    if len(places) < 3:
        return chunks
    place = places[len(places) // 2]
    return [*chunks[: place + 1], chunks[place], *chunks[place + 1 :]]


def _swap_two(chunks: list[Data], moment: Moment) -> list[Data]:
    places = find_speaking(chunks)
    if len(places) < 4:
        return chunks
    first, second = places[1], places[2]
    changed = list(chunks)
    changed[first], changed[second] = changed[second], changed[first]
    return changed


def _end_otherwise(chunks: list[Data], moment: Moment) -> list[Data]:
    def change(choice: Data) -> Data:
        is_end = choice.get("finish_reason") in ("stop", "length")
        other = {"stop": "length", "length": "stop"}
        return {**choice, "finish_reason": other[choice["finish_reason"]]} if is_end else choice

    return [change_choices(chunk, change) for chunk in chunks]


def _stream_fault(name: str, title: str, check: str, chunks: Chunks) -> Fault:
    killed_by = frozenset({check})
    return Fault(name=name, title=title, killed_by=killed_by, level=_FULL, chunks=chunks)


def _lose_spaces(text: str) -> str:
    return text.strip() or text


# --- the counts of a stream ---


def _final_usage(chunks: Sequence[Data]) -> int:
    """Where the counts stand, -1 where nobody asked for them."""
    places = [place for place, chunk in enumerate(chunks) if chunk.get("usage")]
    return places[-1] if places else -1


def _drop_usage(chunks: list[Data], moment: Moment) -> list[Data]:
    return [{**chunk, "usage": None} if chunk.get("usage") else chunk for chunk in chunks]


def _double_usage(chunks: list[Data], moment: Moment) -> list[Data]:
    place = _final_usage(chunks)
    return chunks if place < 0 else [*chunks[: place + 1], chunks[place], *chunks[place + 1 :]]


def _usage_first(chunks: list[Data], moment: Moment) -> list[Data]:
    place = _final_usage(chunks)
    return chunks if place < 0 else [chunks[0], chunks[place], *chunks[1:place]]


def _with_usage(change: Callable[[dict[str, Any], Sequence[Data]], dict[str, Any]]) -> Chunks:
    def on_chunks(chunks: list[Data], moment: Moment) -> list[Data]:
        place = _final_usage(chunks)
        if place < 0:
            return chunks
        usage = change(chunks[place]["usage"], chunks)
        return [*chunks[:place], {**chunks[place], "usage": usage}, *chunks[place + 1 :]]

    return on_chunks


def _count_chunks(usage: dict[str, Any], chunks: Sequence[Data]) -> dict[str, Any]:
    """Every event counts as a token, also those that carry none."""
    completion = len(chunks) + 1
    total = usage["prompt_tokens"] + completion
    return {**usage, "completion_tokens": completion, "total_tokens": total}


def _count_no_prompt(usage: dict[str, Any], chunks: Sequence[Data]) -> dict[str, Any]:
    return {**usage, "prompt_tokens": 0, "total_tokens": usage["completion_tokens"]}


def _number_ids(chunks: list[Data], moment: Moment) -> list[Data]:
    return [{**chunk, "id": f"{chunk.get('id')}-{place}"} for place, chunk in enumerate(chunks)]


def _in_milliseconds(chunks: list[Data], moment: Moment) -> list[Data]:
    return [{**chunk, "created": 1_760_000_000_000} for chunk in chunks]


def _end_early(chunks: list[Data], moment: Moment) -> list[Data]:
    places = find_speaking(chunks)
    if len(places) < 2:
        return chunks
    first = change_choices(chunks[places[0]], lambda choice: {**choice, "finish_reason": "stop"})
    return [*chunks[: places[0]], first, *chunks[places[0] + 1 :]]


def _quick_fault(name: str, title: str, chunks: Chunks) -> Fault:
    return Fault(name=name, title=title, killed_by=frozenset({"stream_ends_done"}), chunks=chunks)


def _count_too_many_cached(data: Data, moment: Moment) -> Data:
    usage = data.get("usage")
    if not isinstance(usage, dict) or "prompt_tokens" not in usage:
        return data
    details = {"cached_tokens": usage["prompt_tokens"] + 1}
    return {**data, "usage": {**usage, "prompt_tokens_details": details}}


_STREAMS = (
    _quick_fault("stream_ids_differ", "each chunk has an id of its own", _number_ids),
    _quick_fault("stream_in_milliseconds", "times are no seconds", _in_milliseconds),
    _quick_fault("stream_ends_early", "words come after the end of the answer", _end_early),
    Fault(
        name="too_many_cached",
        title="more tokens came from the cache than the prompt has",
        killed_by=frozenset({"usage_adds_up"}),
        reply=_count_too_many_cached,
    ),
    _stream_fault(
        "stream_breaks_emoji",
        "a stream sends emoji in two broken halves",
        "unicode_whole",
        _each_word(_replace_astral),
    ),
    _stream_fault(
        "stream_drops_characters",
        "a stream leaves out what is not ASCII",
        "unicode_whole",
        _each_word(_drop_beyond),
    ),
    Fault(
        name="characters_replaced",
        title="what is not ASCII is replaced in both forms",
        killed_by=frozenset({"unicode_whole"}),
        level=_FULL,
        reply=_mangle(_replace_beyond),
        chunks=_each_word(_replace_beyond),
    ),
    Fault(
        name="characters_misread",
        title="the bytes of characters are read as characters",
        killed_by=frozenset({"unicode_whole"}),
        level=_FULL,
        reply=_mangle(_misread),
    ),
    _stream_fault("stream_loses_chunk", "a chunk is lost", "stream_equals_plain", _lose_middle),
    _stream_fault("stream_loses_end", "the last words are lost", "stream_equals_plain", _lose_last),
    _stream_fault(
        "stream_doubles_chunk", "a chunk comes twice", "stream_equals_plain", _double_one
    ),
    _stream_fault("stream_swaps_chunks", "chunks change places", "stream_equals_plain", _swap_two),
    _stream_fault(
        "stream_loses_spaces",
        "a stream runs words into one",
        "stream_equals_plain",
        _each_word(_lose_spaces),
    ),
    _stream_fault(
        "stream_ends_otherwise",
        "a stream names another ending than the plain reply",
        "stream_equals_plain",
        _end_otherwise,
    ),
    _stream_fault("stream_usage_missing", "no counts in a stream", "stream_usage", _drop_usage),
    _stream_fault("stream_usage_twice", "the counts come twice", "stream_usage", _double_usage),
    _stream_fault("stream_usage_early", "the counts come first", "stream_usage", _usage_first),
    _stream_fault(
        "stream_usage_counts_chunks",
        "a stream counts its chunks",
        "stream_usage",
        _with_usage(_count_chunks),
    ),
    _stream_fault(
        "stream_usage_without_prompt",
        "a stream does not count the prompt",
        "stream_usage",
        _with_usage(_count_no_prompt),
    ),
)

FAULTS = _STREAMS
