"""Repairs that worked, as evidence: kept once verified, and proposed to the next deployment.

Called where a launch is resolved and by :mod:`stoker.commands.repair`. What is proposed is a
setting like any other: the deployment file goes before it, recipes and rules come behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from stoker.commands.world import World
from stoker.engines.settings import make_flags
from stoker.errors import HostError, StateError
from stoker.knowledge.derived.hardware import derive_hardware
from stoker.knowledge.derived.stack import derive_stack
from stoker.knowledge.derived.subject import Subject
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable
from stoker.model.event import Event, EventKind
from stoker.model.facts import Plain
from stoker.model.finding import Source
from stoker.model.kept_repair import KeptRepair, KeptRepairs
from stoker.model.launch import Origin, Setting
from stoker.model.layout import kept_repairs_folder
from stoker.state.kept_repairs import keep_repair, read_kept_repairs

_SETTINGS, _ENV = "engine.settings.", "engine.env."
_NO_GPU = "no GPU"


def name_repairs(subject: Subject, model: str) -> KeptRepairs | None:
    """The document, without repairs, that this deployment's repairs belong to.

    None where the build, the model or the GPUs have no identity: evidence is of one kind alone.
    """
    release = derive_stack(subject).get("version")
    if not isinstance(release, str):
        told = subject.facts.read("engine.version_text")
        release = told.strip() if isinstance(told, str) else told
    hardware = derive_hardware(subject)
    name, count = hardware["name"], hardware["count"]
    gpu = _NO_GPU if count == 0 else name
    if not isinstance(release, str) or not isinstance(gpu, str) or not model:
        return None
    return KeptRepairs(engine=subject.table.kind, release=release, model=model, gpu=gpu)


def describe_wish(subject: Subject) -> dict[str, Plain]:
    """What a deployment asks for, as far as the worth of a number depends on it."""
    serve, draft = subject.deployment.serve, subject.deployment.draft
    count = derive_hardware(subject)["count"]
    return {
        "context_tokens": serve.context_tokens,
        "parallel_requests": serve.parallel_requests,
        "draft": draft.ref if draft is not None else None,
        "gpus": count if isinstance(count, int) else None,
    }


def propose_kept(world: World, subject: Subject, model: str) -> tuple[Setting, ...]:
    """What mended the same build, model and kind of GPU before, for the same wish.

    A document that cannot be read proposes nothing, and a note says so.
    """
    try:
        if world.host.stat(kept_repairs_folder(world.folders)) is None:
            return ()
        wanted = name_repairs(subject, model)
        if wanted is None:
            return ()
        kept = read_kept_repairs(world.host, world.folders, wanted)
    except (HostError, StateError) as error:
        text = f"repairs that worked before are not used: {error.summary}"
        world.reporter.emit(Event(kind=EventKind.NOTE, subject=subject.deployment.name, text=text))
        return ()
    wish = describe_wish(subject)
    fitting = (each for each in kept.repairs if dict(each.wish) == wish)
    found: dict[tuple[str, str], Setting] = {}
    for repair in fitting:
        for setting in _settings(repair, subject.table):
            found.setdefault((setting.name, setting.kind), setting)
    return tuple(found.values())


def without_own(
    kept: Sequence[Setting], deployment: Deployment, table: EngineTable
) -> tuple[Setting, ...]:
    """The evidence that a launch needs: none for what the file sets itself, whatever it says.

    So what a repair has written into the file plans nothing when its evidence is kept after it.
    """
    catalogue = table.catalogue
    own = {catalogue.identify(catalogue.spell(name)) for name in deployment.engine.settings}
    own |= {catalogue.identify(name, "env") for name in deployment.engine.env}
    return tuple(each for each in kept if catalogue.identify(each.name, each.kind) not in own)


def keep_worked(world: World, subject: Subject, model: str, repair: KeptRepair) -> str:
    """Keep a repair that was verified. Returns the document's path, empty where it has no identity.

    Raises HostError where it cannot be written.
    """
    wanted = name_repairs(subject, model)
    if wanted is None:
        return ""
    try:
        kept = read_kept_repairs(world.host, world.folders, wanted)
    except StateError:
        kept = wanted  # a damaged one is replaced
    return keep_repair(world.host, world.folders, kept, repair)


def _settings(repair: KeptRepair, table: EngineTable) -> Iterator[Setting]:
    day = f"{datetime.fromtimestamp(repair.at_seconds, UTC):%Y-%m-%d}"
    reason = f"it mended {repair.deployment} on {day}: {repair.title}"
    source = Source(
        kind="observed",
        where=f"run {repair.run}, {repair.checks} promises kept with it",
        date=day,
    )
    for name, kind, value in _list_changes(repair.changes):
        if kind == "env":
            yield Setting(
                name=name,
                value=str(value),
                origin=Origin.EVIDENCE,
                reason=reason,
                kind="env",
                source=source,
                rule=repair.cause,
            )
            continue
        items = value if isinstance(value, list) else [value]
        for made in make_flags(name, items, table.catalogue, origin=Origin.EVIDENCE, reason=reason):
            yield _told(made, source, repair.cause)


def _told(setting: Setting, source: Source, cause: str) -> Setting:
    return Setting(
        name=setting.name,
        value=setting.value,
        more=setting.more,
        origin=setting.origin,
        reason=setting.reason,
        source=source,
        rule=cause,
    )


def _list_changes(changes: Mapping[str, Plain]) -> Iterator[tuple[str, str, Plain]]:
    """The changes that are flags or variables; an entry that goes leaves nothing to propose."""
    for key, value in changes.items():
        if value is None:
            continue
        if key.startswith(_SETTINGS):
            yield key.removeprefix(_SETTINGS), "flag", value
        elif key.startswith(_ENV):
            yield key.removeprefix(_ENV), "env", value
