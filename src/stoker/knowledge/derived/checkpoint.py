"""What the model's own files say of it, in the words that rules use.

Called by :mod:`stoker.knowledge.describe`.
"""

from __future__ import annotations

from stoker.knowledge.derived.subject import Subject
from stoker.model.facts import Plain, Unknown


def derive_checkpoint(subject: Subject) -> dict[str, Plain]:
    """What is known of the model; each part is Unknown where its files are not here yet."""
    seen = subject.facts.read("model")
    if isinstance(seen, Unknown):
        return {"weight_bytes": seen}
    return {"weight_bytes": seen.get("size_bytes")}
