"""A generation, and the plan that puts it in force: everything desired against what is there.

Shared by every verb that changes a deployment. Reads the host and the service; writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stoker.apply.observe import observe_files, secret_digests
from stoker.commands.drifting import find_drift, fitting
from stoker.commands.forecast import foresee
from stoker.commands.guarding import guard_files, guarded, is_verified_by, read_guard
from stoker.commands.holders import NOTHING, Clearing, judge_without
from stoker.commands.judge import judge
from stoker.commands.measured import describe_unmeasured
from stoker.commands.resolve import Resolved
from stoker.commands.world import World
from stoker.errors import HostError, StateError, UsageError
from stoker.knowledge.derived.devices import choose_devices, may_use_gpus
from stoker.model.capacity import Forecast
from stoker.model.facts import Plain, Unknown, read_path
from stoker.model.finding import Finding
from stoker.model.generation import Generation
from stoker.model.launch import DriftKind, LaunchGpus, ServicePhase
from stoker.model.layout import is_secret, work_folder
from stoker.model.plan import Image, Plan, Preparation, Served
from stoker.planning.activations import Wanted, plan_activations
from stoker.planning.actual import Actual
from stoker.planning.changes import plan_changes
from stoker.planning.desired import build_service, desired_files, next_generation
from stoker.planning.explain import explain_files
from stoker.planning.plan import plan_id
from stoker.state.documents import list_generations, read_current, read_starts, read_verification


def observe_actual(world: World, name: str, paths: Mapping[str, Image | None]) -> Actual:
    """What is there now: the files at these paths and the service."""
    service = world.supervisor.state(name)
    verification = read_verification(world.host, world.folders, name)
    is_known = (
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
        is_verified=is_known or is_verified_by(read_guard(world, service)),
    )


def definitions_of(world: World, generation: Generation) -> dict[str, Image]:
    """The files by which the supervisor knows this service."""
    service = guarded(world, generation)
    return {**world.supervisor.render_shared(), **world.supervisor.render(service)}


def files_of(world: World, generation: Generation) -> dict[str, Image | None]:
    """The desired files of a generation, its secrets digested as the owner's files are now.

    Raises HostError when a secret of the owner cannot be read.
    """
    return desired_files(
        generation,
        folders=world.folders,
        orders=guard_files(world, generation),
        definitions=definitions_of(world, generation),
        secret_digests=secret_digests(world.host, generation.launch.secrets, world.digest_secret()),
    )


def plan_generation(
    world: World,
    generation: Generation,
    *,
    verb: str,
    preparations: Sequence[Preparation],
    findings: Sequence[Finding],
    origin: Mapping[str, str],
    clearing: Clearing = NOTHING,
    forecast: Forecast | None = None,
) -> Plan:
    """The plan that puts a generation in force and gets it running and verified.

    ``clearing`` is what goes out of its way before it starts; ``forecast`` is what will fit.
    """
    name, folders = generation.name, world.folders
    desired = _desired_or_none(world, generation, findings)
    world.supervisor.check_usable()
    world.supervisor.check_foreign(name)
    _check_work_folder(world, generation)
    current = read_current(world.host, folders, name)
    if current is not None and desired:
        gone = _paths_of(world, current) - desired.keys()
        desired.update(dict.fromkeys(sorted(gone)))
    actual = replace(observe_actual(world, name, desired), drift=find_drift(world, name))
    definitions = definitions_of(world, generation)
    reasons = explain_files(generation, folders=folders, definitions=definitions)
    edited = (each for each in actual.drift if each.kind is DriftKind.EDITED)
    reasons |= {each.path: each.sentence for each in edited}
    changes = plan_changes(desired, actual.files, reasons)
    activations = plan_activations(
        name=name,
        changes=changes,
        definitions=definitions,
        actual=actual,
        wanted=Wanted(
            phase=ServicePhase.RUNNING, digest=generation.service.digest, gpus=clearing.gpus
        ),
        ending=clearing.ending,
        expected_seconds=read_starts(world.host, folders, name).expected_seconds(generation.model),
    )
    return Plan(
        id=plan_id(changes=changes, activations=activations, preparations=preparations),
        verb=verb,
        host=world.host.name,
        name=name,
        served=Served(deployment=generation.deployment, forecast=forecast),
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
    ours = guard_files(world, generation).keys()
    return secrets | ours | world.supervisor.render(guarded(world, generation)).keys()


def plan_deployment(
    world: World, resolved: Resolved, *, origin: str, end_holders: Sequence[int] = ()
) -> Plan:
    """The plan for a resolved deployment. Raises UsageError for a holder that may not be ended."""
    world = fitting(world, resolved.deployment.name, resolved.facts)
    judged = judge_without(world, resolved, end_holders)
    foreseen = foresee(world, resolved, judged)
    resolved = _with_gpus(resolved, judged.tree)
    memory = read_path(judged.tree, "derived.memory.line")
    generation = generation_of(world, resolved)
    unmeasured = describe_unmeasured(world, generation)
    return plan_generation(
        world,
        generation,
        verb="apply",
        preparations=resolved.preparations,
        findings=judge(foreseen.tree, resolved.deployment),
        origin={
            "file": origin,
            "source": resolved.source,
            **({"memory": memory} if isinstance(memory, str) else {}),
            **({"unmeasured": unmeasured} if unmeasured else {}),
            **({"end_holders": ",".join(map(str, end_holders))} if end_holders else {}),
        },
        clearing=judged.clearing,
        forecast=foreseen.forecast,
    )


def _check_work_folder(world: World, generation: Generation) -> None:
    """Refuse a service whose own folder belongs to somebody else, as after a change of its user.

    Raises UsageError. Giving the folder away would follow whatever its owner put there.
    """
    path = work_folder(world.folders, generation.name)
    found, user = world.host.stat(path), generation.service.user or world.me
    if found is not None and found.owner != user:
        raise UsageError(
            f"{generation.name} would run as {user}, and {path} belongs to {found.owner}",
            f"take it down first: `stoker down {generation.name}`, then apply again",
        )


def _with_gpus(resolved: Resolved, tree: Mapping[str, Plain]) -> Resolved:
    """The same with the GPUs that are there now: at a later start some may be missing.

    The number of a device node is left out, since it follows the order in which drivers are bound.
    """
    chosen = choose_devices(resolved.deployment, resolved.facts, resolved.table)
    devices = () if isinstance(chosen, Unknown) else chosen
    parts = [read_path(tree, f"derived.memory.{key}_bytes") for key in ("weights", "context")]
    known = [part for part in parts if isinstance(part, int)]
    gpus = LaunchGpus(
        devices=tuple(replace(device, minor=None) for device in devices),
        needed_bytes=sum(known) if devices and len(known) == len(parts) else None,
    )
    return replace(resolved, launch=replace(resolved.launch, gpus=gpus))


def generation_of(world: World, resolved: Resolved) -> Generation:
    """The generation that this deployment would be: the current one if nothing differs."""
    deployment, name = resolved.deployment, resolved.deployment.name
    secrets = resolved.launch.secrets
    try:
        digests = secret_digests(world.host, secrets, world.digest_secret())
    except HostError:
        # A key that cannot be read blocks the plan by a rule; until then it has no digest.
        digests = dict.fromkeys((secret.path for secret in secrets), "")
    service = build_service(
        deployment,
        resolved.launch,
        folders=world.folders,
        user=resolved.user,
        model=resolved.model,
        secret_digests=digests,
        supervisor=world.supervisor.properties.kind,
        uses_gpu=may_use_gpus(deployment, resolved.table),
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


def require_current(world: World, name: str) -> Generation:
    """The generation in force. Raises StateError if the state folder has lost it."""
    generation = read_current(world.host, world.folders, name)
    if generation is None:
        raise StateError(
            f"{name} has no generation in force",
            "apply its deployment file again; `stoker status` lists what is known",
        )
    return generation
