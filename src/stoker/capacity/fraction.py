"""The share of a GPU that SGLang takes for weights and pools where none is set.

Called by the arithmetic of that engine. The rules by release are data; here is what they mean.
"""

from __future__ import annotations

from stoker.capacity.drafting import has_draft_model
from stoker.capacity.inputs import Inputs, Vision
from stoker.knowledge.capacity import ShareRule, load_sglang, need_row

_META_MIB, _LEAST_TOKENS, _TOKEN_MIB = 512, 2048, 1.5
_REQUEST_MIB, _RANK_MIB = 2, 128
_FLOOR_MIB, _FLOOR_ABOVE_MIB = 10240, 61440
_GROUP_MIB, _MANY_REQUESTS, _MANY_GROUP_MIB = 3, 300, 1.5
_VISION_SHARE, _VISION_LAYERS, _VISION_WIDTH = 0.95, 24, 1024
#: Steps of the captured sizes of prompts: up to so many tokens, in steps of so many.
_PREFILL_STEPS = ((32, 4), (256, 16), (512, 32), (1024, 64), (4096, 256), (1 << 40, 512))
_MANY_RANKS = 4
#: What a server does where prompts are read by one and answers written by another.
_READS_PROMPTS, _DECODES = "prefill", "decode"


def default_share(inputs: Inputs, total_mib: float) -> float:
    """The share for a card of so many MiB, by the driver's count."""
    rule = need_row(load_sglang().share, inputs.release)
    ranks = inputs.ranks.tensor * max(1, inputs.ranks.pipeline)
    if rule.form == "table":
        fitting = [int(key) for key in rule.ranks if int(key) <= inputs.ranks.tensor]
        return rule.ranks[str(max(fitting, default=1))]
    if rule.form == "steps":
        reserved = _reserve_by_steps(rule, total_mib, ranks) + _draft_mib(inputs, rule)
    else:
        reserved = _reserve(inputs, rule, total_mib) + _draft_mib(inputs, rule)
    share = round((total_mib - reserved) / total_mib, 3)
    vision = inputs.shape.other.vision
    if vision is None or (rule.by_role and inputs.settings.parts.batch.role == _DECODES):
        return share
    return share * _vision_factor(vision)


def chunk_tokens(inputs: Inputs, total_mib: float) -> int:
    """Tokens of a prompt in one step."""
    wanted = inputs.settings.parts.batch.chunk_tokens
    return wanted if wanted is not None else _sizes(inputs, total_mib)[0]


def graph_requests(inputs: Inputs, total_mib: float) -> int:
    """The largest captured batch."""
    batch = inputs.settings.parts.batch
    found = batch.graph_requests or _sizes(inputs, total_mib)[1]
    return min(found, batch.requests) if batch.requests else found


def _sizes(inputs: Inputs, total_mib: float) -> tuple[int, int]:
    row = need_row(load_sglang().sizes, inputs.release).find(total_mib)
    return row[1], row[3] if inputs.ranks.tensor >= _MANY_RANKS else row[2]


def _reserve_by_steps(rule: ShareRule, total_mib: float, ranks: int) -> float:
    step = next(step for step in rule.steps if total_mib < step[0])
    return step[1] + step[2] * ranks * 1024 / 10 if step[2] else step[1]


def _reserve(inputs: Inputs, rule: ShareRule, total_mib: float) -> float:
    tokens = chunk_tokens(inputs, total_mib)
    largest = graph_requests(inputs, total_mib)
    role = inputs.settings.parts.batch.role if rule.by_role else ""
    step = _decoded_tokens(inputs, largest) if role == _DECODES else tokens
    reserved = _META_MIB + max(step, _LEAST_TOKENS) * _TOKEN_MIB
    if inputs.settings.parts.batch.has_graphs and role != _READS_PROMPTS:
        reserved += largest * _REQUEST_MIB
    reserved += inputs.ranks.tensor * max(1, inputs.ranks.pipeline) * _RANK_MIB
    groups = inputs.ranks.attention_groups
    if groups > 1 and role != _READS_PROMPTS:
        reserved += largest * groups * _GROUP_MIB
        if largest > _MANY_REQUESTS:
            reserved += largest * groups * _MANY_GROUP_MIB
    if role != _DECODES:
        reserved += _prefill_mib(inputs, rule, tokens)
    return max(reserved, _FLOOR_MIB) if total_mib > _FLOOR_ABOVE_MIB else reserved


def _decoded_tokens(inputs: Inputs, largest: int) -> int:
    """Tokens of a step that reads no prompts."""
    speculation = inputs.settings.parts.speculation
    drafted = (speculation.tokens or 1) if speculation is not None else 1
    return (inputs.settings.parts.batch.requests or largest) * drafted


def _prefill_mib(inputs: Inputs, rule: ShareRule, tokens: int) -> float:
    batch = inputs.settings.parts.batch
    is_on = batch.has_prefill_graphs if batch.has_prefill_graphs is not None else batch.has_graphs
    if not is_on or (rule.prefill_is_plain and not _is_plain(inputs)):
        return 0.0
    if any(kind.latent_width for kind in inputs.shape.attention):
        return rule.latent_prefill_mib
    captured = batch.prefill_graph_tokens or min(tokens, inputs.settings.most_tokens or tokens)
    return rule.prefill_mib * _count_prefill_sizes(captured)


def _is_plain(inputs: Inputs) -> bool:
    parts, ranks = inputs.settings.parts, inputs.ranks
    is_divided = ranks.pipeline > 1 or ranks.attention_groups > 1 or bool(parts.batch.role)
    return not (is_divided or parts.host.is_on or inputs.shape.other.is_multimodal)


def _count_prefill_sizes(tokens: int) -> int:
    count, below = 0, 0
    for most, step in _PREFILL_STEPS:
        count += max(0, min(most, tokens) - below) // step
        below = most
    return count


def _draft_mib(inputs: Inputs, rule: ShareRule) -> float:
    speculation = inputs.settings.parts.speculation
    if speculation is None or not has_draft_model(inputs):
        return 0.0
    return rule.alone_draft_mib if speculation.kind == "standalone" else rule.draft_mib


def _vision_factor(vision: Vision) -> float:
    """Larger image encoders leave less."""
    layers, width = vision.layers or _VISION_LAYERS, vision.hidden_width or _VISION_WIDTH
    size = layers * width**2 / (_VISION_LAYERS * _VISION_WIDTH**2)
    return float(_VISION_SHARE * max(0.8, min(1.05, 1.0 - 0.1 * (size - 1.0))))
