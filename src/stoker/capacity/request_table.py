"""SGLang's table from requests to tokens: outside of every budget, and gigabytes at long context.

Called by that engine's arithmetic and by whoever shows where memory lies. Also tells how long one
request may be, with any engine.
"""

from __future__ import annotations

from stoker.capacity.inputs import Inputs
from stoker.capacity.llamacpp_context import divide_context
from stoker.knowledge.capacity import load_sglang


def count_requests(inputs: Inputs, pool_tokens: float, state_requests: int | None) -> int:
    """Requests that may run at the same time in one group of ranks."""
    table = load_sglang().pools.request_table
    parts = inputs.settings.parts
    wanted = parts.batch.requests
    if wanted is None and parts.speculation is not None:
        wanted = load_sglang().usual.context_draft_requests
    if wanted is not None:
        found = max(1, wanted // max(1, inputs.ranks.attention_groups))
    else:
        found = table.least
        if context := context_tokens(inputs):
            by_tokens = int(pool_tokens / context * table.for_each_context)
            found = max(min(by_tokens, table.most), table.least)
    found = min(found, max(1, int(pool_tokens // 2)))
    return min(found, state_requests) if state_requests is not None else found


def request_table_bytes(inputs: Inputs, requests: int) -> int | None:
    """Bytes of the table on each GPU; None where the context is not known."""
    context = context_tokens(inputs)
    if not context:
        return None
    table = load_sglang().pools.request_table
    speculation = inputs.settings.parts.speculation
    drafted = (speculation.tokens or 0) if speculation is not None else 0
    return (requests + 1) * (context + table.extra_tokens + drafted) * table.entry_bytes


def context_tokens(inputs: Inputs) -> int | None:
    """The longest request that the deployment allows."""
    if inputs.engine == "llamacpp":
        divided = divide_context(inputs)
        return divided.slot_tokens if divided is not None else None
    return inputs.settings.context_tokens or inputs.shape.context_tokens
