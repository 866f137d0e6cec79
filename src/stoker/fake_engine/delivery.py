"""How a stream goes over the wire: events as bytes, when each is written, and in how many writes.

Pure; chance is decided by the script's seed and the number of the request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random

from stoker.fake_engine.script import LLAMACPP, SGLANG, VLLM, Delivery, Script
from stoker.fake_engine.values import Part, Response

_COMMENT = b": ping\n\n"
_MEDIA = {
    LLAMACPP: "text/event-stream",
    SGLANG: "text/event-stream; charset=utf-8",
    VLLM: "text/event-stream; charset=utf-8",
}


def deliver(
    script: Script,
    events: Sequence[str],
    tokens: Sequence[int],
    *,
    first_seconds: float,
    is_named: bool,
    number: int,
) -> Response:
    """The response that streams these events; ``tokens`` were made before each of them.

    The first write comes ``first_seconds`` after the start. ``is_named``: the kind of each event
    is told beside its data.
    """
    chance = Random(f"{script.delivery.seed}/{number}")
    parts: list[Part] = []
    for place, event in enumerate(events):
        made = tokens[place] if place < len(tokens) else 0
        seconds = made * script.timing.seconds_per_token
        if place == 0:
            seconds = first_seconds
        elif place == 1 and made:
            # The first token came with the first event.
            seconds -= script.timing.seconds_per_token
        part = Part(data=_write(event, is_named=is_named), after_seconds=seconds, tokens=made)
        parts += _scatter(part, script.delivery, chance)
    headers = {"Content-Type": _MEDIA[script.manners], "Cache-Control": "no-cache"}
    return Response(headers=headers, parts=tuple(parts), is_streamed=True)


def _write(event: str, *, is_named: bool) -> bytes:
    data = event.encode("utf-8", "backslashreplace")
    lines = b"\n".join(b"data: " + line for line in data.split(b"\n"))
    return _name(event, is_named=is_named) + lines + b"\n\n"


def _name(event: str, *, is_named: bool) -> bytes:
    if not is_named:
        return b""
    try:
        kind = json.loads(event).get("type")
    except (ValueError, AttributeError):
        return b""
    return f"event: {kind}\n".encode() if isinstance(kind, str) else b""


def _scatter(part: Part, delivery: Delivery, chance: Random) -> Iterator[Part]:
    """One event in several writes, maybe with a comment in front."""
    if delivery.comment_rate and chance.random() < delivery.comment_rate:
        yield Part(data=_COMMENT)
    count = chance.randint(1, max(1, delivery.most_writes_per_event))
    places = sorted(chance.randrange(len(part.data)) for _ in range(count - 1))
    begins = [0, *places]
    ends = [*places, len(part.data)]
    for begin, end in zip(begins, ends, strict=True):
        pause = chance.random() * delivery.pause_seconds if begin else part.after_seconds
        is_last = end == len(part.data)
        if begin < end:
            tokens = part.tokens if is_last else 0
            yield Part(data=part.data[begin:end], after_seconds=pause, tokens=tokens)
