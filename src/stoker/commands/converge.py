"""Plan under the lock, prepare, execute, and roll back if that fails.

The one path by which any verb changes the host. An unfinished run of an earlier Stoker is
brought to an end first.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from stoker.apply.execute import Tools, end_run, roll_back, run_plan
from stoker.apply.journal import (
    Journal,
    is_complete,
    list_runs,
    open_journal,
    read_entries,
    read_run_plan,
    run_number,
    unfinished_runs,
)
from stoker.apply.lock import hold_lock
from stoker.commands.assemble import observe_actual
from stoker.commands.forget import forget_deployment
from stoker.commands.holders import end_named, freeing
from stoker.commands.keep_start import keep_last_start
from stoker.commands.log_marks import LogMarks
from stoker.commands.prepare import prepare
from stoker.commands.ready import verify_service
from stoker.commands.supervising import DEFAULT_KIND, using
from stoker.commands.world import World
from stoker.errors import Blocked, ContractFailed, NoSpace, StalePlan, StokerError
from stoker.model.event import Event, EventKind
from stoker.model.layout import deployments_folder, is_secret, lock_path
from stoker.model.plan import ActivationKind, Image, Plan
from stoker.model.run import Outcome
from stoker.planning.plan import compare_plans
from stoker.planning.rollback import before_images, plan_rollback
from stoker.ports import TEMPORARY_SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Converged:
    """What came of it: the plan that was executed (empty if there was nothing to do)."""

    plan: Plan
    run: str = ""


@contextmanager
def exclusive(world: World, verb: str) -> Iterator[None]:
    """The state folder for one verb alone, with no unfinished run in it."""
    world.open_state()
    now = datetime.fromtimestamp(world.clock.now_seconds(), UTC)
    with hold_lock(lock_path(world.folders), verb=verb, now_text=f"{now:%Y-%m-%d %H:%M:%S} UTC"):
        recover(world)
        yield


def converge(
    world: World, make_plan: Callable[[], Plan], *, expected: Plan | None = None
) -> Converged:
    """Make the plan, and do it. Call it inside :func:`exclusive`.

    ``expected`` is a saved plan that this must still be. Raises StalePlan, Blocked,
    PreparationFailed, ApplyFailed or RollbackFailed.
    """
    plan = make_plan()
    if expected is not None and (differences := compare_plans(expected, plan)):
        raise StalePlan(differences)
    check_blocked(plan)
    if plan.preparations:
        for preparation in plan.preparations:
            prepare(world, preparation)
        plan = make_plan()
        check_blocked(plan)
    if plan.is_empty:
        return Converged(plan=plan)
    run = _run(world, plan)
    if any(each.kind is ActivationKind.VERIFY for each in plan.activations):
        # After the run: a kill here loses a correction and nothing else.
        keep_last_start(world, plan.name)
    return Converged(plan=plan, run=run)


def check_blocked(plan: Plan) -> None:
    """Raises Blocked with every reason and its remedy."""
    blocking = plan.blocked_by
    if not blocking:
        return
    reasons = [_reason(finding.rule, finding.summary, finding.remedy) for finding in blocking]
    raise Blocked(f"`stoker {plan.verb}` of {plan.name} is blocked; nothing was changed", reasons)


def _reason(rule: str, summary: str, remedy: str) -> str:
    return f"{summary} [{rule}]" + (f"\n{remedy}" if remedy else "")


def _run(world: World, plan: Plan) -> str:
    run = _new_run_name(world, plan)
    try:
        journal = open_journal(world.host, world.clock, world.folders, run=run, plan=plan)
    except NoSpace as error:
        raise Blocked(
            f"the state folder has no room for the journal of this run: {error.summary}",
            hint="nothing was changed; free some space and try again",
        ) from error
    run_plan(plan, _tools(world, run), journal, lambda: plan_back(world, plan, run))
    return run


def _new_run_name(world: World, plan: Plan) -> str:
    """A number that only grows, then the time for a person: clocks are set back sometimes."""
    runs = list_runs(world.host, world.folders)
    last = run_number(runs[-1]) if runs else 0
    now = datetime.fromtimestamp(world.clock.now_seconds(), UTC)
    return f"{last + 1:06d}-{now:%Y%m%dT%H%M%S}-{plan.verb}"


def _tools(world: World, run: str) -> Tools:
    marks = LogMarks(world)
    return Tools(
        host=world.host,
        supervisor=world.supervisor,
        clock=world.clock,
        reporter=world.reporter,
        me=world.me,
        is_secret=lambda path: is_secret(world.folders, path),
        digest_secret=world.digest_secret(),
        before_start=marks.mark,
        freeing=lambda activation: freeing(world, activation),
        end_named=lambda activation, ended: end_named(world, activation, ended),
        verify=lambda name: _verify(world, name, marks, run),
        forget=lambda name: forget_deployment(world, name),
    )


def _verify(world: World, name: str, marks: LogMarks, run: str) -> None:
    """Verify the service. The log of one that fails is kept before any roll-back removes it."""
    try:
        verify_service(world, name, marks.lines_since)
    except (StokerError, KeyboardInterrupt) as failure:
        path = marks.keep(name, run)
        if isinstance(failure, ContractFailed):
            marks.keep_verification(name, run)
        if path and isinstance(failure, StokerError):
            failure.summary += f"\nthe whole log: {path}"
        raise


def plan_back(world: World, plan: Plan, run: str) -> Plan:
    """The plan that returns to before this run, from its journal and what is there now."""
    images = before_images(read_entries(world.host, world.folders, run))
    actual = observe_actual(world, plan.name, images)
    return plan_rollback(
        plan,
        images=images,
        actual=actual,
        definitions=_definition_paths(world, images),
    )


def _definition_paths(world: World, images: Mapping[str, Image | None]) -> frozenset[str]:
    """The supervisor's files among these: all but our own documents and services' secrets."""
    ours = deployments_folder(world.folders) + "/"
    return frozenset(
        path for path in images if not path.startswith(ours) and not is_secret(world.folders, path)
    )


def recover(world: World) -> None:
    """Bring runs that were cut short to an end: done if all was done, else rolled back."""
    for run in unfinished_runs(world.host, world.folders):
        entries = read_entries(world.host, world.folders, run)
        plan = read_run_plan(world.host, world.folders, run)
        world = using(world, plan.origin.get("supervisor", DEFAULT_KIND))
        journal = Journal(world.host, world.clock, world.folders, run)
        if is_complete(entries, plan):
            end_run(
                plan, _tools(world, run), journal, Outcome.DONE, detail="closed by the next run"
            )
            continue
        _recover_run(world, plan, journal)


def _recover_run(world: World, plan: Plan, journal: Journal) -> None:
    text = f"an earlier `stoker {plan.verb}` of {plan.name} was interrupted; recovering"
    world.reporter.emit(Event(kind=EventKind.NOTE, subject=journal.run, text=text))
    _sweep(world, plan)
    tools = _tools(world, journal.run)
    roll_back(plan, tools, journal, lambda: plan_back(world, plan, journal.run))


def _sweep(world: World, plan: Plan) -> None:
    """Remove what a kill in the middle of a write left beside the files of the plan."""
    for folder in sorted({posixpath.dirname(change.path) for change in plan.changes}):
        if world.host.stat(folder) is None:
            continue
        for name in world.host.list_folder(folder):
            if name.startswith(".") and name.endswith(TEMPORARY_SUFFIX):
                world.host.remove_file(posixpath.join(folder, name))
