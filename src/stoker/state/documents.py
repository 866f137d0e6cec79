"""Reads and writes the documents of the state folder."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

from stoker.errors import HostError, NotFound, StateError, UsageError
from stoker.model.contract import Verification
from stoker.model.document import parse_document, render_document
from stoker.model.facts import Facts
from stoker.model.generation import Current, Generation, Starts
from stoker.model.layout import (
    current_path,
    deployments_folder,
    facts_path,
    generation_path,
    generations_folder,
    plan_path,
    soak_path,
    starts_path,
    verification_path,
)
from stoker.model.plan import Folders, Plan
from stoker.ports import Host, ReadableHost

T = TypeVar("T")

#: Larger than any document that Stoker writes.
LIMIT_BYTES = 16 << 20
DOCUMENT_MODE = 0o600


def read_document(host: ReadableHost, path: str, kind: type[T]) -> T | None:
    """The document at a path, None if there is none. Raises HostError or StateError."""
    try:
        return parse_document(host.read_text(path, LIMIT_BYTES), kind, origin=path)
    except NotFound:
        return None


def write_document(host: Host, path: str, value: object) -> None:
    """Write a document whole. Raises HostError."""
    host.write_file(path, render_document(value).encode(), DOCUMENT_MODE)


def list_deployments(host: ReadableHost, folders: Folders) -> tuple[str, ...]:
    """The names of all deployments that are in force, sorted."""
    try:
        names = host.list_folder(deployments_folder(folders))
    except NotFound:
        return ()
    return tuple(name for name in names if host.stat(current_path(folders, name)) is not None)


def choose_deployment(host: ReadableHost, folders: Folders, name: str | None) -> str:
    """The named deployment, or the only one. Raises UsageError when that is not clear."""
    names = list_deployments(host, folders)
    if name is not None:
        if name in names:
            return name
        known = f"there are: {', '.join(names)}" if names else "there is none yet"
        raise UsageError(f"there is no deployment named {name}", known)
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError("there is no deployment yet", "`stoker up` starts the embedded example")
    raise UsageError("which deployment?", f"name one of: {', '.join(names)}")


def read_current(host: ReadableHost, folders: Folders, name: str) -> Generation | None:
    """The generation in force, None if the deployment is not there."""
    current = read_document(host, current_path(folders, name), Current)
    if current is None:
        return None
    return read_generation(host, folders, name, current.generation)


def read_generation(
    host: ReadableHost, folders: Folders, name: str, number: int
) -> Generation | None:
    """One generation, None if there is none of this number."""
    return read_document(host, generation_path(folders, name, number), Generation)


def list_generations(host: ReadableHost, folders: Folders, name: str) -> tuple[int, ...]:
    """The numbers of all generations, lowest first."""
    try:
        files = host.list_folder(generations_folder(folders, name))
    except NotFound:
        return ()
    numbers = (file.removesuffix(".json") for file in files if file.endswith(".json"))
    return tuple(
        sorted(int(number) for number in numbers if number.isascii() and number.isdecimal())
    )


def read_verification(host: ReadableHost, folders: Folders, name: str) -> Verification | None:
    """The newest verification of a deployment; one that cannot be read verifies nothing."""
    with suppress(StateError):
        return read_document(host, verification_path(folders, name), Verification)
    return None


def write_verification(host: Host, folders: Folders, verification: Verification) -> None:
    """Keep a verification."""
    write_document(host, verification_path(folders, verification.name), verification)


def write_soak(host: Host, folders: Folders, verification: Verification) -> None:
    """Keep the last soak of a deployment; a shorter verification does not replace it."""
    write_document(host, soak_path(folders, verification.name), verification)


def read_starts(host: ReadableHost, folders: Folders, name: str) -> Starts:
    """How long earlier starts took; an estimate that cannot be read is no estimate."""
    with suppress(StateError, HostError):
        found = read_document(host, starts_path(folders, name), Starts)
        return found or Starts(name=name)
    return Starts(name=name)


def read_plan(host: ReadableHost, folders: Folders, plan_id: str) -> Plan | None:
    """A saved plan."""
    return read_document(host, plan_path(folders, plan_id), Plan)


def write_plan(host: Host, folders: Folders, plan: Plan) -> str:
    """Save a plan and return its path."""
    path = plan_path(folders, plan.id)
    write_document(host, path, plan)
    return path


def write_facts(host: Host, folders: Folders, facts: Facts) -> None:
    """Keep the newest facts of this host."""
    write_document(host, facts_path(folders), facts)
