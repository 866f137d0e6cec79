"""Which parsers of the engine read the calls and the thoughts of this model.

Called by :mod:`stoker.knowledge.describe`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.knowledge.derived.subject import Subject
from stoker.model.facts import Plain


def derive_parsers(
    subject: Subject, *, stack: Mapping[str, Plain], checkpoint: Mapping[str, Plain]
) -> dict[str, Plain]:
    """``tool_call`` and ``reasoning``: the engine's names for them, None where none is known."""
    return {"tool_call": None, "reasoning": None}
