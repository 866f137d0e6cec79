"""The plan as a whole: its identity, and how two plans differ."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.model.plan import Activation, Change, Image, Plan, Preparation
from stoker.model.units import canonical_json, digest_text


def plan_id(
    *,
    changes: Sequence[Change],
    activations: Sequence[Activation],
    preparations: Sequence[Preparation],
) -> str:
    """Twelve hexadecimal digits that name what a plan does; the same work has the same id.

    Expected seconds and reasons are left out: they explain, they do not act.
    """
    work = {
        "changes": [[c.path, _image_key(c.before), _image_key(c.after)] for c in changes],
        "activations": [_activation_key(a) for a in activations],
        "preparations": [[p.kind, p.target] for p in preparations],
    }
    return digest_text(canonical_json(work))[:12]


def compare_plans(saved: Plan, now: Plan) -> tuple[str, ...]:
    """Sentences for every way in which a saved plan no longer is what would be done."""
    differences: list[str] = []
    if saved.host != now.host:
        differences.append(f"it was made for host {saved.host}, this is {now.host}")
    old = {change.path: change for change in saved.changes}
    new = {change.path: change for change in now.changes}
    for path in sorted(old.keys() | new.keys()):
        differences += _compare_change(path, old.get(path), new.get(path))
    if list(map(_activation_key, saved.activations)) != list(map(_activation_key, now.activations)):
        then, today = (_names(plan) for plan in (saved, now))
        differences.append(f"activations were {then or 'none'}, now they are {today or 'none'}")
    missing = {p.target for p in now.preparations} - {p.target for p in saved.preparations}
    differences += [f"{target} must be prepared now" for target in sorted(missing)]
    return tuple(differences)


def _activation_key(activation: Activation) -> list[str]:
    """What it does: of processes that are ended, which very ones."""
    processes = (each.process for each in activation.processes)
    return [activation.kind.value, activation.target, *processes]


def _names(plan: Plan) -> str:
    return ", ".join(" ".join(_name(activation)) for activation in plan.activations)


def _name(activation: Activation) -> tuple[str, ...]:
    return (activation.kind.value, *(str(each.pid) for each in activation.processes))


def _compare_change(path: str, saved: Change | None, now: Change | None) -> list[str]:
    if saved is None:
        return [f"{path} would change now, which the plan did not show"]
    if now is None:
        return [f"{path} needs no change any more"]
    if _image_key(saved.before) != _image_key(now.before):
        return [f"{path} is not what it was when the plan was made"]
    if _image_key(saved.after) != _image_key(now.after):
        return [f"{path} would be given another content now"]
    return []


def _image_key(image: Image | None) -> list[str] | None:
    if image is None:
        return None
    return [image.digest, f"{image.mode:04o}", image.owner]
