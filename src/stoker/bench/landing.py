"""Answers that have ended, read a slice at a time so that reading delays no other answer's moment.

:mod:`stoker.bench.load` puts them in and takes samples out. Pure: all moments are handed in.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from stoker.bench.answers import AnswerReader, Reading, describe_error
from stoker.bench.requests import Answer, Planned
from stoker.model.benchmark import Sample, TokenCount
from stoker.model.facts import Plain
from stoker.model.visible import visible

_OK = 200
#: An error's body is read as far as it comes in so many pieces.
_REFUSAL_PIECES = 64
#: So much is shown of what is no stream.
_QUOTED_CHARACTERS = 40


@dataclass(slots=True, kw_only=True)
class Landed:
    """An answer as it came. Moments are in seconds of one clock; ``pieces`` go once they are read.

    ``media_type``: what its head calls it. ``error``: why the exchange broke, empty where it did
    not.
    """

    number: int
    planned: Planned
    due: float
    sent: float
    ended: float
    status: int = 0
    media_type: str = ""
    error: str = ""
    pieces: list[tuple[float, bytes]]

    @property
    def has_failed(self) -> bool:
        """Whether it can be no answer, as far as its head tells."""
        return bool(self.error) or self.status != _OK


class Landing:
    """The answers that wait to be read, and the samples of those that were.

    ``told`` hears of each sample once it is read. ``hidden``: a secret that no error may repeat.
    """

    def __init__(
        self, told: Callable[[Sample], None] = lambda sample: None, *, hidden: str = ""
    ) -> None:
        self._told, self._hidden = told, hidden
        self.samples: list[Sample] = []
        self.started = 0.0
        self._waiting: deque[Landed] = deque()
        self._reader: AnswerReader | None = None
        self._at = 0

    def add(self, landed: Landed) -> None:
        """Put an answer behind those that wait."""
        self._waiting.append(landed)

    def read_some(self, pieces: int) -> bool:
        """Read up to so many pieces; whether something is left."""
        while pieces > 0 and self._waiting:
            landed = self._waiting[0]
            if self._reader is None:
                self._reader, self._at = AnswerReader(hidden=self._hidden), 0
            end = min(self._at + pieces, len(landed.pieces))
            for moment, piece in landed.pieces[self._at : end]:
                self._reader.feed(moment, piece)
            pieces -= max(end - self._at, 1)
            self._at = end
            if end == len(landed.pieces):
                self._waiting.popleft()
                self._keep(landed, self._reader.reading)
                self._reader = None
        return bool(self._waiting)

    def read_at_once(self, landed: Landed) -> Answer | None:
        """Read one answer on which it depends what comes next; None where it was none."""
        reader = AnswerReader(keeps_text=True, hidden=self._hidden)
        for moment, piece in landed.pieces:
            reader.feed(moment, piece)
        sample = self._keep(landed, reader.reading)
        if sample.error:
            return None
        reading = reader.reading
        return Answer(
            text="".join(reading.texts),
            tool_calls=tuple(_whole_call(call) for _, call in sorted(reading.tool_calls.items())),
            finish_reason=reading.finish_reason,
        )

    def _keep(self, landed: Landed, reading: Reading) -> Sample:
        moments = reading.moments
        sample = Sample(
            number=landed.number,
            session=landed.planned.session,
            due_seconds=landed.due - self.started,
            sent_seconds=landed.sent - self.started,
            ended_seconds=landed.ended - self.started,
            first_seconds=moments[0] - self.started if moments else None,
            last_seconds=moments[-1] - self.started if moments else None,
            gaps_us=tuple(round((after - before) * 1e6) for before, after in pairwise(moments)),
            tokens=_count_tokens(landed, reading),
            status=landed.status,
            error=_find_error(landed, reading, self._hidden),
        )
        landed.pieces = []
        self.samples.append(sample)
        self._told(sample)
        return sample


def _whole_call(call: dict[str, str]) -> dict[str, Plain]:
    function: dict[str, Plain] = {
        "name": call.get("name", ""),
        "arguments": call.get("arguments", ""),
    }
    return {"id": call.get("id", ""), "type": "function", "function": function}


def _count_tokens(landed: Landed, reading: Reading) -> TokenCount:
    return replace(reading.tokens, asked=landed.planned.asked_tokens)


def _find_error(landed: Landed, reading: Reading, hidden: str) -> str:
    """Why this is no whole answer, empty where it is one."""
    if landed.status not in (0, _OK):
        said = _read_refusal(landed, hidden)
        return f"HTTP status {landed.status}: {said}"
    if landed.error:
        return landed.error
    if reading.error:
        return reading.error
    if reading.is_whole or reading.finish_reason:
        return ""
    if reading.events:
        return "the stream ended before the answer did"
    return f"the answer is no stream of events but {_name_kind(landed, hidden)}"


def _read_refusal(landed: Landed, hidden: str) -> str:
    if _is_page(landed):
        return "a web page"
    body = b"".join(piece for _, piece in landed.pieces[:_REFUSAL_PIECES])
    try:
        return describe_error(json.loads(body), hidden=hidden)
    except (ValueError, RecursionError):
        return describe_error(body.decode("utf-8", "replace"), hidden=hidden)


def _name_kind(landed: Landed, hidden: str) -> str:
    if not landed.pieces:
        return "empty"
    if _is_page(landed):
        return "a web page"
    begin = describe_error(landed.pieces[0][1].decode("utf-8", "replace"), hidden=hidden)
    kind = visible(landed.media_type) or "bytes"
    return f"{kind} that begins with {begin[:_QUOTED_CHARACTERS]}"


def _is_page(landed: Landed) -> bool:
    begin = landed.pieces[0][1][:200].lstrip().lower() if landed.pieces else b""
    return "html" in landed.media_type or begin.startswith((b"<!doctype html", b"<html"))
