"""Reading replies of /v1/responses: output items, token counts, and the events of a stream.

The check of that interface uses it. Pure and total. Servers offer it in different depth: what all
clients rest on is judged, what some servers leave out (sequence numbers, indices) only where it
stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from stoker.contract.apis import (
    Object,
    find_stream_flaw,
    find_words_flaw,
    is_count,
    read_events,
    read_items,
    read_object,
    read_text_at,
)
from stoker.contract.completion import has_text
from stoker.contract.judgement import Judgement, failed, quote
from stoker.contract.reply import find_reply_flaw, parse_json
from stoker.model.contract import Exchange
from stoker.model.facts import Plain, Unknown, read_path

#: A request that waits for its end can end in these two ways.
STATUSES = ("completed", "incomplete")

_COUNTS = ("input_tokens", "output_tokens", "total_tokens")

#: Some servers keep a few tokens of the limit for themselves.
_NEAR_LIMIT_TOKENS = 4

_CREATED = "response.created"
_LAST = tuple(f"response.{status}" for status in STATUSES)
_BROKEN_OFF = ("response.failed", "response.error", "error")
_ADDED, _DONE = "response.output_item.added", "response.output_item.done"

#: Events that bring a piece, and the event and field that hold the whole of it.
_PIECES = {
    "response.output_text.delta": ("response.output_text.done", "text"),
    "response.function_call_arguments.delta": (
        "response.function_call_arguments.done",
        "arguments",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a response object says, the same from a plain reply and from the end of a stream."""

    data: Object = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text of all messages."""
        return "".join(map(_read_item_text, read_items(self.data, "output")))

    @property
    def thoughts(self) -> str:
        """What stands in reasoning items."""
        parts = [part for item in self._items("reasoning") for part in _read_parts(item)]
        return "".join(read_text_at(part, "text") for part in parts)

    @property
    def calls(self) -> Sequence[Object]:
        """The calls of functions."""
        return self._items("function_call")

    @property
    def input_tokens(self) -> int:
        """What the server counts as the prompt."""
        return int(self.data["usage"]["input_tokens"])

    def was_cut(self, max_tokens: int) -> bool:
        """Whether the token limit may have ended it; not every server says so."""
        tokens = int(self.data["usage"]["output_tokens"])
        return self.data.get("status") == "incomplete" or tokens > max_tokens - _NEAR_LIMIT_TOKENS

    def _items(self, kind: str) -> Sequence[Object]:
        return [item for item in read_items(self.data, "output") if item.get("type") == kind]


def read_reply(exchange: Exchange) -> Reply:
    """The response object of a plain reply, or of the last event of a stream."""
    if not exchange.request.stream:
        return Reply(data=read_object(exchange))
    events = read_events(exchange)
    data = events[-1].get("response") if events else None
    return Reply(data=data if isinstance(data, dict) else {})


def find_response_flaw(exchange: Exchange, max_tokens: int) -> Judgement | None:
    """Why this is no whole reply of this interface, None if it is one."""
    return (
        find_reply_flaw(exchange)
        or (_find_order_flaw(exchange) if exchange.request.stream else _find_body_flaw(exchange))
        or _find_shape_flaw(read_reply(exchange).data)
        or _find_usage_flaw(read_reply(exchange).data, max_tokens)
        or (_find_pieces_flaw(exchange) if exchange.request.stream else None)
    )


def find_text_flaw(reply: Reply, max_tokens: int) -> Judgement | None:
    """Why nobody could read this answer, None if somebody could."""
    if not has_text(reply.text) and not has_text(reply.thoughts):
        tokens = reply.data["usage"]["output_tokens"]
        found = f"no text in {tokens} tokens of output: {quote(reply.data['output'])}"
        return failed("a message with output_text", found, "no_text")
    was_cut = reply.was_cut(max_tokens)
    return find_words_flaw(reply.text, where="output_text", was_cut=was_cut)


def _read_parts(item: Object) -> Sequence[Object]:
    return [*read_items(item, "summary"), *read_items(item, "content")]


def _read_item_text(item: Object) -> str:
    if item.get("type") != "message":
        return ""
    parts = [part for part in read_items(item, "content") if part.get("type") == "output_text"]
    return "".join(read_text_at(part, "text") for part in parts)


def _find_body_flaw(exchange: Exchange) -> Judgement | None:
    body = parse_json(exchange.body)
    if isinstance(body, dict):
        return None
    found = body.reason if isinstance(body, Unknown) else quote(body)
    return failed("a JSON object", found, "wrong_shape")


def _find_shape_flaw(data: Object) -> Judgement | None:
    expected = 'an object with "object": "response", an id, a status and a list as output'
    for name, is_right in (
        ("object", data.get("object") == "response"),
        ("id", has_text(data.get("id"))),
        ("output", isinstance(data.get("output"), list)),
    ):
        if not is_right:
            return failed(expected, f"{name}: {quote(data.get(name))}", "wrong_shape", field=name)
    if data.get("status") not in STATUSES:
        found = f"status {quote(data.get('status'))}" + _describe_error(data)
        return failed(f"status {' or '.join(STATUSES)}", found, "wrong_status")
    return _find_items_flaw(data["output"])


def _find_items_flaw(output: Sequence[Plain]) -> Judgement | None:
    expected = "output items with a type; messages of the assistant whose parts are output_text"
    for item in output:
        if not has_text(read_path(item, "type")):
            return failed(expected, quote(item), "wrong_item")
        if item["type"] != "message":
            continue
        parts: Plain = read_path(item, "content")
        is_right = item.get("role") == "assistant" and isinstance(parts, list)
        if not is_right or not all(map(_is_part, parts)):
            return failed(expected, quote(item), "wrong_item")
    return None


def _is_part(part: Plain) -> bool:
    kind = read_path(part, "type")
    return kind == "refusal" or (kind == "output_text" and isinstance(read_path(part, "text"), str))


def _describe_error(data: Object) -> str:
    error = data.get("error")
    return f" and the error {quote(error)}" if error else ""


def _find_usage_flaw(data: Object, max_tokens: int) -> Judgement | None:
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return failed("token counts under usage", f"usage: {quote(usage)}", "no_usage")
    counts: Sequence[Plain] = [usage.get(name) for name in _COUNTS]
    shown = quote({name: usage.get(name) for name in _COUNTS})
    if not all(map(is_count, counts)):
        return failed(f"whole numbers as {', '.join(_COUNTS)}", shown, "usage_wrong")
    if counts[0] + counts[1] != counts[2] or counts[0] < 1:
        return failed("token counts that add up", shown, "usage_wrong")
    has_words = bool(Reply(data=data).text.strip())
    if counts[1] > max_tokens or (has_words and counts[1] < 1):
        return failed(f"1 to {max_tokens} output tokens, as asked for", shown, "usage_wrong")
    return None


def _find_order_flaw(exchange: Exchange) -> Judgement | None:
    flaw = find_stream_flaw(exchange)
    if flaw:
        return flaw
    events = read_events(exchange)
    kinds = [event["type"] for event in events]
    broken = next((event for event in events if event["type"] in _BROKEN_OFF), None)
    expected = f"events from {_CREATED} to {' or '.join(_LAST)}"
    if broken is not None:
        return failed(expected, f"an error: {quote(broken)}", "stream_failed")
    if kinds[0] != _CREATED or kinds[-1] not in _LAST:
        found = f"the first is {quote(kinds[0])}, the last is {quote(kinds[-1])}"
        return failed(expected, found, "events_out_of_order")
    ids = {read_path(events[place], "response.id") for place in (0, -1)}
    if len(ids) != 1:
        found = " and ".join(sorted(map(str, ids)))
        return failed("one id for the whole stream", quote(found), "events_out_of_order")
    return _find_number_flaw(events) or _find_item_order_flaw(events)


def _find_number_flaw(events: Sequence[Object]) -> Judgement | None:
    """Not every server numbers its events; numbers that stand there must count up."""
    numbers = [event["sequence_number"] for event in events if "sequence_number" in event]
    expected = "sequence numbers that count up"
    if not all(map(is_count, numbers)):
        return failed(expected, quote(numbers), "events_out_of_order")
    for before, after in pairwise(numbers):
        if after <= before:
            return failed(expected, f"{after} after {before}", "events_out_of_order")
    return None


def _place(event: Object) -> str:
    """Which item an event is about: its id, or where it stands."""
    item = event.get("item_id", read_path(event, "item.id"))
    return item if isinstance(item, str) and item else str(event.get("output_index", ""))


def _find_item_order_flaw(events: Sequence[Object]) -> Judgement | None:
    """Each item is added, gets its pieces, and is done."""
    expected = f"{_ADDED}, then the pieces of the item, then {_DONE}"
    is_open: dict[str, bool] = {}
    for event in events:
        kind, place = event["type"], _place(event)
        if kind == _ADDED:
            is_open[place] = True
        elif kind in _PIECES and not is_open.get(place):
            state = "an item that was done" if place in is_open else "an item that was not added"
            return failed(expected, f"{kind} for {state}", "events_out_of_order")
        elif kind == _DONE:
            if place not in is_open:
                found = f"{_DONE} for an item that was not added"
                return failed(expected, found, "events_out_of_order")
            is_open[place] = False
    if any(is_open.values()):
        return failed(expected, f"no {_DONE} for an item", "events_out_of_order")
    return None


def _find_pieces_flaw(exchange: Exchange) -> Judgement | None:
    """What came in pieces is what stands in the events that hold it whole, and in the end."""
    events = read_events(exchange)
    for kind, (whole, name) in _PIECES.items():
        pieces = _join(events, kind)
        for event in events:
            if event["type"] != whole:
                continue
            joined = pieces.get(_place(event), "")
            if joined.strip() != read_text_at(event, name).strip():
                return _differ(f"{name} in {whole}", joined, read_text_at(event, name))
    joined = "".join(_join(events, "response.output_text.delta").values())
    text = read_reply(exchange).text
    return (
        None if joined.strip() == text.strip() else _differ("output_text at the end", joined, text)
    )


def _join(events: Sequence[Object], kind: str) -> Mapping[str, str]:
    """The pieces of each item, joined."""
    joined: dict[str, str] = {}
    for event in events:
        if event["type"] == kind:
            place = _place(event)
            joined[place] = joined.get(place, "") + read_text_at(event, "delta")
    return joined


def _differ(what: str, joined: str, whole: str) -> Judgement:
    expected = f"pieces that join to the {what}"
    found = f"{quote(joined)} in pieces, {quote(whole)} as a whole"
    return failed(expected, found, "pieces_do_not_join")
