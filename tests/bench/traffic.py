"""Requests as an exact server would answer them: each a known time to the first token and between
tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stoker.model.benchmark import Sample, TokenCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """``per_event``: tokens that one event carries."""

    ttft: float = 0.1
    itl: float = 0.01
    tokens: int = 64
    prompt: int = 32
    per_event: int = 1

    @property
    def seconds(self) -> float:
        return self.ttft + self.itl * self.per_event * (self.events - 1)

    @property
    def events(self) -> int:
        return -(-self.tokens // self.per_event)

    def ideal(self, concurrency: int) -> float:
        return concurrency * self.tokens / self.seconds

    def answer(self, number: int, sent: float, factor: float = 1.0) -> Sample:
        """One answer; everything takes ``factor`` times as long."""
        gap_us = round(self.itl * self.per_event * factor * 1e6)
        first = sent + self.ttft * factor
        last = first + gap_us * 1e-6 * (self.events - 1)
        return Sample(
            number=number,
            due_seconds=sent,
            sent_seconds=sent,
            ended_seconds=last,
            first_seconds=first,
            last_seconds=last,
            gaps_us=(gap_us,) * (self.events - 1),
            tokens=TokenCount(prompt=self.prompt, output=self.tokens, cached=0),
        )


def closed_loop(
    server: Server,
    offsets: Sequence[float],
    requests: int,
    factor: Callable[[int], float] = lambda number: 1.0,
) -> list[Sample]:
    """One place for each offset (the moment of its first sending); the next request goes to the
    place that is free first."""
    free = sorted(offsets)
    samples = []
    for number in range(requests):
        sent = free.pop(0)
        samples.append(server.answer(number, sent, factor(number)))
        free = sorted([*free, samples[-1].ended_seconds])
    return samples
