"""What is added to the error of an apply that failed: its first cause, and how to learn more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stoker.errors import ApplyFailed, RollbackFailed, StokerError

if TYPE_CHECKING:
    from stoker.commands.world import World


@contextmanager
def telling_cause(world: World) -> Iterator[None]:
    """Where an apply inside fails, its error tells the first cause too. The error itself is never
    lost over it."""
    try:
        yield
    except (ApplyFailed, RollbackFailed) as error:
        try:
            _tell(world, error)
        except StokerError as other:
            error.add_note(f"the failure could not be diagnosed: {other.summary}")
        raise


def _tell(world: World, error: StokerError) -> None:
    from stoker.commands.diagnose_deployment import diagnose_failed_apply
    from stoker.model.diagnosis import Certainty, Gravity

    diagnosis = diagnose_failed_apply(world)
    if diagnosis is None:
        return
    more = f"`stoker diagnose {diagnosis.name}` shows what tells it, and what would mend it"
    first = diagnosis.causes[0] if diagnosis.causes else None
    # What only costs something did not end the start.
    if first is not None and first.gravity is Gravity.ERROR:
        sureness = "" if first.certainty is Certainty.CERTAIN else f"{first.certainty.value}: "
        error.summary += f"\nfirst cause: {sureness}{first.title} [{first.kind}]"
        if first.repairs:
            error.summary += f"\nwhat mends it: {first.repairs[0].text}"
    error.hint = f"{error.hint}; {more}" if error.hint else more
