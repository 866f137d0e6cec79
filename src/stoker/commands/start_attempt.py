"""One start of a deployment that may fail, and what is known of it where it does.

Called by the verbs that try several starts: the repair of one that failed, the tuning of one that
works. Each start is an ordinary apply, journaled, and rolled back by itself where it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stoker.apply.journal import list_runs
from stoker.commands.apply import Applied, apply_inside
from stoker.commands.failed_run import read_failed_run, read_failed_verification
from stoker.commands.fitting_keys import fit_changes
from stoker.commands.judge import knowledge_tree
from stoker.commands.kernel_log import read_kernel
from stoker.commands.resolve import Resolved, resolve
from stoker.commands.world import World
from stoker.diagnosis.diagnose import diagnose
from stoker.errors import (
    ApplyFailed,
    Blocked,
    ContractFailed,
    HostError,
    StateError,
    StokerError,
)
from stoker.model.contract import CheckResult, Verdict
from stoker.model.diagnosis import Cause, Certainty, Diagnosis, Evidence, Gravity, Repair
from stoker.model.facts import Unknown

_BROKEN = (Verdict.FAILED, Verdict.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStart:
    """A start that failed: the error, the run that was rolled back, and what it was a start of."""

    error: ApplyFailed
    run: str
    resolved: Resolved
    diagnosis: Diagnosis

    @property
    def has_served(self) -> bool:
        """Whether it loaded, and broke a promise then."""
        return isinstance(self.error.__cause__, ContractFailed)


def attempt_start(
    world: World,
    text: str,
    path: str,
    *,
    say: Callable[[str], None],
    end_holders: Sequence[int] = (),
) -> Applied | FailedStart:
    """One apply inside of the lock; what is known of it where it fails or breaks the contract.

    Raises what apply raises where nothing was started, and ApplyFailed where nothing is known.
    """
    before = list_runs(world.host, world.folders)
    began = world.clock.now_seconds()
    try:
        return apply_inside(world, text, path, end_holders=end_holders)
    except ApplyFailed as error:
        after = list_runs(world.host, world.folders)
        if after == before:
            raise
        try:
            return _look(world, (text, path), after[-1], error, began_seconds=began)
        except (HostError, StateError) as trouble:
            say(f"what failed cannot be looked at: {trouble.summary}")
            raise error from error.__cause__


def _look(
    world: World, source: tuple[str, str], run: str, error: ApplyFailed, *, began_seconds: float
) -> FailedStart:
    """What a run that was rolled back tells of its failure."""
    resolved = resolve(world, *source)
    inputs = read_failed_run(
        world,
        run,
        engine=resolved.table.kind,
        name=resolved.deployment.name,
        tree=knowledge_tree(world, resolved),
        said=error.summary,
    )
    kernel = read_kernel(world, since_seconds=began_seconds)
    if not isinstance(kernel, Unknown):
        inputs = replace(
            inputs,
            kernel=(*inputs.kernel, *kernel.kernel),
            read=(*inputs.read, kernel.read),
        )
    verification = read_failed_verification(world, run)
    results = verification.results if verification else ()
    diagnosis = with_fitting_keys(with_promises(diagnose(inputs), results), resolved)
    return FailedStart(error=error, run=run, resolved=resolved, diagnosis=diagnosis)


def with_promises(diagnosis: Diagnosis, results: Sequence[CheckResult]) -> Diagnosis:
    """The diagnosis, and behind its causes the broken promises whose remedies are changes."""
    causes = tuple(filter(None, map(_cause_of, results)))
    return replace(diagnosis, causes=(*diagnosis.causes, *causes)) if causes else diagnosis


def _cause_of(result: CheckResult) -> Cause | None:
    repairs = tuple(
        Repair(text=remedy.text, changes={remedy.key: remedy.value} if remedy.key else {})
        for remedy in result.remedies
    )
    if result.verdict not in _BROKEN or not repairs:
        return None
    text = f"expected {result.expected}; found {result.found}"
    return Cause(
        kind=f"promise-{result.check}",
        title=f"the promise {result.check} is broken",
        meaning=text,
        gravity=Gravity.ERROR,
        certainty=Certainty.LIKELY,
        evidence=(Evidence(origin="the contract", line_number=0, text=text),),
        repairs=repairs,
    )


def with_fitting_keys(diagnosis: Diagnosis, resolved: Resolved) -> Diagnosis:
    """The diagnosis with the keys of its repairs as this file spells them.

    A flag that the file sets keeps its spelling, and one that the deployment has a key of its own
    for is that key.
    """
    causes = (
        replace(
            cause,
            repairs=tuple(
                replace(
                    repair,
                    changes=fit_changes(repair.changes, resolved.deployment, resolved.table),
                )
                for repair in cause.repairs
            ),
        )
        for cause in diagnosis.causes
    )
    return replace(diagnosis, causes=tuple(causes))


def first_line(error: StokerError) -> str:
    """What an error says, in a line."""
    reasons: tuple[str, ...] = error.reasons if isinstance(error, Blocked) else ()
    text = "; ".join((error.summary, *reasons))
    return text.splitlines()[0] if text else type(error).__name__
