"""From a deployment file to a launch on this machine.

Shared by plan, apply and rollback: reads the file, observes the machine and resolves the launch.
Writes nothing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker import __version__
from stoker.builds.environment import environment_path, executable_in, plan_environment
from stoker.commands.engine_flags import fit_engine
from stoker.commands.guarding import guard_recipe
from stoker.commands.kept_repairs import propose_kept, without_own
from stoker.commands.model_card import note_card
from stoker.commands.recipes import choose_recipe
from stoker.commands.secret_files import check_secret_files
from stoker.commands.trust import check_data_folders
from stoker.commands.world import World
from stoker.contract.selection import select_checks
from stoker.engines import build_launch
from stoker.errors import UsageError
from stoker.knowledge.derived.devices import may_use_gpus
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.describe import describe
from stoker.knowledge.engines import (
    engine_kinds,
    find_environment,
    load_engine_table,
    load_model_packages,
)
from stoker.knowledge.resolution import propose_settings
from stoker.knowledge.rules import load_rules
from stoker.model.deployment import Deployment, ModelReference
from stoker.model.engine_table import EngineTable, EnvironmentRecipe, Place
from stoker.model.facts import Facts, Plain, Target
from stoker.model.launch import Launch, SecretFile, Setting
from stoker.model.layout import api_key_path, secret_variable_path
from stoker.model.plan import Folders, Preparation
from stoker.probes.observe import find_probes, observe
from stoker.spec import parse_deployment
from stoker.weights.plan import model_identity, model_path, plan_model

#: Whom services run as when Stoker is root and the file names nobody: it exists everywhere and
#: owns nothing.
UNPRIVILEGED_USER = "nobody"
#: The build of an engine that Stoker did not install.
UNKNOWN_BUILD = "unknown"
#: Probes that look at what a deployment names; without one they have nothing to look at.
OF_A_DEPLOYMENT = frozenset({"draft", "engine", "engine_packages", "model", "reach"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A deployment with everything that was found out about it on this host.

    ``proposed`` is what recipes, evidence and trials would set, whether it won or not; ``kept`` is
    all evidence, also of what the file sets itself, which a launch need not know.
    """

    deployment: Deployment
    source: str
    table: EngineTable
    facts: Facts
    place: Place
    launch: Launch
    user: str | None
    model: str
    preparations: tuple[Preparation, ...]
    proposed: tuple[Setting, ...] = ()
    kept: tuple[Setting, ...] = ()


def resolve(world: World, source: str, origin: str) -> Resolved:
    """Read, observe and resolve. Raises SpecError, UsageError, HostError or StateError."""
    deployment = parse_deployment(source, origin, engine_kinds=engine_kinds())
    select_checks("quick", require=deployment.contract.require)
    check_data_folders(world)
    check_secret_files(world.host, deployment.engine.secret_env)
    table = load_engine_table(deployment.engine.kind)
    user = service_user(world, deployment)
    place = find_place(world, deployment, table)
    preparations = _plan_preparations(world, deployment, table)
    facts = observe_machine(
        world,
        place=place,
        user=user,
        preparations=preparations,
        uses_gpus=may_use_gpus(deployment, table),
    )
    fitted = fit_engine(world, deployment, place, facts, user=user)
    table, place, facts = fitted.table, fitted.place, fitted.facts
    recipe = choose_recipe(world, deployment, facts, table, place=place)
    model = _identity(world, deployment, facts)
    bare = Subject(deployment=deployment, facts=facts, table=table, build=place.build, settings=())
    kept = propose_kept(world, bare, model)
    proposed = (*without_own(kept, deployment, table), *recipe.settings)
    facts = note_card(world, recipe.noted(facts), deployment=deployment, table=table, place=place)
    launch = resolve_launch(deployment, facts, table, place, proposed=proposed)
    return Resolved(
        deployment=deployment,
        source=source,
        table=table,
        facts=facts,
        place=place,
        launch=_with_secret_variables(launch, deployment, world.folders),
        user=user,
        model=model,
        preparations=preparations,
        proposed=proposed,
        kept=kept,
    )


def resolve_launch(
    deployment: Deployment,
    facts: Facts,
    table: EngineTable,
    place: Place,
    *,
    proposed: Sequence[Setting] = (),
) -> Launch:
    """The launch with everything that anybody chooses, the highest origin winning. Pure.

    ``proposed`` comes from recipes, evidence and trials. Our rules see what those, the user and
    Stoker's own defaults have chosen, and choose last.
    """
    tree = resolve_tree(deployment, facts, table, place, proposed=proposed)
    by_rules = propose_settings(load_rules(), tree, table.catalogue)
    return build_launch(deployment, facts, table, place, proposed=(*proposed, *by_rules))


def resolve_tree(
    deployment: Deployment,
    facts: Facts,
    table: EngineTable,
    place: Place,
    *,
    proposed: Sequence[Setting] = (),
) -> dict[str, Plain]:
    """What the rules that choose settings see. Pure."""
    chosen = build_launch(deployment, facts, table, place, proposed=proposed)
    subject = Subject(
        deployment=deployment,
        facts=facts,
        table=table,
        build=place.build,
        settings=chosen.settings,
    )
    return {"deployment": deployment.model_dump(mode="json"), **describe(subject)}


