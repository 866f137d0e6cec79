"""Desired files against actual files: what differs."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.model.plan import Change, Image


def plan_changes(
    desired: Mapping[str, Image | None],
    actual: Mapping[str, Image | None],
    reasons: Mapping[str, str],
) -> tuple[Change, ...]:
    """The changes that turn ``actual`` into ``desired``, in the order of ``desired``.

    A desired None means that the file shall not be there. Paths that are not desired are left
    alone. ``reasons`` gives a sentence for a path; others are explained by what differs.
    """
    changes = []
    for path, after in desired.items():
        before = actual.get(path)
        if _is_same(before, after):
            continue
        reason = reasons.get(path) or _explain(before, after)
        changes.append(Change(path=path, before=before, after=after, reasons=(reason,)))
    return tuple(changes)


def _is_same(before: Image | None, after: Image | None) -> bool:
    if after is None:
        return before is None
    return after.is_like(before)


def _explain(before: Image | None, after: Image | None) -> str:
    if before is None:
        return "it does not exist yet"
    if after is None:
        return "nothing needs it any more"
    if before.digest != after.digest:
        return "its content differs"
    if before.mode != after.mode:
        return f"its mode is {before.mode:04o} and shall be {after.mode:04o}"
    return f"it belongs to {before.owner or 'us'} and shall belong to {after.owner or 'us'}"
