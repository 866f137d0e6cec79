"""The pool of recurrent states, and how many requests it lets run.

Called by the arithmetic of each engine. A state has the same size however long its request is.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.capacity.cells import stage_layers
from stoker.capacity.inputs import Inputs, Ranks, Shape
from stoker.knowledge.capacity import StateRule, load_number_types, load_sglang, need_row

#: The convolution's own tokens are in 16 bit.
_CONV_BYTES = 2
_USUAL_TYPE = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePool:
    """``slots`` states in all, of ``slot_bytes`` each; ``drafted_bytes`` for drafted tokens.

    ``requests`` that may run at the same time; None where there are no states.
    """

    slots: int = 0
    slot_bytes: int = 0
    drafted_bytes: int = 0
    requests: int | None = None

    @property
    def bytes(self) -> int:
        """All of it on one GPU."""
        return self.slots * self.slot_bytes + self.drafted_bytes


def state_bytes(shape: Shape, ranks: Ranks, number_type: str) -> int:
    """Of one request on one rank."""
    ways = max(1, ranks.tensor // max(1, ranks.attention_groups))
    total = 0
    for state in shape.states:
        word = (number_type or state.state_type or _USUAL_TYPE).lower()
        found = load_number_types().get(word)
        element = found.bytes if found is not None else load_number_types()[_USUAL_TYPE].bytes
        conv = state.conv_width // ways * (state.conv_tokens - 1) * _CONV_BYTES
        heads = max(1, state.heads // ways)
        temporal = int(heads * state.key_width * state.value_width * element)
        total += stage_layers(state.layers, ranks) * (conv + temporal)
    return total


def slots_for_request(inputs: Inputs) -> int:
    """How many states SGLang keeps for each running request."""
    settings = inputs.settings
    if not settings.has_prefix_reuse:
        return 1
    wanted = settings.parts.state.strategy
    rows = load_sglang().pools.slots
    known = {row.strategy for row in rows}
    strategy = wanted if wanted in known else ""
    row = need_row([row for row in rows if row.strategy == strategy], inputs.release)
    return row.slots if settings.has_overlap else row.no_overlap_slots


def size_state_pool(inputs: Inputs, budget_bytes: float) -> StatePool:
    """The pool that SGLang makes of what is left after the weights."""
    slot_bytes = state_bytes(inputs.shape, inputs.ranks, inputs.settings.parts.state.number_type)
    if not slot_bytes:
        return StatePool()
    rule = need_row(load_sglang().pools.state, inputs.release)
    return _Sizing(inputs=inputs, rule=rule, slot_bytes=slot_bytes).size(budget_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizing:
    """What all steps of it read."""

    inputs: Inputs
    rule: StateRule
    slot_bytes: int

    def size(self, budget_bytes: float) -> StatePool:
        drafted = self._drafted_tokens()
        if self.rule.draft == "each":
            slots = self._fixed_slots()
            if slots is None:
                slots = int(self._share(budget_bytes) // self.slot_bytes // (1 + drafted))
            return self._make(slots, slots * drafted * self.slot_bytes)
        if self.rule.draft == "front":
            front = (self._requests() or 0) * drafted * self.slot_bytes
            slots = self._fixed_slots()
            if slots is None:
                slots = int(self._share(budget_bytes - front) // self.slot_bytes)
            return self._make(slots, front)
        return self._size_jointly(budget_bytes, drafted)

    def _size_jointly(self, budget_bytes: float, drafted: int) -> StatePool:
        padding, ratio = self.rule.padding, slots_for_request(self.inputs)
        slots = self._fixed_slots()
        if slots is None:
            spare = padding * self.slot_bytes * (1 + drafted)
            price = self.slot_bytes * (1 + drafted / ratio)
            slots = int((self._share(budget_bytes) - spare) // price)
        requests = min(self._requests() or slots, slots // ratio)
        return self._make(slots, (requests + padding) * drafted * self.slot_bytes if drafted else 0)

    def _share(self, budget_bytes: float) -> float:
        ratio = self.inputs.settings.parts.state.ratio or load_sglang().usual.state_ratio
        return max(0.0, budget_bytes) * ratio / (1 + ratio)

    def _fixed_slots(self) -> int | None:
        groups = max(1, self.inputs.ranks.attention_groups)
        wanted = self.inputs.settings.parts.state.slots
        if wanted is not None:
            return max(1, wanted // groups)
        if self.inputs.settings.has_prefix_reuse:
            return None
        requests = self._requests()
        return requests if requests is not None else self.rule.plain_slots

    def _requests(self) -> int | None:
        wanted = self.inputs.settings.parts.batch.requests
        speculation = self.inputs.settings.parts.speculation
        if wanted is None and speculation is not None:
            wanted = load_sglang().usual.context_draft_requests
        groups = max(1, self.inputs.ranks.attention_groups)
        return None if wanted is None else max(1, wanted // groups)

    def _drafted_tokens(self) -> int:
        speculation = self.inputs.settings.parts.speculation
        return (speculation.tokens or 0) if speculation is not None else 0

    def _make(self, slots: int, drafted_bytes: int) -> StatePool:
        slots = max(0, slots)
        requests = slots // slots_for_request(self.inputs)
        return StatePool(
            slots=slots + self.rule.padding,
            slot_bytes=self.slot_bytes,
            drafted_bytes=drafted_bytes,
            requests=requests,
        )
