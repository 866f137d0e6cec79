"""From the bytes of one streamed answer, and when they came, to what the answer was.

:mod:`stoker.bench.load` feeds it once an answer has ended, so that reading costs no timing. It is
server-sent events with one JSON object each. Pure: the moments are handed in. It must never guess
tokens: they are what the server's usage says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.model.benchmark import TokenCount
from stoker.model.visible import visible

#: What the parts of a streamed message are called that carry tokens; `reasoning` is vLLM's name.
_TEXTS = ("content", "reasoning_content", "reasoning")
_DONE = b"[DONE]"
#: So much of an error's text is kept.
_ERROR_CHARACTERS = 300
#: No answer has as many tokens; a larger number would break the sums.
_MOST_TOKENS = 10**9
_HIDDEN = "[hidden]"


@dataclass(slots=True)
class Reading:
    """What is known of one answer. Moments are in seconds, as they were fed.

    ``events``: of whatever kind. ``moments``: one for each event that carried content.
    ``is_whole``: the server said that it was done. ``tool_calls``: id, name and arguments of each,
    by its place. ``error``: what an event of the stream said that went wrong.
    """

    events: int = 0
    moments: list[float] = field(default_factory=list)
    tokens: TokenCount = field(default_factory=TokenCount)
    texts: list[str] = field(default_factory=list)
    tool_calls: dict[int, dict[str, str]] = field(default_factory=dict)
    finish_reason: str = ""
    is_whole: bool = False
    error: str = ""


class AnswerReader:
    """Reads one answer, piece by piece. ``keeps_text``: whether the answer's words are wanted.
    ``hidden``: a secret that no error may repeat."""

    def __init__(self, *, keeps_text: bool = False, hidden: str = "") -> None:
        self.reading = Reading()
        self._keeps_text = keeps_text
        self._hidden = hidden
        #: The pieces of a line that has not ended.
        self._rest: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, moment: float, piece: bytes) -> None:
        """Take in a piece that came at ``moment``. An event belongs to the piece that ends it."""
        self._rest.append(piece)
        if b"\n" not in piece:
            return
        lines = b"".join(self._rest).split(b"\n")
        self._rest = [lines.pop()]
        for ended in lines:
            line = ended.rstrip(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].strip())
            elif not line and self._data:
                data = b"\n".join(self._data)
                self._data.clear()
                self._take(moment, data)

    def _take(self, moment: float, data: bytes) -> None:
        reading = self.reading
        reading.events += 1
        if data == _DONE:
            reading.is_whole = True
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            reading.error = reading.error or "an event of the stream is no JSON"
            return
        if not isinstance(event, dict):
            reading.error = reading.error or "an event of the stream is no object"
            return
        if event.get("error"):
            reading.error = reading.error or describe_error(event, hidden=self._hidden)
        usage = event.get("usage")
        if isinstance(usage, dict):
            reading.tokens = read_usage(usage)
        # Not a comprehension: two engines may put several parts of one event's token into choices.
        carries = False
        for choice in _objects(event.get("choices")):
            carries = self._take_choice(choice) or carries
        if carries:
            reading.moments.append(moment)

    def _take_choice(self, choice: Mapping[str, Any]) -> bool:
        """Whether a choice carries content."""
        if choice.get("finish_reason"):
            self.reading.finish_reason = str(choice["finish_reason"])
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            text = choice.get("text")
            return bool(text) and self._keep(str(text))
        calls = delta.get("tool_calls")
        if calls and self._keeps_text:
            self._keep_calls(calls)
        carries = bool(calls)
        for name in _TEXTS:
            text = delta.get(name)
            if text:
                carries = self._keep(str(text) if name == _TEXTS[0] else "") or carries
        return carries

    def _keep_calls(self, pieces: object) -> None:
        """Calls come in pieces: the id and the name once, the arguments bit by bit."""
        for piece in _objects(pieces):
            place = piece.get("index")
            place = place if isinstance(place, int) else len(self.reading.tool_calls)
            call = self.reading.tool_calls.setdefault(place, {})
            function = piece.get("function")
            function = function if isinstance(function, dict) else {}
            for name, value in (("id", piece.get("id")), ("name", function.get("name"))):
                if value:
                    call[name] = str(value)
            call["arguments"] = call.get("arguments", "") + str(function.get("arguments") or "")

    def _keep(self, text: str) -> bool:
        if self._keeps_text and text:
            self.reading.texts.append(text)
        return True


def read_usage(usage: Mapping[str, Any]) -> TokenCount:
    """The tokens that a server's usage tells."""
    details = usage.get("prompt_tokens_details")
    output_details = usage.get("completion_tokens_details")
    return TokenCount(
        prompt=_count(usage, "prompt_tokens"),
        output=_count(usage, "completion_tokens"),
        cached=_count(details, "cached_tokens"),
        reasoning=_count(output_details, "reasoning_tokens"),
    )


def describe_error(body: object, *, hidden: str = "") -> str:
    """What an error's body says, in a line. Engines put it at several places, and some repeat the
    key that they were given: ``hidden``."""
    while isinstance(body, dict):
        body = body.get("error") or body.get("message") or body.get("detail") or str(body)
    text = str(body).replace(hidden, _HIDDEN) if hidden else str(body)
    text = visible(" ".join(text.split()))
    return text[:_ERROR_CHARACTERS] or "the server said nothing"


def _count(values: object, name: str) -> int | None:
    found = values.get(name) if isinstance(values, dict) else None
    if not isinstance(found, int) or isinstance(found, bool):
        return None
    return found if 0 <= found <= _MOST_TOKENS else None


def _objects(values: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(values, list):
        yield from (each for each in values if isinstance(each, dict))
