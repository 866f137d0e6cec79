"""Roll-back: a plan whose desired state is the before-images of a run.

It is not undo code. The files return to the oldest image that the run saw of each, and the
service to how it stood when the run began; the same changes, activations and executor serve.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stoker.model.launch import ServicePhase
from stoker.model.plan import Image, Plan, ServiceBefore
from stoker.model.run import Entry, EntryPhase
from stoker.planning.activations import Wanted, plan_activations
from stoker.planning.actual import LIVE_PHASES, Actual
from stoker.planning.changes import plan_changes
from stoker.planning.plan import plan_id

FILE_SUBJECT = "file:"


def before_images(entries: Sequence[Entry]) -> dict[str, Image | None]:
    """The oldest image of every file that the run began to change, newest begun first.

    A roll-back of a roll-back adds later entries for the same files; the oldest is the truth.
    """
    images: dict[str, Image | None] = {}
    for entry in entries:
        if entry.phase is EntryPhase.BEGIN and entry.subject.startswith(FILE_SUBJECT):
            images.setdefault(entry.subject.removeprefix(FILE_SUBJECT), entry.before)
    return dict(reversed(images.items()))


def wanted_before(before: ServiceBefore) -> Wanted:
    """How the service shall stand after a roll-back.

    A service that was failing before is left stopped: starting it again would restore nothing.
    """
    phase = ServicePhase(before.phase)
    if phase in LIVE_PHASES:
        return Wanted(phase=ServicePhase.RUNNING, digest=before.digest, is_verified=before.verified)
    if phase is ServicePhase.ABSENT:
        return Wanted(phase=ServicePhase.ABSENT)
    return Wanted(phase=ServicePhase.STOPPED)


def plan_rollback(
    plan: Plan,
    *,
    images: Mapping[str, Image | None],
    actual: Actual,
    definitions: Collection[str],
    expected_seconds: float | None = None,
) -> Plan:
    """The plan that returns the host to where it was before the run of ``plan``."""
    reasons = dict.fromkeys(images, "as it was before the run")
    changes = plan_changes(images, actual.files, reasons)
    activations = plan_activations(
        name=plan.name,
        changes=changes,
        definitions=definitions,
        actual=actual,
        wanted=wanted_before(plan.service_before),
        expected_seconds=expected_seconds,
    )
    return Plan(
        id=plan_id(changes=changes, activations=activations, preparations=()),
        verb="roll-back",
        host=plan.host,
        name=plan.name,
        served=None,
        launch=None,
        changes=changes,
        activations=activations,
        service_before=actual.before(),
        origin={"run_of": plan.id},
    )
