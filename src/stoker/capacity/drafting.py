"""What is known of a model that drafts tokens, and what it takes.

Called by the arithmetic of each engine and by whoever tells doubts.
"""

from __future__ import annotations

from stoker.capacity.inputs import Inputs
from stoker.capacity.intervals import exact
from stoker.knowledge.capacity_drafting import load_drafting
from stoker.model.capacity import Span


def has_draft_model(inputs: Inputs) -> bool:
    """Whether a model drafts tokens."""
    speculation = inputs.settings.parts.speculation
    return speculation is not None and speculation.kind not in load_drafting().ways.without_model


def draft_layers(inputs: Inputs) -> int | None:
    """Layers of the draft model that keep a cache; 0 without one, None where nobody told."""
    speculation = inputs.settings.parts.speculation
    if speculation is None or not has_draft_model(inputs):
        return 0
    if speculation.layers is not None:
        return speculation.layers
    if speculation.shape is not None:
        return sum(kind.layers for kind in speculation.shape.attention)
    return 1 if speculation.kind in load_drafting().ways.one_layer else None


def has_unknown_draft(inputs: Inputs) -> bool:
    """Whether a model drafts tokens whose layers nobody told."""
    return draft_layers(inputs) is None


def least_share() -> float:
    """Of what the target would have alone, beside a draft model that nobody described."""
    return load_drafting().unknown.least_share


def draft_weights(inputs: Inputs, target: Span | None) -> Span | None:
    """Bytes of the draft model's weights on one rank; None where they cannot even be bounded."""
    speculation = inputs.settings.parts.speculation
    if speculation is None or not has_draft_model(inputs):
        return exact(0.0)
    if speculation.weight_bytes is not None:
        return exact(float(speculation.weight_bytes))
    if target is None:
        return None
    each = target.likely / max(1, inputs.shape.layers) * (draft_layers(inputs) or 1)
    low, likely, high = (share * each for share in load_drafting().unknown.weight_shares)
    return Span(low=low, likely=likely, high=high)
