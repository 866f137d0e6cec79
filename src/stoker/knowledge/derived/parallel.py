"""Among how many GPUs a model may be divided, and among how many it should be.

Called by :mod:`stoker.knowledge.describe`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.knowledge.derived.subject import Subject
from stoker.model.facts import Plain


def derive_parallel(
    subject: Subject, *, hardware: Mapping[str, Plain], checkpoint: Mapping[str, Plain]
) -> dict[str, Plain]:
    """``tensor``: how many GPUs the weights are divided among."""
    gpus = subject.deployment.gpus
    if isinstance(gpus, int) or not isinstance(gpus, str):
        return {"tensor": gpus if isinstance(gpus, int) else len(gpus)}
    return {"tensor": hardware["count"]}
