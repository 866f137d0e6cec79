"""From a deployment file to everything that a plan is made of.

Shared by plan, apply and rollback: reads the file, observes the machine, resolves the launch,
judges the rules and looks at what is actually there. Writes nothing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker import __version__
from stoker.apply.observe import observe_files, secret_digests
from stoker.builds.environment import environment_path, executable_in, plan_environment
from stoker.commands.trust import check_data_folders
from stoker.commands.world import World
from stoker.contract.run import select_checks
from stoker.engines import build_launch
from stoker.errors import HostError, StateError
from stoker.knowledge.derive import build_tree
from stoker.knowledge.engines import (
    engine_kinds,
    find_environment,
    load_engine_table,
    load_model_packages,
)
from stoker.knowledge.rules import evaluate_rules, load_rules
from stoker.model.deployment import Deployment, ModelReference
from stoker.model.engine_table import EngineTable, Place
from stoker.model.facts import Facts, Plain, Target, read_path
from stoker.model.finding import Finding
from stoker.model.generation import Generation
from stoker.model.launch import Launch, Service, ServicePhase
from stoker.model.layout import api_key_path, is_secret
from stoker.model.plan import Image, Plan, Preparation
from stoker.planning.activations import Wanted, plan_activations
from stoker.planning.actual import Actual
from stoker.planning.changes import plan_changes
from stoker.planning.desired import build_service, desired_files, next_generation
from stoker.planning.explain import explain_files
from stoker.planning.plan import plan_id
from stoker.probes.observe import find_probes, observe
from stoker.spec import parse_deployment
from stoker.state.documents import (
    list_deployments,
    list_generations,
    read_current,
    read_starts,
    read_verification,
)
from stoker.weights.plan import model_identity, model_path, plan_model

#: Whom services run as when Stoker is root and the file names nobody: it exists everywhere and
#: owns nothing.
UNPRIVILEGED_USER = "nobody"
#: Longer than any key; a larger file is something else.
KEY_LIMIT_CHARACTERS = 4096
#: The build of an engine that Stoker did not install.
UNKNOWN_BUILD = "unknown"
#: Probes that look at what a deployment names; without one they have nothing to look at.
OF_A_DEPLOYMENT = frozenset({"draft", "engine", "model", "reach"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A deployment with everything that was found out about it on this host."""

    deployment: Deployment
    source: str
    table: EngineTable
    facts: Facts
    launch: Launch
    user: str | None
    model: str
    preparations: tuple[Preparation, ...]


def resolve(world: World, source: str, origin: str) -> Resolved:
    """Read, observe and resolve. Raises SpecError, UsageError, HostError or StateError."""
    deployment = parse_deployment(source, origin, engine_kinds=engine_kinds())
    select_checks("quick", require=deployment.contract.require)
    check_data_folders(world)
    table = load_engine_table(deployment.engine.kind)
    user = service_user(world, deployment)
    place = find_place(world, deployment, table)
    preparations = _plan_preparations(world, deployment, table)
    facts = observe_machine(world, place=place, user=user, preparations=preparations)
    return Resolved(
        deployment=deployment,
        source=source,
        table=table,
        facts=facts,
        launch=build_launch(deployment, facts, table, place),
        user=user,
        model=_identity(world, deployment, facts),
        preparations=preparations,
    )


def service_user(world: World, deployment: Deployment) -> str | None:
    """Whom the service runs as; None for the user that Stoker itself is."""
    user = deployment.service.user or (UNPRIVILEGED_USER if world.is_root else world.me)
    return None if user == world.me else user


def find_place(world: World, deployment: Deployment, table: EngineTable) -> Place:
    """Where the parts of the launch lie, or will lie once they are prepared."""
    is_embedded = deployment.engine.environment == "embedded"
    draft = deployment.draft
    key = deployment.serve.api_key_file
    return Place(
        command=find_command(world, deployment.engine.environment, table),
        build=table.embedded.build if is_embedded else UNKNOWN_BUILD,
        model_path=_path_of(world, deployment.model),
        draft_path=_path_of(world, draft) if draft else None,
        api_key_path=api_key_path(world.folders, deployment.name) if key else None,
    )


