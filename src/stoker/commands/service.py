"""`stoker start`, `stop`, `down` and `rollback`: plans about a deployment that is known already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from stoker.commands.assemble import (
    definitions_of,
    observe_actual,
    plan_generation,
    require_current,
)
from stoker.commands.converge import Converged, converge, exclusive
from stoker.commands.drifting import fitting
from stoker.commands.forecast import foresee
from stoker.commands.guarding import guard_files, guarded
from stoker.commands.holders import judge_without
from stoker.commands.judge import judge
from stoker.commands.resolve import (
    Resolved,
    find_place,
    observe_machine,
    plan_keepers,
    service_user,
)
from stoker.commands.supervising import using_supervisor_of
from stoker.commands.world import World
from stoker.errors import StateError, UsageError
from stoker.knowledge.derived.devices import may_use_gpus
from stoker.knowledge.engines import load_engine_table
from stoker.model.deployment import Deployment
from stoker.model.generation import Generation
from stoker.model.launch import ServicePhase
from stoker.model.layout import current_path, generation_path
from stoker.model.plan import Image, Plan, Served
from stoker.planning.activations import Wanted, plan_activations
from stoker.planning.changes import plan_changes
from stoker.planning.desired import restored_generation
from stoker.planning.plan import plan_id
from stoker.state.documents import (
    choose_deployment,
    list_deployments,
    list_generations,
    read_generation,
)
from stoker.state.folder import check_state_folder


def start_deployment(
    world: World, name: str | None, *, end_holders: Sequence[int] = ()
) -> Converged:
    """Get the generation in force running and verified.

    ``end_holders`` are processes to be ended before the start.
    """
    with _exclusive_for(world, name, verb="start") as (world, chosen):

        def make_plan() -> Plan:
            current = require_current(world, chosen)
            return _plan_known(world, current, verb="start", end_holders=end_holders)

        return converge(world, make_plan)


def rollback_deployment(world: World, name: str | None, number: int | None) -> Converged:
    """Bring an earlier generation back, under a new number, verified like any start."""
    with _exclusive_for(world, name, verb="rollback") as (world, chosen):

        def make_plan() -> Plan:
            target = _earlier_generation(world, chosen, number)
            return _plan_known(world, target, verb="rollback")

        return converge(world, make_plan)


def stop_deployment(world: World, name: str | None) -> Converged:
    """Stop the service; everything stays for `stoker start`."""
    with _exclusive_for(world, name, verb="stop") as (world, chosen):
        return converge(world, lambda: _plan_settled(world, chosen, verb="stop", files={}))


def remove_deployment(world: World, name: str | None) -> Converged:
    """Stop the service and remove what apply made; weights and environments stay."""
    with _exclusive_for(world, name, verb="down") as (world, chosen):
        return converge(
            world,
            lambda: _plan_settled(world, chosen, verb="down", files=_files_to_go(world, chosen)),
        )


@contextmanager
def _exclusive_for(world: World, name: str | None, *, verb: str) -> Iterator[tuple[World, str]]:
    """The state folder for this verb alone: the deployment, and the world with its supervisor.

    It is chosen after the recovery of an unfinished run, which may have brought it back or taken
    it away. Raises UsageError when it is not clear which, and then leaves a new machine as it is.
    """
    if not check_state_folder(world.host, world.folders, me=world.me):
        choose_deployment(world.host, world.folders, name)
    with exclusive(world, verb):
        chosen = choose_deployment(world.host, world.folders, name)
        yield using_supervisor_of(world, chosen), chosen


def _plan_known(
    world: World, generation: Generation, *, verb: str, end_holders: Sequence[int] = ()
) -> Plan:
    command = next(iter(generation.launch.argv), "a command")
    if world.host.stat(command) is None:
        raise StateError(
            f"generation {generation.number} of {generation.name} needs {command}, "
            "which is not there any more",
            "apply its deployment file again to have it made anew",
        )
    resolved = _resolved_again(world, generation)
    world = fitting(world, generation.name, resolved.facts)
    judged = judge_without(world, resolved, end_holders)
    foreseen = foresee(world, resolved, judged)
    return plan_generation(
        world,
        generation,
        verb=verb,
        preparations=plan_keepers(world),
        findings=judge(foreseen.tree, resolved.deployment),
        origin={"generation": str(generation.number)},
        clearing=judged.clearing,
        forecast=foreseen.forecast,
    )


def _resolved_again(world: World, generation: Generation) -> Resolved:
    """A generation as it was resolved then, with the facts of now."""
    deployment = Deployment.model_validate(generation.deployment)
    table = load_engine_table(generation.launch.engine)
    user = service_user(world, deployment)
    place = find_place(world, deployment, table)
    return Resolved(
        deployment=deployment,
        source=generation.source,
        table=table,
        facts=observe_machine(
            world, place=place, user=user, uses_gpus=may_use_gpus(deployment, table)
        ),
        place=replace(place, build=generation.launch.engine_build or place.build),
        launch=generation.launch,
        user=user,
        model=generation.model,
        preparations=(),
    )


def _earlier_generation(world: World, name: str, number: int | None) -> Generation:
    current = require_current(world, name)
    numbers = list_generations(world.host, world.folders, name)
    earlier = [each for each in numbers if each < current.number]
    if number is None and not earlier:
        raise UsageError(f"{name} has only generation {current.number}: nothing to roll back to")
    chosen = earlier[-1] if number is None else number
    target = read_generation(world.host, world.folders, name, chosen)
    if target is None:
        known = ", ".join(str(each) for each in numbers)
        raise UsageError(f"{name} has no generation {chosen}", f"there are: {known}")
    if target.digest == current.digest:
        return current
    return restored_generation(target, highest_number=max(numbers))


def _files_to_go(world: World, name: str) -> dict[str, Image | None]:
    """Every file that apply wrote for this deployment, the pointer first."""
    current = require_current(world, name)
    paths = [current_path(world.folders, name)]
    paths += world.supervisor.render(guarded(world, current))
    paths += guard_files(world, current)
    if list_deployments(world.host, world.folders) == (name,):
        paths += world.supervisor.render_shared()
    numbers = list_generations(world.host, world.folders, name)
    paths += [generation_path(world.folders, name, each) for each in numbers]
    paths += [secret.path for secret in current.launch.secrets]
    return dict.fromkeys(paths)


def _plan_settled(world: World, name: str, *, verb: str, files: Mapping[str, Image | None]) -> Plan:
    """A plan after which the service does not run. With ``files`` it is absent as well."""
    current = require_current(world, name)
    actual = observe_actual(world, name, files)
    changes = plan_changes(files, actual.files, dict.fromkeys(files, f"{name} goes down"))
    phase = ServicePhase.ABSENT if files else ServicePhase.STOPPED
    activations = plan_activations(
        name=name,
        changes=changes,
        definitions=definitions_of(world, current).keys(),
        actual=actual,
        wanted=Wanted(phase=phase),
    )
    return Plan(
        id=plan_id(changes=changes, activations=activations, preparations=()),
        verb=verb,
        host=world.host.name,
        name=name,
        served=Served(deployment=current.deployment),
        launch=current.launch,
        changes=changes,
        activations=activations,
        service_before=actual.before(),
        origin={
            "generation": str(current.number),
            "supervisor": world.supervisor.properties.kind,
        },
    )
