"""`stoker bundle [NAME]`: what there is to know of one deployment, in one archive without secrets.

``bundle.json`` (``bundle/1``) is the index; the rest are documents as they lie in the state folder,
and logs. :func:`read_bundle` makes of it what a diagnosis starts from, on any other machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import isfinite
from typing import ClassVar

from stoker import __version__
from stoker.apply.journal import list_runs
from stoker.commands.bundle_file import MOST_UNPACKED_BYTES, pack, unpack
from stoker.commands.bundle_parts import (
    ENGINE_LOG,
    FINDINGS,
    KERNEL,
    KERNEL_BEFORE,
    LOGS,
    TREE,
    UNKNOWN,
    Gathered,
    gather,
    is_about,
    list_known,
)
from stoker.commands.failed_run import list_symptoms
from stoker.commands.folders import absolute_path
from stoker.commands.log_facts import keep_last_start
from stoker.commands.redaction import Known, Redactor
from stoker.commands.supervising import using_supervisor_of
from stoker.commands.world import World
from stoker.diagnosis.inputs import Inputs, LogLine, Symptom
from stoker.diagnosis.lines import ReadLog, read_log
from stoker.diagnosis.needles import load_needles
from stoker.diagnosis.prefixes import strip_terminal
from stoker.diagnosis.sifting import Room, keep_lines
from stoker.errors import HostError, StateError, UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.model.contract import Verification
from stoker.model.document import parse_document, render_document
from stoker.model.facts import Plain, Unknown
from stoker.model.finding import Finding
from stoker.state.documents import choose_deployment, list_deployments, read_current

MOST_BYTES = 2 << 20
INDEX = "bundle.json"
#: How much of each log is kept, and how often that is halved until the archive is small enough.
_ROOM = Room(head_bytes=192 << 10, tail_bytes=768 << 10, found_bytes=768 << 10)
_HALVINGS = 6
_SUPERVISOR_LOG = f"{LOGS}supervisor.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file of a bundle: ``kind`` is document, log or kernel; ``note`` says what is missing."""

    path: str
    kind: str
    size_bytes: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleIndex:
    """What a bundle holds. ``redacted`` counts the different things that were replaced, by kind;
    ``missing`` says what could not be read."""

    SCHEMA: ClassVar[str] = "bundle/1"

    name: str
    stoker_version: str
    engine: str = ""
    release: str = ""
    at_seconds: float = 0.0
    parts: tuple[Part, ...] = ()
    redacted: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBundle:
    """A bundle on the disk."""

    SCHEMA: ClassVar[str] = "bundle-written/1"

    path: str
    size_bytes: int
    parts: tuple[Part, ...]
    redacted: Mapping[str, int]
    missing: tuple[str, ...] = ()


# --- writing ---


def write_bundle(world: World, name: str | None, *, output: str | None = None) -> WrittenBundle:
    """Write the bundle of a deployment; ``output`` is a new file, ``NAME-bundle.tar.gz`` if None.

    Raises UsageError for an unknown deployment and for a file that is there already.
    """
    chosen = _choose(world, name)
    path = output or f"{chosen}-bundle.tar.gz"
    target = absolute_path(path)
    if world.host.stat(target) is not None:
        raise UsageError(f"{path} is there already", "name another file with --output")
    content, index = make_bundle(world, chosen)
    try:
        world.host.write_file(target, content, 0o600)
    except HostError as error:
        raise UsageError(f"{path} cannot be written: {error.summary}", error.hint) from error
    return WrittenBundle(
        path=path,
        size_bytes=len(content),
        parts=index.parts,
        redacted=index.redacted,
        missing=index.missing,
    )


def make_bundle(world: World, name: str) -> tuple[bytes, BundleIndex]:
    """The archive and its index. Nothing that cannot be read ends it."""
    world = using_supervisor_of(world, name)
    generation = read_current(world.host, world.folders, name)
    gathered = gather(world, name, generation)
    known = list_known(world, generation)
    room = _ROOM
    for attempt in range(_HALVINGS):
        content, index = _assemble(world, name, gathered, known=known, room=room)
        if len(content) <= MOST_BYTES:
            break
        room = replace(
            room,
            head_bytes=room.head_bytes // 2,
            tail_bytes=room.tail_bytes // 2,
            found_bytes=room.found_bytes // 2,
        )
        _drop_largest(gathered, most_bytes=MOST_BYTES >> attempt)
    return content, index


