"""`stoker engine show`: the engine that a deployment would start, and what one flag of it is."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.commands.engine_flags import OBSERVATION
from stoker.commands.resolve import Resolved, resolve_tree
from stoker.commands.upgrade_check import resolve_file
from stoker.commands.world import World
from stoker.knowledge.lifetimes import lifetime_kinds, load_lifetimes
from stoker.knowledge.renames import explain_absence, find_new_name
from stoker.model.engine_shown import ShownEngine, ShownFlag
from stoker.model.facts import Plain, Unknown


def show_engine(world: World, path: str) -> ShownEngine:
    """The engine of a deployment file. Raises UsageError, and what resolving the file raises."""
    resolved = resolve_file(world, path)
    tree = resolve_tree(
        resolved.deployment,
        resolved.facts,
        resolved.table,
        resolved.place,
        proposed=resolved.proposed,
    )
    stack: Mapping[str, Plain] = tree["stack"]
    told = resolved.facts.read(OBSERVATION)
    value = {} if isinstance(told, Unknown) else told
    return ShownEngine(
        engine=resolved.table.kind,
        environment=resolved.deployment.engine.environment,
        command=resolved.place.command,
        version=resolved.place.build,
        stack={
            name: None if part is None else str(part)
            for name, part in stack.items()
            if name not in ("engine", "version") and not isinstance(part, Unknown)
        },
        unknown={name: part.reason for name, part in stack.items() if isinstance(part, Unknown)},
        flags=_tell_flags(value),
        flag_count=len(resolved.table.catalogue.options),
        notes=tuple(filter(None, (value.get("reason"), value.get("difference")))),
    )


def show_flag(world: World, path: str, name: str) -> ShownFlag:
    """One flag of that engine, by any of its spellings, with or without dashes."""
    resolved = resolve_file(world, path)
    catalogue = resolved.table.catalogue
    bare = name.lstrip("-")
    option = catalogue.find(bare)
    kind = catalogue.engine
    lifetime = load_lifetimes(kind).find(bare) if kind in lifetime_kinds() else None
    says = [] if option is not None else list(_tell_absence(bare, resolved))
    if option is not None and option.deprecated_by is not None:
        says.append(f"deprecated; instead: {option.deprecated_by or 'nothing is named'}")
    return ShownFlag(
        engine=kind,
        version=resolved.place.build,
        name=option.names[0] if option else f"--{bare}",
        option=option,
        releases=lifetime.spans if lifetime else (),
        says=tuple(says),
        set_to=_words(bare, resolved),
    )


def _tell_flags(value: Mapping[str, Plain]) -> str:
    if value.get("authority") == "installed":
        return f"told by its own parser within {value['seconds']:.1f} s"
    return f"those of the published release {value.get('release', 'unknown')}"


def _tell_absence(name: str, resolved: Resolved) -> list[str]:
    catalogue = resolved.table.catalogue
    new, when = find_new_name(name, catalogue)
    told = explain_absence(name, catalogue)
    return [*([f"it is {new} {when}"] if new else []), *([told.strip("()")] if told else [])]


def _words(name: str, resolved: Resolved) -> tuple[str, ...]:
    """What the launch sets it to."""
    catalogue = resolved.table.catalogue
    wanted = catalogue.identify(catalogue.spell(name))
    found = [
        each
        for each in resolved.launch.settings
        if catalogue.identify(each.name, each.kind) == wanted
    ]
    return tuple(word for each in found for word in (each.value or "on", *each.more))
