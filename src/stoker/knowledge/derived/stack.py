"""The engine and what it stands on, by version.

Called by :mod:`stoker.knowledge.describe`.
"""

from __future__ import annotations

from stoker.knowledge.derived.subject import Subject
from stoker.model.facts import Plain, Unknown


def derive_stack(subject: Subject) -> dict[str, Plain]:
    """``engine`` is its kind, ``version`` its release."""
    build = subject.build
    is_known = build != "unknown"
    version: Plain = build if is_known else Unknown(reason="the engine's version is not known")
    return {"engine": subject.table.kind, "version": version}