def _drop_largest(gathered: Gathered, *, most_bytes: int) -> None:
    """Documents as large as that are no help to anybody; the index says which one is not there."""
    largest = max(gathered.documents, key=lambda path: len(gathered.documents[path]), default="")
    if largest and len(gathered.documents[largest]) > most_bytes:
        del gathered.documents[largest]
        gathered.missing.append(f"{largest} is too large")


def _assemble(
    world: World,
    name: str,
    gathered: Gathered,
    *,
    known: Known,
    room: Room,
) -> tuple[bytes, BundleIndex]:
    redactor = Redactor(known)
    files: dict[str, str] = {}
    parts: list[Part] = []
    for path, text in sorted(gathered.documents.items()):
        files[path] = redactor.redact(text)
        parts.append(Part(path=path, kind="document", size_bytes=len(files[path].encode())))
    for path, content in sorted(gathered.logs.items()):
        text, note = _excerpt(content, room)
        files[path] = redactor.redact(text)
        kind = "kernel" if path in (KERNEL, KERNEL_BEFORE) else "log"
        size_bytes = len(files[path].encode("utf-8", "replace"))
        parts.append(Part(path=path, kind=kind, size_bytes=size_bytes, note=note))
    index = BundleIndex(
        name=name,
        stoker_version=__version__,
        engine=gathered.engine,
        release=_release_of(gathered),
        at_seconds=float(int(world.clock.now_seconds())),
        parts=tuple(parts),
        redacted=redactor.found,
        missing=tuple(redactor.redact(text) for text in gathered.missing),
    )
    # The index too: a deployment may be named as the host is.
    files[INDEX] = redactor.redact(render_document(index))
    packed = {path: text.encode("utf-8", "replace") for path, text in files.items()}
    return pack("stoker-bundle", packed), index


def _excerpt(content: bytes, room: Room) -> tuple[str, str]:
    """The log, or its beginning, its end, and what stands around lines that tell something."""
    kept = keep_lines([content], load_needles(), room)
    text: list[str] = []
    last = 0
    for number, line in kept.lines:
        if number > last + 1:
            text.append(f"[... {number - last - 1} lines left out ...]")
        # Without colours, which may stand in the midst of a key.
        text.append(strip_terminal(line.decode("utf-8", "replace")))
        last = max(last, number)
    note = "" if kept.is_whole else f"{len(kept.lines)} of {kept.line_count} lines"
    return "\n".join(text) + "\n", note


def _choose(world: World, name: str | None) -> str:
    """A deployment in force, or one whose first start failed: that is when bundles are wanted."""
    if name is not None and name not in list_deployments(world.host, world.folders):
        runs = list_runs(world.host, world.folders)
        if any(is_about(world, run, name) for run in runs):
            return name
    return choose_deployment(world.host, world.folders, name)


def _release_of(gathered: Gathered) -> str:
    try:
        version = json.loads(gathered.documents.get(TREE, "{}")).get("stack", {}).get("version")
    except (ValueError, AttributeError):
        return ""
    return version if isinstance(version, str) else ""


# --- reading ---


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBundle:
    """A bundle as a diagnosis needs it: the index, and the inputs that were packed."""

    index: BundleIndex
    inputs: Inputs


def read_bundle(world: World, path: str) -> ReadBundle:
    """The bundle in a file. Raises UsageError for what is none, or is made to do harm."""
    target = absolute_path(path)
    try:
        stat = world.host.stat(target)
        if stat is None or stat.kind != "file":
            raise UsageError(f"there is no file {path}", "name an archive of `stoker bundle`")
        content = world.host.read_bytes(target, 0, MOST_UNPACKED_BYTES)
    except HostError as error:
        raise UsageError(f"{path} cannot be read: {error.summary}", error.hint) from error
    return parse_bundle(content, path)


