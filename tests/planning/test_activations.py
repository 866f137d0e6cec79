"""Which activations follow from what changed and what runs."""

from __future__ import annotations

import pytest

from stoker.model.launch import Drift, DriftKind, ServicePhase, ServiceState
from stoker.model.plan import Change, Image
from stoker.planning.activations import Wanted, plan_activations
from stoker.planning.actual import Actual

UNIT = "/etc/unit"
CHANGED = (Change(path=UNIT, before=None, after=Image(digest="1", mode=0o600)),)


def actual(
    phase: ServicePhase, digest: str = "", *drift: DriftKind, is_verified: bool = False
) -> Actual:
    service = ServiceState(name="x", phase=phase, digest=digest, pid=7 if digest else 0)
    found = tuple(Drift(kind=kind, path=UNIT, sentence=f"it is {kind}") for kind in drift)
    return Actual(service=service, is_verified=is_verified, drift=found)


def kinds(actual: Actual, wanted: Wanted, changes: tuple[Change, ...] = ()) -> list[str]:
    found = plan_activations(
        name="x", changes=changes, definitions={UNIT}, actual=actual, wanted=wanted
    )
    return [activation.kind.value for activation in found]


RUNNING = Wanted(phase=ServicePhase.RUNNING, digest="new")
STOPPED = Wanted(phase=ServicePhase.STOPPED)
ABSENT = Wanted(phase=ServicePhase.ABSENT)


@pytest.mark.parametrize(
    ("state", "changes", "expected"),
    [
        (actual(ServicePhase.ABSENT), CHANGED, ["reload", "start", "verify"]),
        (actual(ServicePhase.STOPPED), (), ["reload", "start", "verify"]),
        (actual(ServicePhase.FAILED), (), ["reload", "start", "verify"]),
        (actual(ServicePhase.RUNNING, "old"), CHANGED, ["reload", "restart", "verify"]),
        (actual(ServicePhase.RUNNING, "old"), (), ["restart", "verify"]),
        (actual(ServicePhase.RUNNING, "new"), (), ["verify"]),
        (actual(ServicePhase.RUNNING, "new", is_verified=True), (), []),
        (actual(ServicePhase.RUNNING, "new", is_verified=True), CHANGED, ["reload"]),
        (actual(ServicePhase.STOPPING, "new"), (), ["reload", "start", "verify"]),
    ],
)
def test_wanted_running(state: Actual, changes: tuple[Change, ...], expected: list[str]) -> None:
    assert kinds(state, RUNNING, changes) == expected


@pytest.mark.parametrize(
    ("drift", "changes", "expected"),
    [
        (DriftKind.UNREAD, (), ["reload"]),
        (DriftKind.PROCESS, (), ["restart", "verify"]),
        (DriftKind.EDITED, CHANGED, ["reload"]),
        (DriftKind.ADDED, (), []),
    ],
)
def test_each_drift_has_what_mends_it(
    drift: DriftKind, changes: tuple[Change, ...], expected: list[str]
) -> None:
    state = actual(ServicePhase.RUNNING, "new", drift, is_verified=True)
    found = plan_activations(
        name="x", changes=changes, definitions={UNIT}, actual=state, wanted=RUNNING
    )
    assert [activation.kind.value for activation in found] == expected
    if not changes and found:
        assert found[0].because == (f"it is {drift}",)


def test_drift_stops_nothing_and_starts_nothing_that_shall_not_run() -> None:
    state = actual(ServicePhase.STOPPED, "", DriftKind.UNREAD, DriftKind.EDITED)
    assert kinds(state, STOPPED) == []


@pytest.mark.parametrize(
    ("state", "wanted", "changes", "expected"),
    [
        (actual(ServicePhase.RUNNING, "new"), STOPPED, (), ["stop"]),
        (actual(ServicePhase.STOPPED), STOPPED, (), []),
        (actual(ServicePhase.RUNNING, "new"), ABSENT, CHANGED, ["stop", "reload", "forget"]),
        (actual(ServicePhase.STOPPED), ABSENT, CHANGED, ["reload", "forget"]),
        (actual(ServicePhase.ABSENT), ABSENT, (), []),
    ],
)
def test_wanted_at_rest(
    state: Actual, wanted: Wanted, changes: tuple[Change, ...], expected: list[str]
) -> None:
    assert kinds(state, wanted, changes) == expected


def test_orphans_are_ended_first() -> None:
    orphan = ServiceState(name="x", phase=ServicePhase.UNKNOWN, pid=9, process="9:1")
    state = Actual(service=orphan, orphans=(orphan,))
    assert kinds(state, RUNNING) == ["end-orphans", "reload", "start", "verify"]
