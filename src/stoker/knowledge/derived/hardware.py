"""The GPUs that a deployment is to have, in the words that rules use.

Called by :mod:`stoker.knowledge.describe`.
"""

from __future__ import annotations

from stoker.knowledge.derived.devices import choose_gpus, may_use_gpus
from stoker.knowledge.derived.subject import Subject
from stoker.model.facts import Plain, Unknown

_ABOUT = ("arch", "capability", "name", "memory_bytes")


def derive_hardware(subject: Subject) -> dict[str, Plain]:
    """``count`` GPUs; ``arch`` (``sm_90``) and ``capability`` (90) where all are of one kind."""
    deployment = subject.deployment
    none: dict[str, Plain] = {"count": 0, **dict.fromkeys(_ABOUT)}
    if not may_use_gpus(deployment, subject.table):
        return none
    chosen = choose_gpus(deployment.gpus, subject.facts)
    if isinstance(chosen, Unknown):
        return dict.fromkeys(("count", *_ABOUT), chosen)
    if not chosen:
        return none
    first = str(chosen[0].get("compute_capability") or "")
    major, _, minor = first.partition(".")
    capability = int(major) * 10 + int(minor) if major.isdigit() and minor.isdigit() else None
    return {
        "count": len(chosen),
        "capability": capability,
        "arch": None if capability is None else f"sm_{capability}",
        "name": chosen[0].get("name"),
        "memory_bytes": min((gpu.get("memory_total_bytes") or 0 for gpu in chosen), default=0),
    }