def parse_bundle(content: bytes, origin: str) -> ReadBundle:
    """The same from the bytes of an archive. Pure."""
    parts = unpack(content, origin)
    if INDEX not in parts:
        raise UsageError(f"{origin} has no {INDEX}", "`stoker bundle` writes one")
    try:
        text = parts[INDEX].decode("utf-8", "replace")
        index = parse_document(text, BundleIndex, origin=f"{origin}: {INDEX}")
    except StateError as error:
        raise UsageError(f"{origin} is not a bundle: {error.summary}", error.hint) from error
    logs = sorted(path for path in parts if path.startswith(LOGS) and path != KERNEL)
    chosen = _choose_logs(logs)
    tree = _load(parts.get(TREE, b"{}"))
    engine = index.engine if index.engine in engine_kinds() else ""
    read = [read_log([parts[log]], log) for log in chosen]
    has_failed = ENGINE_LOG not in chosen
    before = [_before(log, engine, has_failed=has_failed) for log in read]
    lines = [log.lines[len(over) :] for log, over in zip(read, before, strict=True)]
    if KERNEL in parts:
        read.append(read_log([parts[KERNEL]], KERNEL, is_kernel=True))
    return ReadBundle(
        index=index,
        inputs=Inputs(
            name=index.name,
            engine=engine,
            release=index.release,
            lines=tuple(chain.from_iterable(lines)),
            history=tuple(chain.from_iterable(before)),
            kernel=tuple(line for log in read for line in log.kernel),
            symptoms=tuple(_symptoms(parts)),
            tree=tree if isinstance(tree, dict) else {},
            findings=_findings(parts),
            read=tuple(log.read for log in read),
        ),
    )


def _before(log: ReadLog, engine: str, *, has_failed: bool) -> Sequence[LogLine]:
    """Of a service's own log what was before its last start; other logs have one start. What the
    supervisor wrote of a service that runs is over: it tells ends, not starts."""
    if log.read.origin == _SUPERVISOR_LOG and not has_failed:
        return log.lines
    if log.read.origin != ENGINE_LOG:
        return ()
    return log.lines[: len(log.lines) - len(keep_last_start(log.lines, engine))]


def _choose_logs(logs: Sequence[str]) -> Sequence[str]:
    """The log of the newest start that failed, else that of the service: two starts are two
    stories. What the supervisor wrote goes with either."""
    failed = [log for log in logs if log.startswith(f"{LOGS}failed-")]
    engine = failed[-1:] or [log for log in logs if log == ENGINE_LOG]
    return [*engine, *(log for log in logs if log == _SUPERVISOR_LOG)]


def _symptoms(parts: Mapping[str, bytes]) -> Iterator[Symptom]:
    runs = sorted(path for path in parts if path.startswith("runs/") and "verification" in path)
    for path in [*runs[-1:], "verification.json"]:
        if path not in parts:
            continue
        try:
            text = parts[path].decode("utf-8", "replace")
            yield from list_symptoms(parse_document(text, Verification, origin=path))
        except StateError:
            continue
        return


def _findings(parts: Mapping[str, bytes]) -> tuple[Finding, ...]:
    try:
        text = parts.get(FINDINGS, b"[]").decode("utf-8", "replace")
        return parse_document(text, tuple[Finding, ...], origin=FINDINGS)
    except StateError:
        return ()


def _load(content: bytes) -> Plain | Unknown:
    try:
        text = content.decode("utf-8", "replace")
        return _unpack_tree(json.loads(text, parse_constant=_no_number, parse_float=_read_float))
    except (ValueError, RecursionError):
        return {}


def _read_float(text: str) -> Plain:
    value = float(text)
    return value if isfinite(value) else _no_number(text)


def _no_number(text: str) -> Plain:
    return {UNKNOWN: f"{text[:20]} is no number"}


def _unpack_tree(value: Plain) -> Plain | Unknown:
    if isinstance(value, dict):
        if set(value) == {UNKNOWN}:
            return Unknown(reason=str(value[UNKNOWN]))
        return {key: _unpack_tree(inner) for key, inner in value.items()}
    return [_unpack_tree(inner) for inner in value] if isinstance(value, list) else value
