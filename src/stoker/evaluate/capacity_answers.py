"""Predictions of recorded start-ups, and how far they are from what was logged.

Called by :mod:`stoker.evaluate.capacity` and by the comparison with other tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker.capacity.inputs import Inputs, Quantization
from stoker.capacity.intervals import about, add, cover, scale
from stoker.capacity.predict import predict
from stoker.evaluate.capacity_cases import QUESTIONS, Case
from stoker.model.capacity import Capacity, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question of one case: what was predicted, beside the tokens that were logged."""

    case: Case
    question: str
    capacity: Capacity

    @property
    def is_refused(self) -> bool:
        """No figure was given."""
        return self.capacity.kv_tokens is None

    @property
    def span(self) -> Span | None:
        """What was predicted of what an engine logs: the tokens of one group of ranks, or the bytes
        of a cache whose tokens it was told."""
        found = self.capacity.kv_tokens
        if found is None:
            return None
        if self.case.logged.kv_bytes is not None:
            doubt, price = self.case.logged.doubt_bytes, self.capacity.token_bytes or 0.0
            return add(scale(found, price), about(0.0, less=doubt, more=doubt))
        return scale(found, 1 / max(1, self.case.inputs.ranks.attention_groups))

    @property
    def found(self) -> int | None:
        """What the engine logged, in the same unit."""
        return self.case.logged.kv_bytes or self.case.logged.tokens

    @property
    def error(self) -> float | None:
        """Of the likely figure, as a fraction of the logged one; above zero is too much."""
        return None if self.span is None or not self.found else self.span.likely / self.found - 1

    @property
    def is_inside(self) -> bool:
        """Whether the interval holds what was logged."""
        span, found = self.span, self.found
        return span is not None and found is not None and span.low <= found <= span.high


def answer_cases(cases: Sequence[Case]) -> tuple[Answer, ...]:
    """All questions that the cases tell enough for."""
    found = []
    for case in cases:
        for question in QUESTIONS:
            inputs = case.question(question)
            if inputs is not None:
                capacity = _predict(inputs, case.precisions)
                found.append(Answer(case=case, question=question, capacity=capacity))
    return tuple(found)


def _predict(inputs: Inputs, precisions: Sequence[Quantization]) -> Capacity:
    """Within the bounds of all precisions that the case allows; the first that fits is likely.

    A start that came as far as its cache was of none whose weights leave no room for it.
    """
    others = [predict(_store(inputs, each)) for each in precisions]
    found = next((each for each in (predict(inputs), *others) if each.kv_tokens is not None), None)
    if found is None or found.kv_tokens is None:
        return predict(inputs)
    return replace(found, kv_tokens=cover(found.kv_tokens, [each.kv_tokens for each in others]))


def _store(inputs: Inputs, quantization: Quantization) -> Inputs:
    other = replace(inputs.shape.other, quantization=quantization)
    return replace(inputs, shape=replace(inputs.shape, other=other))


def find_percentile(values: Sequence[float], share: float) -> float:
    """Between the two nearest ranks."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
