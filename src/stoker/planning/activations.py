"""What makes changes live: derived from the changes, never part of the desired state.

The same function serves an apply and its roll-back. A restart has no inverse, so nothing is ever
undone in reverse: files are restored first, and whatever the service then needs follows from
what is observed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from stoker.model.launch import ServicePhase
from stoker.model.plan import Activation, ActivationKind, Change
from stoker.planning.actual import Actual


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How the service shall stand.

    ``phase``: RUNNING, STOPPED or ABSENT. ``digest``: of the service definition that shall run.
    ``is_verified``: whether it must have passed its contract to count.
    """

    phase: ServicePhase
    digest: str = ""
    is_verified: bool = True


def plan_activations(
    *,
    name: str,
    changes: Collection[Change],
    definitions: Collection[str],
    actual: Actual,
    wanted: Wanted,
    expected_seconds: float | None = None,
) -> tuple[Activation, ...]:
    """The activations, in order. ``definitions`` are the paths that the supervisor reads."""
    touched = tuple(change.path for change in changes if change.path in definitions)
    orphans = _end_orphans(name, actual)
    if wanted.phase is not ServicePhase.RUNNING:
        return orphans + _settle(name, touched=touched, actual=actual, wanted=wanted)
    return orphans + _run(
        name, touched=touched, actual=actual, wanted=wanted, seconds=expected_seconds
    )


def _end_orphans(name: str, actual: Actual) -> tuple[Activation, ...]:
    if not actual.orphans:
        return ()
    because = tuple(
        f"process {orphan.pid} was left over by a supervisor that died" for orphan in actual.orphans
    )
    return (Activation(kind=ActivationKind.END_ORPHANS, target=name, because=because),)


def _settle(
    name: str, *, touched: tuple[str, ...], actual: Actual, wanted: Wanted
) -> tuple[Activation, ...]:
    """Stop what runs, and let the supervisor forget what shall be absent."""
    is_absent = wanted.phase is ServicePhase.ABSENT
    activations = []
    if actual.is_live:
        activations.append(Activation(kind=ActivationKind.STOP, target=name))
    if touched or (is_absent and actual.service.phase is not ServicePhase.ABSENT):
        activations.append(Activation(kind=ActivationKind.RELOAD, target=name, because=touched))
    if is_absent and activations:
        activations.append(Activation(kind=ActivationKind.FORGET, target=name))
    return tuple(activations)


def _run(
    name: str,
    *,
    touched: tuple[str, ...],
    actual: Actual,
    wanted: Wanted,
    seconds: float | None,
) -> tuple[Activation, ...]:
    """Get the wanted definition running, with one start for however many changes."""
    is_running = actual.is_live and actual.service.phase is not ServicePhase.STOPPING
    is_right = is_running and actual.service.digest == wanted.digest
    activations = []
    if touched or not is_running:
        activations.append(Activation(kind=ActivationKind.RELOAD, target=name, because=touched))
    if not is_right:
        kind = ActivationKind.RESTART if is_running else ActivationKind.START
        because = (_why_start(actual, wanted),)
        activations.append(
            Activation(kind=kind, target=name, because=because, expected_seconds=seconds)
        )
    if wanted.is_verified and not (is_right and actual.is_verified):
        because = ("ready means verified",)
        activations.append(Activation(kind=ActivationKind.VERIFY, target=name, because=because))
    return tuple(activations)


def _why_start(actual: Actual, wanted: Wanted) -> str:
    if not actual.is_live:
        return f"the service is {actual.service.phase.value}"
    if not actual.service.digest:
        return "the running process does not say which definition it runs"
    return (
        f"the running process has definition {actual.service.digest[:12]}, "
        f"wanted is {wanted.digest[:12]}"
    )
