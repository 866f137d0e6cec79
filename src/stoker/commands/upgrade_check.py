"""`stoker engine upgrade-check` and its kin: what another release would mean for a deployment.

They read the deployment file, look at the machine, and write nothing but, where that is asked
for, new names of flags into the file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stoker.commands.deployment_file import write_back
from stoker.commands.folders import absolute_path
from stoker.commands.plan import read_file
from stoker.commands.resolve import UNKNOWN_BUILD, Resolved, resolve, resolve_launch
from stoker.commands.supervising import using_wanted
from stoker.commands.world import World
from stoker.errors import UsageError
from stoker.knowledge.engines import engine_kinds, load_variables
from stoker.knowledge.lifetimes import match_release, public_version
from stoker.knowledge.releases import find_release, known_builds, load_table_for
from stoker.knowledge.renames import judge_flags
from stoker.knowledge.upgrades import Standing, compare_releases
from stoker.model.engine_table import EngineTable
from stoker.model.upgrade import FixedFlags, Upgrade
from stoker.spec import parse_deployment
from stoker.spec.rename import rename_keys

_SETTINGS = ("engine", "settings")
_MOST_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class _Release:
    """One side of the comparison: the version as it was named, and its table."""

    version: str
    table: EngineTable


def check_upgrade(world: World, path: str, *, to: str, since: str | None = None) -> Upgrade:
    """Compare the installed release, or ``since``, with the release ``to`` for one file.

    Raises UsageError for a release that is not known, and what resolving the file raises.
    """
    resolved = resolve_file(world, path)
    old = _installed(resolved) if since is None else _named(resolved, since)
    new = _named(resolved, to)
    before, after = _stand(resolved, old), _stand(resolved, new)
    items, defaults = compare_releases(resolved.deployment.engine, before, after)
    kind = resolved.deployment.engine.kind
    sides = [(each.version, each.table.catalogue.build) for each in (old, new)]
    return Upgrade(
        file=path,
        engine=kind,
        version_from=old.version,
        version_to=new.version,
        known_from=sides[0][1],
        known_to=sides[1][1],
        items=items,
        defaults=defaults,
        notes=tuple(
            f"the flags of {kind} {version} are not known; those of {build} were compared"
            for version, build in sides
            if public_version(version) != public_version(build)
        ),
    )


def fix_flags(
    world: World,
    path: str,
    *,
    to: str | None = None,
    with_deprecated: bool = False,
    is_trial: bool = False,
) -> FixedFlags:
    """Give the flags of a deployment file the names of the installed release, or of ``to``.

    Comments and order stay. Raises UsageError, and what resolving the file raises.
    """
    text = read_file(path)
    resolved = resolve_file(world, path)
    release = _installed(resolved) if to is None else _named(resolved, to)
    settings = resolved.deployment.engine.settings
    verdicts = judge_flags(settings, release.table.catalogue)
    mended = {"renamed", "shortened", *(("deprecated",) if with_deprecated else ())}
    names = {each.name: each.instead for each in verdicts if each.kind in mended and each.instead}
    is_written = bool(names) and not is_trial
    if names:
        new = rename_keys(text, _SETTINGS, names, origin=path)
        parse_deployment(new, path, engine_kinds=engine_kinds())
        if is_written:
            write_back(world, path, text, new)
    return FixedFlags(
        file=path,
        engine=resolved.deployment.engine.kind,
        version=release.version,
        renamed=tuple(names.items()),
        left=tuple(each.says for each in verdicts if each.name not in names),
        is_written=is_written,
    )


def resolve_file(world: World, path: str) -> Resolved:
    """The deployment of a file on this machine. Raises UsageError, SpecError or StateError."""
    world.open_state()
    text = read_file(path)
    world = using_wanted(world, parse_deployment(text, path, engine_kinds=engine_kinds()))
    return resolve(world, text, absolute_path(path))


def _installed(resolved: Resolved) -> _Release:
    version = resolved.place.build
    if version == UNKNOWN_BUILD:
        where = resolved.deployment.engine.environment
        raise UsageError(
            f"the version of the engine at {where} is not known",
            "name it: --from VERSION for upgrade-check, --to VERSION for fix-flags",
        )
    return _Release(version=version, table=resolved.table)


def _named(resolved: Resolved, version: str) -> _Release:
    """A release by its number. Raises UsageError for one whose flags are not known."""
    kind = resolved.deployment.engine.kind
    builds = known_builds(kind)
    if not version.strip():
        raise UsageError(f"a release of {kind} is wanted, and none was named", f"as {builds[-1]}")
    named = match_release(version, builds)
    if named is None:
        known = f"{builds[0]} to {builds[-1]}" if len(builds) > 1 else builds[0]
        near = find_release(kind, version).build
        raise UsageError(
            f"the flags of {kind} {_cut(version)} are not known",
            f"those of {known} are; the nearest is {near}",
        )
    return _Release(version=named, table=load_table_for(kind, named))


def _cut(version: str) -> str:
    return version if len(version) <= _MOST_SHOWN else f"{version[:_MOST_SHOWN]}..."


def _stand(resolved: Resolved, release: _Release) -> Standing:
    """The deployment as Stoker would start it with this release."""
    kind, table = resolved.deployment.engine.kind, release.table
    place = replace(resolved.place, build=release.version)
    launch = resolve_launch(
        resolved.deployment, resolved.facts, table, place, proposed=resolved.proposed
    )
    known = find_release(kind, release.version).build
    return Standing(
        catalogue=table.catalogue,
        variables=load_variables(kind, known),
        settings=launch.settings,
    )