def _with_secret_variables(launch: Launch, deployment: Deployment, folders: Folders) -> Launch:
    """Secrets in variables are no engine's affair: the guard reads them for any."""
    secrets = tuple(
        SecretFile(
            source_path=source_path,
            path=secret_variable_path(folders, deployment.name, variable),
            variable=variable,
        )
        for variable, source_path in deployment.engine.secret_env.items()
    )
    return replace(launch, secrets=(*launch.secrets, *secrets))


def service_user(world: World, deployment: Deployment) -> str | None:
    """Whom the service runs as; None for the user that Stoker itself is."""
    user = deployment.service.user or (UNPRIVILEGED_USER if world.is_root else world.me)
    return None if user == world.me else user


def find_place(world: World, deployment: Deployment, table: EngineTable) -> Place:
    """Where the parts of the launch lie, or will lie once they are prepared."""
    embedded = embedded_recipe(deployment.engine.environment, table)
    draft = deployment.draft
    key = deployment.serve.api_key_file
    return Place(
        command=find_command(world, deployment.engine.environment, table),
        build=embedded.build if embedded else UNKNOWN_BUILD,
        model_path=_path_of(world, deployment.model),
        draft_path=_path_of(world, draft) if draft else None,
        api_key_path=api_key_path(world.folders, deployment.name) if key else None,
    )


def embedded_recipe(environment: str, table: EngineTable) -> EnvironmentRecipe | None:
    """The build that Stoker installs, None where the deployment names another.

    Raises UsageError for an engine that Stoker does not install.
    """
    if environment != "embedded":
        return None
    if table.embedded is None:
        raise UsageError(
            f"Stoker installs no {table.title} itself, and the file names none",
            "name one with engine.environment: path:/the/virtual/environment, or system",
        )
    return table.embedded


def find_command(world: World, environment: str, table: EngineTable) -> str:
    """The engine's executable. Whether it is there and runs is a fact, judged by rules."""
    if embedded := embedded_recipe(environment, table):
        return executable_in(environment_path(embedded, world.folders), table.command)
    if environment == "system":
        return world.host.find_command(table.command) or f"/usr/local/bin/{table.command}"
    path = environment.removeprefix("path:")
    stat = world.host.stat(path)
    is_folder = stat is not None and stat.kind == "folder"
    return executable_in(path, table.command) if is_folder else path


def observe_machine(
    world: World,
    *,
    place: Place | None,
    user: str | None,
    preparations: Sequence[Preparation] = (),
    uses_gpus: bool = True,
) -> Facts:
    """What this plan can depend on, looking at this place.

    Starting every Python of the machine to ask its version takes longer than all the rest, so
    interpreters are looked at only where an environment is to be made, or nothing is planned.
    Likewise all processes are looked through for holders of GPUs only where some are used.
    """
    folders = world.folders
    makes_one = any(preparation.kind == "environment" for preparation in preparations)
    if place is None:
        left_out = OF_A_DEPLOYMENT
    else:
        left_out = frozenset() if makes_one else frozenset({"interpreters"})
    trial = world.supervisor.describe_trial() if place else None
    if trial is None:
        left_out |= {"service_sandbox"}
    target = Target(
        model_path=place.model_path if place else None,
        draft_path=place.draft_path if place else None,
        folders=(
            *(folders.state, folders.environments, folders.models, folders.services),
            *_folders_of(place),
        ),
        command=_command_to_ask(place),
        user=user,
        uses_gpus=uses_gpus,
        trial=trial,
    )
    return observe(
        world.host,
        target,
        stoker_version=__version__,
        now_seconds=world.clock.now_seconds(),
        only=frozenset(probe.id for probe in find_probes()) - left_out,
    )


def _folders_of(place: Place | None) -> tuple[str, ...]:
    """Where the service must be able to go: the weights and the engine may lie anywhere."""
    paths = (place.model_path, place.draft_path, place.command) if place else ()
    return tuple(dict.fromkeys(posixpath.dirname(path) for path in paths if path))


def _command_to_ask(place: Place | None) -> tuple[str, ...]:
    """The engine to ask for its version: one of the user's own, whose build we do not know."""
    if place is None or place.build != UNKNOWN_BUILD:
        return ()
    return (place.command,)


def _path_of(world: World, reference: ModelReference) -> str:
    return model_path(reference, world.folders, load_model_packages(), world.env, host=world.host)


def _identity(world: World, deployment: Deployment, facts: Facts) -> str:
    packages = load_model_packages()
    parts = [model_identity(deployment.model, packages, facts.read("model"))]
    if deployment.draft is not None:
        parts.append(model_identity(deployment.draft, packages, facts.read("draft")))
    return " + ".join(parts)


def _plan_preparations(
    world: World, deployment: Deployment, table: EngineTable
) -> tuple[Preparation, ...]:
    planned: list[Preparation | None] = [*plan_keepers(world)]
    if embedded := embedded_recipe(deployment.engine.environment, table):
        planned.append(plan_environment(embedded, world.folders, world.host))
    for reference in filter(None, (deployment.model, deployment.draft)):
        packages = load_model_packages()
        planned.append(plan_model(reference, world.folders, packages, world.env, host=world.host))
    unique = {item.target: item for item in planned if item is not None}
    return tuple(unique.values())


def plan_keepers(world: World) -> tuple[Preparation, ...]:
    """What any service needs beside its engine: the guard, and a supervisor if it is ours."""
    recipes = filter(None, [guard_recipe(), find_environment(world.supervisor.properties.kind)])
    planned = (plan_environment(recipe, world.folders, world.host) for recipe in recipes)
    return tuple(filter(None, planned))