def find_command(world: World, environment: str, table: EngineTable) -> str:
    """The engine's executable. Whether it is there and runs is a fact, judged by rules."""
    if environment == "embedded":
        return executable_in(environment_path(table.embedded, world.folders), table.command)
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
) -> Facts:
    """What this plan can depend on, looking at this place.

    Starting every Python of the machine to ask its version takes longer than all the rest, so
    interpreters are looked at only where an environment is to be made, or nothing is planned.
    """
    folders = world.folders
    makes_one = any(preparation.kind == "environment" for preparation in preparations)
    if place is None:
        left_out = OF_A_DEPLOYMENT
    else:
        left_out = frozenset() if makes_one else frozenset({"interpreters"})
    target = Target(
        model_path=place.model_path if place else None,
        draft_path=place.draft_path if place else None,
        folders=(
            *(folders.state, folders.environments, folders.models, folders.services),
            *_folders_of(place),
        ),
        command=_command_to_ask(place),
        user=user,
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
    recipes = list(filter(None, [find_environment(world.supervisor.properties.kind)]))
    if deployment.engine.environment == "embedded":
        recipes.append(table.embedded)
    planned = [plan_environment(recipe, world.folders, world.host) for recipe in recipes]
    for reference in filter(None, (deployment.model, deployment.draft)):
        packages = load_model_packages()
        planned.append(plan_model(reference, world.folders, packages, world.env, host=world.host))
    unique = {item.target: item for item in planned if item is not None}
    return tuple(unique.values())


def observe_actual(world: World, name: str, paths: Mapping[str, Image | None]) -> Actual:
    """What is there now: the files at these paths and the service."""
    service = world.supervisor.state(name)
    verification = read_verification(world.host, world.folders, name)
    is_verified = (
        verification is not None
        and verification.has_passed
        and bool(service.process)
        and (verification.process, verification.digest) == (service.process, service.digest)
    )
    secrets = [path for path in paths if is_secret(world.folders, path)]
    files = observe_files(
        world.host, paths, me=world.me, secrets=secrets, digest_secret=world.digest_secret()
    )
    return Actual(
        files=files,
        service=service,
        orphans=world.supervisor.find_orphans(name),
        is_verified=is_verified,
    )


def definitions_of(world: World, service: Service) -> dict[str, Image]:
    """The files by which the supervisor knows this service."""
    return {**world.supervisor.render_shared(), **world.supervisor.render(service)}


def files_of(world: World, generation: Generation) -> dict[str, Image | None]:
    """The desired files of a generation, its secrets digested as the owner's files are now.

    Raises HostError when a secret of the owner cannot be read.
    """
    sources = {secret.path: secret.source_path for secret in generation.launch.secrets}
    return desired_files(
        generation,
        folders=world.folders,
        definitions=definitions_of(world, generation.service),
        secret_digests=secret_digests(world.host, sources, world.digest_secret()),
    )


def plan_generation(
    world: World,
    generation: Generation,
    *,
    verb: str,
    preparations: Sequence[Preparation],
    findings: Sequence[Finding],
    origin: Mapping[str, str],
) -> Plan:
    """The plan that puts a generation in force and gets it running and verified."""
    name, folders = generation.name, world.folders
    desired = _desired_or_none(world, generation, findings)
    world.supervisor.check_foreign(name)
    current = read_current(world.host, folders, name)
    if current is not None and desired:
        gone = _paths_of(world, current) - desired.keys()
        desired.update(dict.fromkeys(sorted(gone)))
    actual = observe_actual(world, name, desired)
    definitions = definitions_of(world, generation.service)
    reasons = explain_files(generation, folders=folders, definitions=definitions)
    changes = plan_changes(desired, actual.files, reasons)
    activations = plan_activations(
        name=name,
        changes=changes,
        definitions=definitions,
        actual=actual,
        wanted=Wanted(phase=ServicePhase.RUNNING, digest=generation.service.digest),
        expected_seconds=read_starts(world.host, folders, name).expected_seconds(generation.model),
    )
    return Plan(
        id=plan_id(changes=changes, activations=activations, preparations=preparations),
        verb=verb,
        host=world.host.name,
        name=name,
        deployment=generation.deployment,
        launch=generation.launch,
        preparations=tuple(preparations),
        changes=changes,
        activations=activations,
        findings=tuple(findings),
        service_before=actual.before(),
        origin={**origin, "supervisor": world.supervisor.properties.kind},
    )


def _desired_or_none(
    world: World, generation: Generation, findings: Sequence[Finding]
) -> dict[str, Image | None]:
    """The desired files; none where a secret cannot be read, which a finding then says."""
    try:
        return files_of(world, generation)
    except HostError:
        if any(finding.blocks for finding in findings):
            return {}
        raise


def _paths_of(world: World, generation: Generation) -> set[str]:
    """What a generation put on the host beside its record, which stays for later roll-backs."""
    secrets = {secret.path for secret in generation.launch.secrets}
    return secrets | world.supervisor.render(generation.service).keys()


def plan_deployment(world: World, resolved: Resolved, *, origin: str) -> Plan:
    """The plan for a resolved deployment."""
    tree = knowledge_tree(world, resolved)
    memory = read_path(tree, "derived.memory.line")
    return plan_generation(
        world,
        generation_of(world, resolved),
        verb="apply",
        preparations=resolved.preparations,
        findings=judge(tree, resolved.deployment),
        origin={
            "file": origin,
            "source": resolved.source,
            **({"memory": memory} if isinstance(memory, str) else {}),
        },
    )


def generation_of(world: World, resolved: Resolved) -> Generation:
    """The generation that this deployment would be: the current one if nothing differs."""
    deployment, name = resolved.deployment, resolved.deployment.name
    sources = {secret.path: secret.source_path for secret in resolved.launch.secrets}
    try:
        digests = secret_digests(world.host, sources, world.digest_secret())
    except HostError:
        # A key that cannot be read blocks the plan by a rule; until then it has no digest.
        digests = dict.fromkeys(sources, "")
    service = build_service(
        deployment,
        resolved.launch,
        folders=world.folders,
        user=resolved.user,
        model=resolved.model,
        secret_digests=digests,
        supervisor=world.supervisor.properties.kind,
    )
    numbers = list_generations(world.host, world.folders, name)
    return next_generation(
        read_current(world.host, world.folders, name),
        highest_number=max(numbers, default=0),
        deployment=deployment.model_dump(mode="json"),
        source=resolved.source,
        launch=resolved.launch,
        service=service,
        model=resolved.model,
    )


def judge(tree: Mapping[str, Plain], deployment: Deployment) -> tuple[Finding, ...]:
    """The findings at the plan stage; ``tree`` is that of :func:`knowledge_tree`."""
    return evaluate_rules(load_rules(), tree, stage="plan", accept=frozenset(deployment.accept))


def knowledge_tree(world: World, resolved: Resolved) -> dict[str, Plain]:
    """Everything that rules may ask about."""
    name = resolved.deployment.name
    service = world.supervisor.state(name)
    orphans = world.supervisor.find_orphans(name)
    return build_tree(
        deployment=resolved.deployment,
        facts=resolved.facts,
        launch=resolved.launch,
        table=resolved.table,
        preparations=resolved.preparations,
        own_pids=frozenset({service.pid, *(orphan.pid for orphan in orphans)} - {0}),
        services=_pids_of_others(world, name),
        key_file=_key_file_facts(world, resolved.deployment),
        supervisor=world.supervisor.properties,
        user=resolved.user or world.me,
        me=world.me,
        folders=world.folders,
    )


def _pids_of_others(world: World, name: str) -> dict[int, str]:
    """The processes of this Stoker's other deployments, by pid."""
    pids = {}
    for other in list_deployments(world.host, world.folders):
        current = read_current(world.host, world.folders, other) if other != name else None
        supervisor = world.supervisors.get(current.service.supervisor) if current else None
        if supervisor is not None and (pid := supervisor.state(other).pid):
            pids[pid] = other
    return pids


def _key_file_facts(world: World, deployment: Deployment) -> dict[str, Plain] | None:
    path = deployment.serve.api_key_file
    if path is None:
        return None
    try:
        stat = world.host.stat(path)
        if stat is None or stat.kind != "file":
            return {"exists": False}
        text = world.host.read_text(path, 1 << 16)
    except HostError as error:
        return {"exists": False, "reason": error.summary}
    lines = [line for line in text.splitlines() if line.strip()]
    return {
        "exists": True,
        "mode": stat.mode,
        "is_empty": not lines,
        "line_count": len(lines),
        "flaw": key_flaw(text),
    }


def key_flaw(text: str) -> str:
    """Why a key cannot be used as it stands, empty if it can.

    Engines take the bytes of a line for the key, and HTTP carries visible ASCII alone.
    """
    if len(text) > KEY_LIMIT_CHARACTERS:
        return f"it is longer than {KEY_LIMIT_CHARACTERS} characters"
    if "\r" in text:
        return "its lines end in CR LF, and the CR would be part of the key"
    for line in filter(None, text.split("\n")):
        if line != line.strip():
            return "there are blanks around the key"
        if not all(33 <= ord(character) <= 126 for character in line):
            return "it holds characters that are not visible ASCII (a byte order mark, perhaps)"
    return ""


def require_current(world: World, name: str) -> Generation:
    """The generation in force. Raises StateError if the state folder has lost it."""
    generation = read_current(world.host, world.folders, name)
    if generation is None:
        raise StateError(
            f"{name} has no generation in force",
            "apply its deployment file again; `stoker status` lists what is known",
        )
    return generation
