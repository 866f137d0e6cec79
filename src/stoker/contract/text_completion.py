"""Reading replies of /v1/completions: a text that goes on, whole or in pieces.

The check of that interface uses it. Pure and total.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.contract.apis import Object, find_words_flaw, is_count
from stoker.contract.completion import DONE, find_shape_flaw, read_chunks
from stoker.contract.judgement import Judgement, failed, quote
from stoker.contract.reply import find_reply_flaw, parse_json
from stoker.model.contract import Exchange
from stoker.model.facts import Plain, Unknown, read_path

KIND = "text_completion"

_FINISH_REASONS = ("stop", "length")
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")

#: What chat templates put around turns. A server that shows it has put the prompt into one, or
#: lets the model's end of turn through.
_CHAT_MARKS = (
    *("<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    *("<start_of_turn>", "<end_of_turn>", "[/INST]", "<|endoftext|>", "<|eom_id|>"),
    *("<|start|>assistant", "<\uff5cAssistant\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The first choice of a reply; ``usage`` is empty where there is none."""

    text: str
    finish_reason: Plain
    usage: Object

    @property
    def prompt_tokens(self) -> int:
        """What the server counts as the prompt."""
        return int(self.usage["prompt_tokens"])

    @property
    def completion_tokens(self) -> int:
        """What the server counts as the text."""
        return int(self.usage["completion_tokens"])


def read_continuation(exchange: Exchange) -> Continuation:
    """What a plain or streamed reply says; only to be called on one without a flaw."""
    if not exchange.request.stream:
        return _read(parse_json(exchange.body))
    parts = [_read(chunk) for chunk in read_chunks(exchange.events)]
    endings = [part.finish_reason for part in parts if part.finish_reason is not None]
    usages = [part.usage for part in parts if part.usage]
    return Continuation(
        text="".join(part.text for part in parts),
        finish_reason=endings[-1] if endings else None,
        usage=usages[-1] if usages else {},
    )


def _read(data: Plain) -> Continuation:
    usage, text = read_path(data, "usage"), read_path(data, "choices.0.text")
    ending = read_path(data, "choices.0.finish_reason")
    return Continuation(
        text=text if isinstance(text, str) else "",
        finish_reason=None if isinstance(ending, Unknown) else ending,
        usage=usage if isinstance(usage, dict) else {},
    )


def find_continuation_flaw(exchange: Exchange, max_tokens: int) -> Judgement | None:
    """Why this is no whole and readable reply of this interface, None if it is one."""
    return (
        find_reply_flaw(exchange)
        or (_find_pieces_flaw(exchange) if exchange.request.stream else _find_body_flaw(exchange))
        or _find_ending_flaw(read_continuation(exchange), max_tokens)
        or _find_text_flaw(read_continuation(exchange))
    )


def _find_body_flaw(exchange: Exchange) -> Judgement | None:
    return _find_choice_flaw(parse_json(exchange.body), where="the reply")


def _find_choice_flaw(data: Plain, *, where: str) -> Judgement | None:
    flaw = find_shape_flaw(data, KIND)
    if flaw:
        return failed(flaw.expected, f"in {where} {flaw.found}", "wrong_shape")
    if not data["choices"] and where != "the reply":
        return None  # a chunk that only counts
    text = read_path(data, "choices.0.text")
    if isinstance(text, str):
        return None
    place = "message" if "message" in str(data["choices"])[:400] else "another place"
    shown = quote(data["choices"])
    symptom = "text_in_message" if place == "message" else "wrong_shape"
    return failed("the text in choices[0].text", f"in {where} {place}: {shown}", symptom)


def _find_pieces_flaw(exchange: Exchange) -> Judgement | None:
    events = exchange.events
    if not events:
        found = f"a plain reply: {quote(exchange.body)}" if exchange.body else "no event at all"
        return failed("a stream of events (text/event-stream)", found, "not_streamed")
    if events.count(DONE) != 1 or events[-1] != DONE:
        found = f"{events.count(DONE)} times {DONE} in {len(events)} events; the last: "
        return failed(f"one {DONE}, as the last event", found + quote(events[-1]), "no_done")
    for number, chunk in enumerate(read_chunks(events), start=1):
        flaw = _find_choice_flaw(chunk, where=f"event {number}")
        if flaw:
            return flaw
    return None


def _find_ending_flaw(part: Continuation, max_tokens: int) -> Judgement | None:
    if part.finish_reason not in _FINISH_REASONS:
        expected = f"finish_reason {' or '.join(_FINISH_REASONS)}"
        found = f"finish_reason {quote(part.finish_reason)}"
        return failed(expected, found, "wrong_finish_reason")
    if not part.usage:
        return failed("token counts under usage", "none in the reply", "no_usage")
    counts: Sequence[Plain] = [part.usage.get(name) for name in _COUNTS]
    shown = quote({name: part.usage.get(name) for name in _COUNTS})
    if not all(map(is_count, counts)) or counts[0] + counts[1] != counts[2] or counts[0] < 1:
        return failed("token counts that add up", shown, "usage_wrong")
    if counts[1] > max_tokens or (part.text.strip() and counts[1] < 1):
        return failed(f"1 to {max_tokens} tokens of text, as asked for", shown, "usage_wrong")
    return None


def _find_text_flaw(part: Continuation) -> Judgement | None:
    was_cut = part.finish_reason == "length"
    marks = [mark for mark in _CHAT_MARKS if mark in part.text]
    if marks:
        expected = "a text without the marks of a chat template"
        found = f"{quote(marks[0])} in {quote(part.text)}"
        return failed(expected, found, "chat_marks", mark=marks[0])
    return find_words_flaw(part.text, where="choices[0].text", was_cut=was_cut)
