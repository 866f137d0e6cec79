"""How many tokens SGLang's pools hold.

Called by :mod:`stoker.capacity.predict`. The rules by release are data
(``knowledge/data/capacity/sglang.toml``); the arithmetic is the engine's own, in whole tokens and
pages. What is free is told in bytes of the fullest rank.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.capacity import processor
from stoker.capacity.cells import (
    attention_ranks,
    find_number_type,
    index_bytes,
    layer_bytes,
    stage_layers,
)
from stoker.capacity.drafting import (
    draft_layers,
    draft_weights,
    has_draft_model,
    has_unknown_draft,
    least_share,
)
from stoker.capacity.fraction import chunk_tokens, default_share
from stoker.capacity.free_memory import free_before_bytes, total_mib
from stoker.capacity.inputs import Attention, Inputs
from stoker.capacity.intervals import about, add, exact, in_order, rising, scale, subtract
from stoker.capacity.pool import Budget, Pool, Refusal
from stoker.capacity.request_table import count_requests
from stoker.capacity.state_pools import StatePool, size_state_pool
from stoker.capacity.weights import find_target_weights, held_table_bytes
from stoker.knowledge.capacity import (
    GIB,
    MIB,
    NumberType,
    find_row,
    load_sglang,
    need_row,
)
from stoker.model.capacity import Span

#: Doubt about each reading, in bytes: ranks differ, and logs have two decimals.
_DOUBT_LOW, _DOUBT_HIGH = 0.11 * GIB, 0.05 * GIB
#: Memory that is shared with the machine moves between two readings.
_SHARED_DOUBT = 0.2 * GIB


def size_budget(inputs: Inputs, weights: Span | None) -> Budget | Refusal:
    """What is left for the pools on the fullest GPU."""
    if inputs.processor is not None:
        return processor.size_sglang(inputs, weights)
    before = free_before_bytes(inputs)
    after = inputs.readings.free_after_bytes
    if before is None:
        return Refusal(reasons=("how much memory the GPUs have free is not known: read it",))
    if after is None and weights is None:
        return Refusal(reasons=("the bytes of the weights are not known: read their headers",))
    share = _find_share(inputs)
    if share is None:
        return Refusal(reasons=("the share of the GPU is not known: set it, or name the GPU",))
    budget = _take_share(inputs, before, weights, share)
    is_settled = inputs.readings.missing_bytes is not None
    if inputs.settings.memory_share is None and _is_rough(inputs) and not is_settled:
        budget = add(budget, about(0.0, less=0.03 * before.likely, more=0.03 * before.likely))
    budget = subtract(budget, _gone_after(inputs))
    if need_row(load_sglang().pools.draft, inputs.release).form == "priced":
        budget = subtract(budget, draft_weights(inputs, weights) or exact(0.0))
    if inputs.readings.missing_bytes is not None:
        budget = subtract(budget, exact(inputs.readings.missing_bytes))
    return Budget(free_before=before, weights=weights, pools=budget, share=share)


def _take_share(inputs: Inputs, before: Span, weights: Span | None, share: float) -> Span:
    """The budget: free memory after the weights less the part of all that is left alone."""
    gap = _baseline_gap(inputs)
    alone = scale(gap, 1 - share)
    after = inputs.readings.free_after_bytes
    doubt = about(0.0, less=_DOUBT_LOW, more=_DOUBT_HIGH)
    if any(gpu.is_shared_memory for gpu in inputs.gpus):
        doubt = about(0.0, less=_SHARED_DOUBT, more=_SHARED_DOUBT)
    if after is not None:
        left = subtract(exact(after), scale(before, 1 - share), alone)
        return add(left, doubt)
    return add(subtract(scale(before, share), weights or exact(0), alone), doubt)


def _baseline_gap(inputs: Inputs) -> Span:
    row = need_row(load_sglang().baseline, inputs.release)
    ranks = inputs.ranks.tensor * max(1, inputs.ranks.pipeline)
    return exact((row.alone_mib if ranks == 1 else row.shared_mib) * MIB)


def _gone_after(inputs: Inputs) -> Span:
    """What is gone, or is kept back, between the weights and the pools."""
    rules = load_sglang()
    gone = 0.0
    if inputs.shape.other.is_multimodal:
        gone += need_row(rules.reserve, inputs.release).multimodal_mib * MIB
    lost = find_row(rules.lost, inputs.release) if inputs.release else None
    if lost is not None and _has_window_pool(inputs):
        gone += inputs.shape.layers * inputs.shape.hidden_width * lost.layer_width_bytes
    return exact(gone + held_table_bytes(inputs))


def _find_share(inputs: Inputs) -> float | None:
    if inputs.settings.memory_share is not None:
        return inputs.settings.memory_share
    sizes = [total_mib(gpu) for gpu in inputs.gpus]
    known = [size for size in sizes if size is not None]
    return default_share(inputs, min(known)) if known and len(known) == len(sizes) else None


def _is_rough(inputs: Inputs) -> bool:
    return need_row(load_sglang().share, inputs.release).is_rough


def size_pool(inputs: Inputs, budget: Span) -> Pool | Refusal:
    """The tokens that fit into a budget."""
    number = find_number_type(inputs.settings.kv_type, inputs.shape)
    if number is None:
        word = inputs.settings.kv_type
        return Refusal(reasons=(f"the number format {word} of the cache is not known",))
    sizing = Sizing(inputs=inputs, number=number)
    states = [size_state_pool(inputs, each) for each in (budget.low, budget.likely, budget.high)]
    left = _subtract_states(budget, states)
    rank_tokens = in_order(rising(left, sizing.count_tokens))
    if has_unknown_draft(inputs) and sizing.is_draft_priced:
        low = rising(scale(left, least_share()), sizing.count_tokens).low
        rank_tokens = Span(low=low, likely=rank_tokens.likely, high=rank_tokens.high)
    price = sizing.token_bytes
    groups = max(1, inputs.ranks.attention_groups)
    requests = count_requests(inputs, rank_tokens.likely, states[1].requests)
    return Pool(
        tokens=scale(rank_tokens, groups),
        rank_tokens=rank_tokens,
        token_bytes=price,
        pool_bytes=rising(rank_tokens, sizing.count_bytes),
        state_bytes=_state_span(states),
        state_requests=states[1].requests,
        draft_bytes=_draft_span(inputs, rank_tokens, sizing),
        window_tokens=sizing.window_tokens(rank_tokens.likely),
        requests=requests,
    )


def _subtract_states(budget: Span, states: list[StatePool]) -> Span:
    low, likely, high = states
    return Span(
        low=budget.low - low.bytes,
        likely=budget.likely - likely.bytes,
        high=budget.high - high.bytes,
    )


def _state_span(states: list[StatePool]) -> Span | None:
    if not any(state.slots for state in states):
        return None
    low, likely, high = (float(state.bytes) for state in states)
    return Span(low=min(low, likely), likely=likely, high=max(high, likely))


def _draft_span(inputs: Inputs, rank_tokens: Span, sizing: Sizing) -> Span | None:
    if not has_draft_model(inputs):
        return None
    weights = draft_weights(inputs, find_target_weights(inputs)) or exact(0.0)
    return add(weights, scale(rank_tokens, sizing.draft_token_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Bytes and tokens of the pools of one rank."""

    inputs: Inputs
    number: NumberType

    @property
    def token_bytes(self) -> float:
        """The price of a token in the budget."""
        price = self._price(budgeted=True)
        return price + (self.draft_token_bytes if self.is_draft_priced else 0.0)

    @property
    def draft_token_bytes(self) -> float:
        """Of the draft model's cache, for each token of the pool."""
        speculation = self.inputs.settings.parts.speculation
        drafted = draft_layers(self.inputs)
        if speculation is None or not drafted:
            return 0.0
        if speculation.shape is not None and speculation.shape.attention:
            return self._sum(speculation.shape.attention, budgeted=False)
        layers = sum(kind.layers for kind in self.inputs.shape.attention)
        return self._price(budgeted=False) * drafted / max(1, layers)

    @property
    def is_draft_priced(self) -> bool:
        """Whether the draft model's cache is in the price of a token."""
        speculation = self.inputs.settings.parts.speculation
        if speculation is None:
            return False
        row = need_row(load_sglang().pools.draft, self.inputs.release)
        return speculation.kind in row.priced_kinds

    def count_tokens(self, budget_bytes: float) -> float:
        """Whole pages of tokens; at most what is set."""
        settings = self.inputs.settings
        page = settings.page_tokens or load_sglang().usual.page_tokens
        capped = self._window_cap(page)
        if capped is not None:
            fixed = capped * self._window_bytes()
            found = (budget_bytes - fixed) / max(1.0, self._full_bytes())
        else:
            found = budget_bytes / max(1.0, self.token_bytes)
        if settings.most_tokens is not None:
            found = min(found, settings.most_tokens)
        return float(max(0, int(found)) // page * page)

    def count_bytes(self, tokens: float) -> float:
        """What the pools of so many tokens take."""
        window = self.window_tokens(tokens)
        if window is not None:
            return tokens * self._full_bytes() + window * self._window_bytes()
        return tokens * self._price(budgeted=False)

    def window_tokens(self, tokens: float) -> float | None:
        """Tokens of the sliding layers' own pool."""
        if not _has_window_pool(self.inputs):
            return None
        page = self.inputs.settings.page_tokens or load_sglang().usual.page_tokens
        capped = self._window_cap(page)
        if capped is not None:
            return min(float(capped), tokens)
        return float(int(tokens * self._ratio) // page * page)

    @property
    def _ratio(self) -> float:
        ratio = self.inputs.settings.window_ratio
        return ratio if ratio is not None else load_sglang().usual.window_ratio

    def _price(self, *, budgeted: bool) -> float:
        kinds = self.inputs.shape.attention
        if not _has_window_pool(self.inputs):
            return self._sum(kinds, budgeted=budgeted)
        form = need_row(load_sglang().window, self.inputs.release).form
        if form == "shared":
            layers = sum(kind.layers for kind in kinds)
            full = sum(kind.layers for kind in kinds if kind.window_tokens is None)
            weight = (full + self._ratio * (layers - full)) / max(1, layers)
            return self._sum(kinds, budgeted=budgeted) * weight
        return self._full_bytes() + self._ratio * self._window_bytes()

    def _full_bytes(self) -> float:
        kinds = [kind for kind in self.inputs.shape.attention if kind.window_tokens is None]
        return self._sum(tuple(kinds), budgeted=False)

    def _window_bytes(self) -> float:
        kinds = [kind for kind in self.inputs.shape.attention if kind.window_tokens is not None]
        return self._sum(tuple(kinds), budgeted=False)

    def _sum(self, kinds: tuple[Attention, ...], *, budgeted: bool) -> float:
        return sum(self._kind_bytes(kind, budgeted=budgeted) for kind in kinds)

    def _kind_bytes(self, kind: Attention, *, budgeted: bool) -> float:
        layers = stage_layers(kind.layers, self.inputs.ranks)
        row = layer_bytes(kind, attention_ranks(self.inputs.ranks), self.number)
        if kind.index_width and self.number.bytes == 1.0:
            rule = need_row(load_sglang().pools.sparse, self.inputs.release)
            row = rule.budget_row_bytes if budgeted else rule.row_bytes
        return layers * (row + index_bytes(kind))

    def _window_cap(self, page: int) -> int | None:
        """The sliding layers' tokens where requests bound them: newer releases, without reuse."""
        batch = self.inputs.settings.parts.batch
        rule = need_row(load_sglang().window, self.inputs.release)
        is_bound = rule.is_capped and not self.inputs.settings.has_prefix_reuse
        if not (is_bound and batch.requests and _has_window_pool(self.inputs)):
            return None
        sizes = [size for size in map(total_mib, self.inputs.gpus) if size is not None]
        chunk = chunk_tokens(self.inputs, min(sizes, default=1 << 17))
        windows = [kind.window_tokens or 0 for kind in self.inputs.shape.attention]
        groups = max(1, self.inputs.ranks.attention_groups)
        requests = max(1, batch.requests // groups)
        each = max(windows) + 1 + page + page
        chunks = 2 if self.inputs.settings.has_overlap else 1
        return -(-(each * requests + chunks * chunk + page) // page) * page


def _has_window_pool(inputs: Inputs) -> bool:
    rule = need_row(load_sglang().window, inputs.release)
    has_window = any(kind.window_tokens is not None for kind in inputs.shape.attention)
    return has_window and inputs.shape.model_class in rule.classes and rule.form != "none"
