"""How many tokens vLLM's pool holds.

Called by :mod:`stoker.capacity.predict`. vLLM asks for a share of the whole GPU, takes off what the
weights, a trial step and other libraries need, and divides the rest into blocks that all groups of
layers draw from. The rules by release are data (``knowledge/data/capacity/vllm.toml``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.capacity import processor
from stoker.capacity.cells import (
    attention_ranks,
    find_number_type,
    index_bytes,
    layer_bytes,
    stage_layers,
)
from stoker.capacity.drafting import draft_layers, draft_weights, has_unknown_draft, least_share
from stoker.capacity.free_memory import free_before_bytes, total_mib, visible_bytes
from stoker.capacity.inputs import Inputs
from stoker.capacity.intervals import about, exact, mebibytes, rising, scale, spread, subtract
from stoker.capacity.pool import Budget, Pool, Refusal
from stoker.capacity.request_table import context_tokens
from stoker.capacity.state_pools import state_bytes
from stoker.knowledge.capacity import (
    GIB,
    MIB,
    Beside,
    NumberType,
    Work,
    load_vllm,
    need_row,
)
from stoker.model.capacity import Span

_DOUBT, _RANKS_DOUBT = 0.02 * GIB, 0.1 * GIB
#: Families that differ by less than this factor are padded to the greater one.
_NEARLY_ALIKE = 1.5
#: A step without chunks holds at least so many tokens.
_LEAST_STEP = 2048


def size_budget(inputs: Inputs, weights: Span | None) -> Budget | Refusal:
    """What is left for the pool on the fullest GPU."""
    if inputs.processor is not None:
        return processor.size_vllm(inputs, weights)
    readings, settings = inputs.readings, inputs.settings
    given = settings.kv_bytes or readings.pool_bytes
    before = free_before_bytes(inputs)
    if given is not None:
        doubt = _DOUBT if settings.kv_bytes is None else 0.0
        # A log may be another rank's than the one that has least.
        ranks = inputs.ranks.tensor * inputs.ranks.pipeline
        less = doubt + (_RANKS_DOUBT if doubt and ranks > 1 else 0.0)
        found = about(float(given), less=less, more=doubt)
        return Budget(free_before=before, weights=weights, pools=_of_fullest_stage(inputs, found))
    spans = [visible_bytes(gpu) for gpu in inputs.gpus]
    known = [span for span in spans if span is not None]
    if not known or len(known) != len(spans):
        return Refusal(reasons=("how much memory the GPUs have is not known: name or read them",))
    if any(gpu.is_shared_memory for gpu in inputs.gpus):
        return Refusal(
            reasons=("the GPU shares the machine's memory; a start with its log settles the pool",)
        )
    if weights is None:
        return Refusal(reasons=("the bytes of the weights are not known: read their headers",))
    share = settings.memory_share or need_row(load_vllm().share, inputs.release).share
    asked = scale(min(known, key=lambda span: span.likely), share)
    left = subtract(asked, weights, transient_bytes(inputs), beside_bytes(inputs))
    if readings.weight_bytes is None and inputs.weight_bytes is None:
        left = subtract(left, draft_weights(inputs, weights) or exact(0.0))
    if need_row(load_vllm().graphs, inputs.release).is_taken and settings.parts.batch.has_graphs:
        left = subtract(left, graph_bytes(inputs))
    if readings.missing_bytes is not None:
        # What was in doubt is settled by that start; starts of one kind differ by this much.
        ranks = inputs.ranks.tensor * inputs.ranks.pipeline
        less = _DOUBT + (_RANKS_DOUBT if ranks > 1 else 0.0)
        left = about(left.likely - readings.missing_bytes, less=less, more=_DOUBT)
    notes = _tell_too_little(inputs, asked, share)
    return Budget(free_before=before, weights=weights, pools=left, share=share, notes=notes)


def _tell_too_little(inputs: Inputs, asked: Span, share: float) -> tuple[str, ...]:
    """vLLM compares what is free with what it asks for, before it loads anything."""
    free = [gpu.free_bytes for gpu in inputs.gpus if gpu.free_bytes is not None]
    if not free or min(free) >= asked.low:
        return ()
    wanted = f"vLLM asks for {share:g} of each GPU, {asked.likely / GIB:.1f} GiB"
    return (f"{wanted}, and does not start with less: {min(free) / GIB:.1f} GiB are free now",)


def _of_fullest_stage(inputs: Inputs, found: Span) -> Span:
    """The last stage samples, so it has less; a reading may come from any stage."""
    if inputs.ranks.pipeline == 1:
        return found
    steps = _trial(inputs)
    less = max(0.0, steps[0] - steps[1])
    return Span(low=found.low - 1.5 * less, likely=found.likely - less, high=found.high)


def transient_bytes(inputs: Inputs) -> Span:
    """What a trial step has in use at its greatest."""
    rule = load_vllm().transient
    return spread(max(_trial(inputs)), rule.spread)


def _trial(inputs: Inputs) -> tuple[float, float]:
    """Of the step that samples, and of the widest layer."""
    rule, shape, ways = load_vllm().transient, inputs.shape, max(1, inputs.ranks.tensor)
    requests, tokens = batch_sizes(inputs)
    base = rule.base_mib * MIB + tokens * shape.hidden_width * rule.hidden_bytes
    experts = shape.other.experts
    extra = 0.0
    wide = shape.intermediate_width / ways
    if experts is not None:
        rows = tokens * max(1, experts.used)
        extra = rows * (2 * experts.width / ways + shape.hidden_width) * rule.expert_bytes
        wide = 0.0
    sampling = base + extra + requests * shape.vocabulary * rule.logit_bytes
    return sampling, base + extra + tokens * wide * rule.wide_bytes


def batch_sizes(inputs: Inputs) -> tuple[int, int]:
    """Requests and tokens of one step at most."""
    batch = inputs.settings.parts.batch
    usual = processor.usual_batch(inputs)
    if usual is not None:
        return batch.requests or usual[0], batch.batch_tokens or usual[1]
    sizes = [size for size in map(total_mib, inputs.gpus) if size is not None]
    row = need_row(load_vllm().sizes, inputs.release).find(min(sizes, default=0.0))
    tokens = row[2] or max(_LEAST_STEP, context_tokens(inputs) or 0)
    return batch.requests or row[1], batch.batch_tokens or tokens


def beside_bytes(inputs: Inputs) -> Span:
    """What other libraries hold."""
    rows: Sequence[Beside] = load_vllm().beside
    row = next(row for row in rows if row.ranks[0] <= inputs.ranks.tensor <= row.ranks[1])
    return mebibytes(row.mib)


def graph_bytes(inputs: Inputs) -> Span:
    """What captured graphs take."""
    rows: Sequence[Work] = load_vllm().work
    row = next(row for row in rows if row.ranks[0] <= inputs.ranks.tensor <= row.ranks[1])
    return mebibytes(row.graphs_mib)


def size_pool(inputs: Inputs, budget: Span) -> Pool | Refusal:
    """The tokens that fit into a budget, as the release counts them."""
    word = inputs.settings.kv_type
    number = find_number_type(word, inputs.shape)
    if number is None:
        return Refusal(reasons=(f"the number format {word} of the cache is not known",))
    plan = _plan_blocks(inputs, number)
    context = context_tokens(inputs)
    form = need_row(load_vllm().count, inputs.release).form
    if form == "requests" and not context:
        form = "blocks"
    tokens = rising(budget, lambda each: _count(inputs, plan, each, form))
    if has_unknown_draft(inputs):
        tokens = Span(low=least_share() * tokens.low, likely=tokens.likely, high=tokens.high)
    states = _state_share(inputs, plan, budget)
    price = plan.token_bytes
    return Pool(
        tokens=tokens,
        rank_tokens=scale(tokens, 1 / max(1, inputs.ranks.context)),
        token_bytes=price,
        pool_bytes=rising(budget, lambda each: max(0.0, each)),
        state_bytes=states,
        state_requests=None,
        requests=batch_sizes(inputs)[0],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Layers that share a table of blocks; a ``window`` or a state (``is_state``) bounds them."""

    layers: int
    block_tokens: int
    window: int | None = None
    is_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """``groups`` of layers, all with ``size`` layers a group and pages of ``page_bytes``."""

    groups: tuple[Group, ...]
    size: int
    page_bytes: float
    block_tokens: int

    @property
    def token_bytes(self) -> float:
        """Of one token of the longest requests."""
        full = [group for group in self.groups if group.window is None and not group.is_state]
        counted = full or list(self.groups)
        return sum(self.size * self.page_bytes / group.block_tokens for group in counted)


