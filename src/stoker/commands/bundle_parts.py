"""What goes into a bundle: every document and log about one deployment, as they lie there.

Called by :mod:`stoker.commands.bundle`, which takes out of it what is private. What cannot be read
is named and ends nothing.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stoker.apply.journal import list_runs
from stoker.commands.diagnose_deployment import find_run, find_story_begin
from stoker.commands.judge import judge, knowledge_tree
from stoker.commands.kernel_log import read_kernel_text
from stoker.commands.redaction import Known
from stoker.commands.resolve import resolve
from stoker.commands.world import World
from stoker.errors import HostError, StokerError
from stoker.model.document import render_document
from stoker.model.facts import Plain, Unknown
from stoker.model.finding import Status
from stoker.model.generation import Generation
from stoker.model.layout import (
    current_path,
    engine_log_path,
    facts_path,
    generations_folder,
    guard_config_path,
    guard_status_path,
    kept_repairs_folder,
    run_folder,
    soak_path,
    starts_path,
    verification_path,
)

TREE, FINDINGS, KERNEL, LOGS = "tree.json", "findings.json", "logs/kernel.log", "logs/"
ENGINE_LOG, KERNEL_BEFORE = "logs/engine.log", "logs/kernel-since-boot.log"
UNKNOWN = "unknown, because"
#: Of the runs of a deployment, the newest so many.
_MOST_RUNS = 3
#: A document that is larger says by its size that it is none of ours.
_MOST_DOCUMENT_BYTES = 4 << 20
_LOG_CHUNK_BYTES = 1 << 20
_MOST_LOG_BYTES = 256 << 20


@dataclass(slots=True)
class Gathered:
    """What was read: documents as text, logs as bytes, and what could not be. ``engine`` is the
    kind that was started last."""

    engine: str = ""
    documents: dict[str, str] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def gather(world: World, name: str, generation: Generation | None) -> Gathered:
    """All of it; ``generation`` is the one in force, None for a deployment that never was."""
    gathered, folders = Gathered(), world.folders
    for path, source in (
        ("facts.json", facts_path(folders)),
        ("current.json", current_path(folders, name)),
        ("verification.json", verification_path(folders, name)),
        ("soak.json", soak_path(folders, name)),
        ("starts.json", starts_path(folders, name)),
        ("guard.json", guard_config_path(folders, name)),
        ("guard-status.json", guard_status_path(folders, name)),
    ):
        _take_document(world, gathered, path, source)
    if generation is not None:
        number = f"{generation.number:06d}.json"
        source = posixpath.join(generations_folder(folders, name), number)
        _take_document(world, gathered, "generation.json", source)
        gathered.documents["deployment.yaml"] = generation.source
        gathered.engine = generation.launch.engine
    _take_tree(world, gathered, _choose_source(world, name, gathered, generation))
    for file in _list(world, kept_repairs_folder(folders)):
        source = posixpath.join(kept_repairs_folder(folders), file)
        _take_document(world, gathered, f"kept-repairs/{file}", source)
    for run in _runs_of(world, name):
        for file in ("plan.json", "journal.jsonl", "verification.json"):
            source = posixpath.join(run_folder(folders, run), file)
            _take_document(world, gathered, f"runs/{run}/{file}", source)
        _take_log(world, gathered, f"{LOGS}failed-{run}.log", engine_log_path(folders, run))
    _take_log(world, gathered, ENGINE_LOG, world.supervisor.log_path(name))
    _take_messages(world, gathered, name)
    _take_kernel(world, gathered, name)
    return gathered


def _take_document(world: World, gathered: Gathered, path: str, source: str) -> None:
    try:
        if world.host.stat(source) is not None:
            gathered.documents[path] = world.host.read_text(source, _MOST_DOCUMENT_BYTES)
    except HostError as error:
        gathered.missing.append(f"{path}: {error.summary}")


def _take_log(world: World, gathered: Gathered, path: str, source: str) -> None:
    try:
        stat = world.host.stat(source)
        if stat is None or not stat.size_bytes:
            return
        begin = max(0, stat.size_bytes - _MOST_LOG_BYTES)
        chunks = [
            world.host.read_bytes(source, offset, _LOG_CHUNK_BYTES)
            for offset in range(begin, stat.size_bytes, _LOG_CHUNK_BYTES)
        ]
        gathered.logs[path] = b"".join(chunks)
    except HostError as error:
        gathered.missing.append(f"{path}: {error.summary}")


def _take_messages(world: World, gathered: Gathered, name: str) -> None:
    try:
        lines = world.supervisor.read_messages(name, 500)
    except StokerError as error:
        gathered.missing.append(f"what the supervisor wrote: {error.summary}")
        return
    if lines:
        gathered.logs[f"{LOGS}supervisor.log"] = "\n".join(lines).encode()


def _take_kernel(world: World, gathered: Gathered, name: str) -> None:
    """What the kernel said since the start in question, and apart from it, for persons, all: what
    was before may be about any other program."""
    try:
        begin = find_story_begin(world, name)
    except StokerError:
        begin = world.clock.now_seconds()
    for path, since in ((KERNEL, begin), (KERNEL_BEFORE, None)):
        text = read_kernel_text(world, since_seconds=since)
        if isinstance(text, Unknown):
            gathered.missing.append(f"{path}: {text.reason}")
        elif text:
            gathered.logs[path] = text.encode("utf-8", "replace")


def _choose_source(
    world: World, name: str, gathered: Gathered, generation: Generation | None
) -> str:
    """The deployment file that the logs belong to: that of the newest run where it failed, which
    may be another one than that in force."""
    run = find_run(world, name)
    if run is not None and run.has_failed and run.plan.origin.get("source"):
        gathered.engine = run.plan.launch.engine if run.plan.launch else gathered.engine
        return run.plan.origin["source"]
    return generation.source if generation is not None else ""


def _take_tree(world: World, gathered: Gathered, source: str) -> None:
    """What rules see of the deployment now, so that elsewhere the same conditions hold."""
    if not source:
        return
    try:
        resolved = resolve(world, source, "the deployment file")
        tree = knowledge_tree(world, resolved)
        findings = judge(tree, resolved.deployment)
    except StokerError as error:
        gathered.missing.append(f"what is known of the deployment: {error.summary}")
        return
    gathered.documents[TREE] = json.dumps(_pack_tree(tree), indent=1, sort_keys=True)
    fired = [each for each in findings if each.status is Status.FIRED]
    gathered.documents[FINDINGS] = render_document(fired)


def _runs_of(world: World, name: str) -> Sequence[str]:
    runs = reversed(list_runs(world.host, world.folders))
    about = (run for run in runs if is_about(world, run, name))
    return [run for run, _ in zip(about, range(_MOST_RUNS), strict=False)]


def is_about(world: World, run: str, name: str) -> bool:
    """Whether a run is of this deployment, by its plan, which names it near its beginning."""
    try:
        path = posixpath.join(run_folder(world.folders, run), "plan.json")
        found = json.loads(world.host.read_text(path, _MOST_DOCUMENT_BYTES))
    except (HostError, ValueError):
        return False
    return isinstance(found, dict) and found.get("name") == name


def _list(world: World, folder: str) -> Sequence[str]:
    try:
        return [name for name in world.host.list_folder(folder) if name.endswith(".json")]
    except HostError:
        return ()


def list_known(world: World, generation: Generation | None) -> Known:
    """What is private on this machine: the keys themselves, and the names of hosts and users."""
    secrets: list[str] = []
    for secret in generation.launch.secrets if generation else ():
        for path in (secret.source_path, secret.path):
            secrets += _read_lines(world, path)
    for name, value in world.env.items():
        if any(word in name.upper() for word in ("TOKEN", "SECRET", "PASSWORD", "API_KEY")):
            secrets.append(value)
    host = world.host.name
    users, homes = [world.me], [world.env.get("HOME", "")]
    for line in _read_lines(world, "/etc/passwd"):
        fields = line.split(":")
        if len(fields) >= 6 and fields[2].isdecimal() and 1000 <= int(fields[2]) < 65534:
            users += [fields[0], fields[4].partition(",")[0]]
            homes.append(fields[5])
    more_hosts = _read_lines(world, "/etc/hostname")
    return Known(
        secrets=tuple(secrets),
        hosts=(host, host.partition(".")[0], *more_hosts),
        users=tuple(users),
        homes=tuple(home for home in homes if home.startswith("/")),
    )


def _read_lines(world: World, path: str) -> list[str]:
    try:
        text = world.host.read_text(path, 1 << 20)
    except HostError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def _pack_tree(value: Plain | Unknown) -> Plain:
    if isinstance(value, Unknown):
        return {UNKNOWN: value.reason}
    if isinstance(value, Mapping):
        return {str(key): _pack_tree(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, frozenset, set)):
        return [_pack_tree(inner) for inner in value]
    return value
