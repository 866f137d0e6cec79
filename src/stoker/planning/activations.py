"""What makes changes live: derived from the changes, never part of the desired state.

The same function serves an apply and its roll-back. A restart has no inverse, so nothing is ever
undone in reverse: files are restored first, and whatever the service then needs follows from
what is observed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stoker.errors import UsageError
from stoker.model.launch import DriftKind, ServicePhase
from stoker.model.plan import Activation, ActivationKind, Change, NamedProcess
from stoker.planning.actual import Actual

_STARTS = (ActivationKind.START, ActivationKind.RESTART)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How the service shall stand.

    ``phase``: RUNNING, STOPPED or ABSENT. ``digest``: of the service definition that shall run.
    ``is_verified``: whether it must have passed its contract to count. ``gpus``: the addresses of
    those that it is to have.
    """

    phase: ServicePhase
    digest: str = ""
    is_verified: bool = True
    gpus: tuple[str, ...] = ()


def plan_activations(
    *,
    name: str,
    changes: Collection[Change],
    definitions: Collection[str],
    actual: Actual,
    wanted: Wanted,
    expected_seconds: float | None = None,
    ending: Sequence[NamedProcess] = (),
) -> tuple[Activation, ...]:
    """The activations, in order. ``definitions`` are the paths that the supervisor reads.

    ``ending`` are processes that somebody wants ended before the start. Raises UsageError where
    nothing is started, for then there is no reason to end them.
    """
    touched = tuple(change.path for change in changes if change.path in definitions)
    orphans = _end_orphans(name, actual, wanted.gpus)
    if wanted.phase is not ServicePhase.RUNNING:
        return orphans + _settle(name, touched=touched, actual=actual, wanted=wanted)
    run = _run(name, touched=touched, actual=actual, wanted=wanted, seconds=expected_seconds)
    return orphans + _end_before_start(name, run, ending, wanted.gpus)


def _end_before_start(
    name: str,
    run: tuple[Activation, ...],
    ending: Sequence[NamedProcess],
    gpus: tuple[str, ...],
) -> tuple[Activation, ...]:
    """The end of the named processes directly before the start."""
    if not ending:
        return run
    starts = [n for n, each in enumerate(run) if each.kind in _STARTS]
    if not starts:
        raise UsageError(
            f"{name} runs already and is not started, so nothing is ended for it",
            "leave --end-holders out",
        )
    titles = tuple(each.title for each in ending)
    end = Activation(
        kind=ActivationKind.END_HOLDERS,
        target=name,
        because=(*titles, "a roll-back cannot bring back what is ended"),
        processes=tuple(ending),
        gpus=gpus,
    )
    return (*run[: starts[0]], end, *run[starts[0] :])


def _end_orphans(name: str, actual: Actual, gpus: tuple[str, ...]) -> tuple[Activation, ...]:
    if not actual.orphans:
        return ()
    because = tuple(
        f"process {orphan.pid} was left over by a supervisor that died" for orphan in actual.orphans
    )
    kind = ActivationKind.END_ORPHANS
    return (Activation(kind=kind, target=name, because=because, gpus=gpus),)


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
    is_same = actual.service.digest == wanted.digest
    is_right = is_running and is_same and not actual.drift_of(DriftKind.PROCESS)
    unread = actual.drift_of(DriftKind.UNREAD)
    activations = []
    if touched or unread or not is_running:
        because = (*touched, *unread)
        activations.append(Activation(kind=ActivationKind.RELOAD, target=name, because=because))
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
    if actual.service.digest == wanted.digest:
        return "; ".join(actual.drift_of(DriftKind.PROCESS))
    return (
        f"the running process has definition {actual.service.digest[:12]}, "
        f"wanted is {wanted.digest[:12]}"
    )
