"""`stoker apply FILE`: one deployment file becomes a verified, running model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.commands.assemble import plan_deployment
from stoker.commands.converge import Converged, converge, exclusive
from stoker.commands.guarding import find_key
from stoker.commands.holders import parse_pids
from stoker.commands.plan import looks_like_plan, read_file
from stoker.commands.resolve import resolve
from stoker.commands.supervising import using_wanted
from stoker.commands.world import World
from stoker.contract.completion import QUESTION
from stoker.errors import StalePlan, StateError, UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.model.contract import Verification
from stoker.model.document import parse_document
from stoker.model.plan import Plan
from stoker.spec import parse_deployment
from stoker.state.documents import read_verification


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was done, and what the server was seen to do.

    ``question`` is what it was asked; ``key_file`` is the owner's, empty without one.
    """

    converged: Converged
    url: str
    published_name: str
    verification: Verification | None
    question: str
    key_file: str


def apply_file(world: World, path: str, *, end_holders: Sequence[int] = ()) -> Applied:
    """Apply a deployment file, or a saved plan if the file is one.

    ``end_holders`` are processes to be ended before the start. Raises SpecError, UsageError,
    Blocked, StalePlan, LockHeld, ApplyFailed or RollbackFailed.
    """
    text = read_file(path)
    if looks_like_plan(text):
        if end_holders:
            raise UsageError(
                f"{path} is a saved plan, which says already whom it ends",
                "make a new one with `stoker plan FILE --end-holders PID`",
            )
        return apply_plan(world, parse_plan(text, path))
    return apply_text(world, text, path, end_holders=end_holders)


def apply_text(world: World, text: str, origin: str, *, end_holders: Sequence[int] = ()) -> Applied:
    """Apply the text of a deployment file; ``end_holders`` as for :func:`apply_file`."""
    deployment = parse_deployment(text, origin, engine_kinds=engine_kinds())
    chosen = using_wanted(world, deployment)  # a wrong file needs no lock

    with exclusive(chosen, "apply"):
        return apply_inside(chosen, text, origin, end_holders=end_holders)


def apply_inside(
    world: World, text: str, origin: str, *, end_holders: Sequence[int] = ()
) -> Applied:
    """The same inside of :func:`exclusive`, with the supervisor that the file wants."""

    def make_plan() -> Plan:
        resolved = resolve(world, text, origin)
        return plan_deployment(world, resolved, origin=origin, end_holders=end_holders)

    return _report(world, converge(world, make_plan))


def apply_plan(world: World, plan: Plan) -> Applied:
    """Apply a saved plan exactly as it was shown, or refuse it as stale."""
    origin, source = plan.origin.get("file", ""), plan.origin.get("source", "")
    if plan.verb != "apply" or not source:
        raise UsageError(f"plan {plan.id} is a plan of `stoker {plan.verb}`, not of apply")
    _check_file(origin, source)
    deployment = parse_deployment(source, origin, engine_kinds=engine_kinds())
    chosen = using_wanted(world, deployment)
    pids = parse_pids(plan.origin.get("end_holders"))

    def make_plan() -> Plan:
        resolved = resolve(chosen, source, origin)
        try:
            return plan_deployment(chosen, resolved, origin=origin, end_holders=pids)
        except UsageError as error:
            if not pids:
                raise
            raise StalePlan([error.summary]) from error

    with exclusive(chosen, "apply"):
        return _report(chosen, converge(chosen, make_plan, expected=plan))


def _check_file(origin: str, source: str) -> None:
    """The file may have been edited since the plan was made. A file that is gone is no matter."""
    try:
        text = read_file(origin)
    except UsageError:
        return
    if text != source:
        raise StalePlan([f"{origin} was edited after the plan was made"])


def parse_plan(text: str, path: str) -> Plan:
    """A saved plan from a file. Raises UsageError."""
    try:
        return parse_document(text, Plan)
    except StateError as error:
        raise UsageError(
            f"{path} is not a plan that can be applied: {error.summary}",
            "make a new one with `stoker plan FILE`",
        ) from error


def _report(world: World, converged: Converged) -> Applied:
    launch = converged.plan.launch
    if launch is None:
        raise StateError(f"the plan of {converged.plan.name} has no launch")
    key = find_key(launch)
    return Applied(
        converged=converged,
        url=world.connect(launch.host, launch.port, None).url,
        published_name=launch.published_name,
        verification=read_verification(world.host, world.folders, converged.plan.name),
        question=QUESTION,
        key_file=key.source_path if key else "",
    )