def _plan_blocks(inputs: Inputs, number: NumberType) -> Blocks:
    families = _families(inputs, number)
    usual = inputs.settings.page_tokens or _usual_block(inputs)
    pages = [price * usual for _, price, _ in families]
    block = usual
    state = state_bytes(inputs.shape, inputs.ranks, inputs.settings.parts.state.number_type)
    state_layers = sum(stage_layers(each.layers, inputs.ranks) for each in inputs.shape.states)
    if state and state_layers and pages:
        # A block of the attention is made long enough for its page to hold one state.
        each = state / state_layers
        block = max(usual, math.ceil(each / max(pages) * usual / usual) * usual)
        pages = [price * block for _, price, _ in families]
    page = max(pages, default=1.0)
    counts = [layers for layers, _, _ in families] + ([state_layers] if state_layers else [])
    size = _group_size([count for count in counts if count])
    groups: list[Group] = []
    for layers, price, window in families:
        tokens = int(page // price) if price else block
        groups += [Group(layers=size, block_tokens=tokens, window=window)] * -(-layers // size)
    if state_layers:
        made = Group(layers=size, block_tokens=block, is_state=True)
        groups += [made] * -(-state_layers // size)
    return Blocks(groups=tuple(groups), size=size, page_bytes=page, block_tokens=block)


def _families(inputs: Inputs, number: NumberType) -> list[tuple[int, float, int | None]]:
    """Layers of the fullest stage, bytes of a token in one, and the window, of each kind."""
    draft = draft_layers(inputs) or 0
    found = []
    for number_of, kind in enumerate(inputs.shape.attention):
        row = layer_bytes(kind, attention_ranks(inputs.ranks), number)
        if kind.index_width and number.bytes == 1.0:
            row = load_vllm().sparse.row_bytes
        own = kind.layers - kind.shared_layers
        layers = stage_layers(own, inputs.ranks) + (draft if number_of == 0 else 0)
        found.append((layers, row + index_bytes(kind), kind.window_tokens))
    return found


def _usual_block(inputs: Inputs) -> int:
    blocks = load_vllm().blocks
    alone = processor.usual_block_tokens(inputs)
    if alone is not None:
        return alone
    is_latent = any(kind.latent_width for kind in inputs.shape.attention)
    return blocks.latent if is_latent else blocks.usual


def _group_size(counts: Sequence[int]) -> int:
    if not counts:
        return 1
    least, most = min(counts), max(counts)
    return most if most < least * _NEARLY_ALIKE else least


def _count(inputs: Inputs, plan: Blocks, budget_bytes: float, form: str) -> float:
    blocks = int(max(0.0, budget_bytes) // (plan.size * plan.page_bytes))
    shares = max(1, inputs.ranks.context)
    if form == "blocks":
        return float(blocks // len(plan.groups) * plan.block_tokens * shares)
    context = context_tokens(inputs) or 1
    needed = sum(_needed(inputs, group, context) for group in plan.groups)
    return float(int(blocks / needed * context))


def _needed(inputs: Inputs, group: Group, context: int) -> int:
    """Blocks of one group for a request of the longest context."""
    if group.is_state:
        speculation = inputs.settings.parts.speculation
        return 1 + ((speculation.tokens or 0) if speculation is not None else 0)
    shares = max(1, inputs.ranks.context)
    if group.window is None:
        return -(-context // (group.block_tokens * shares))
    held = min(group.window - 1 + batch_sizes(inputs)[1], context)
    return -(-held // group.block_tokens) + 1


def _state_share(inputs: Inputs, plan: Blocks, budget: Span) -> Span | None:
    groups = sum(1 for group in plan.groups if group.is_state)
    if not groups:
        return None
    requests = batch_sizes(inputs)[0]
    most = requests * groups * plan.size * plan.page_bytes
    return Span(low=0.0, likely=min(most, budget.likely / 2), high=min(most, max(0.0, budget.high)))
