"""The sides of a comparison by the words that name them: a file, a deployment, a process, a run.

Called by `stoker diff` and `stoker adopt`. It reads and never writes; secrets are read to be
compared, and kept as digests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from stoker.apply.observe import render_secret
from stoker.commands.folders import absolute_path
from stoker.commands.plan import read_file
from stoker.commands.processes import (
    choose_server,
    find_engine,
    interpreter_of,
    look_at,
    start_of_process,
)
from stoker.commands.resolve import UNPRIVILEGED_USER, resolve
from stoker.commands.supervising import using_wanted
from stoker.commands.world import World
from stoker.errors import HostError, UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.knowledge.releases import load_table_for
from stoker.model.document import parse_document
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Plain
from stoker.model.generation import Generation
from stoker.model.launch import Launch, Origin
from stoker.model.layout import run_plan_path
from stoker.model.plan import Plan
from stoker.planning.command_line import own_name
from stoker.planning.sides import ReadText, Start
from stoker.ports import ReadableHost
from stoker.spec import parse_deployment
from stoker.state.documents import (
    choose_deployment,
    list_deployments,
    read_current,
    read_document,
    read_generation,
)

#: Longer than any file with keys.
SECRET_LIMIT_BYTES = 1 << 16

_NUMBERED = re.compile(r"(pid|port):(\d{1,10})")
_GENERATION = re.compile(r"([a-z0-9][a-z0-9-]*)@(\d{1,9})")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One side before it is read: what was started, and how its secrets' files are read."""

    start: Start
    read_text: ReadText


def find_table(kind: str, version: str | None = None) -> EngineTable | None:
    """The table of an engine's release, None for one that was recognised and nobody described."""
    return load_table_for(kind, version) if kind in engine_kinds() else None


def find_side(world: World, words: str) -> Compared:
    """The side that some words name.

    Raises UsageError for words that name nothing, and what reading the side raises.
    """
    if numbered := _NUMBERED.fullmatch(words):
        return _process_side(world, words, numbered[1], int(numbered[2]))
    if words.startswith(("pid:", "port:")):
        raise UsageError(f"{words} has no number", f"write {words.partition(':')[0]}:N")
    if words.startswith("run:"):
        return _run_side(world, words)
    if generation := _GENERATION.fullmatch(words):
        return _generation_side(world, generation[1], int(generation[2]))
    if _NAME.fullmatch(words) and not _is_file_alone(world, words):
        return _generation_side(world, words, None)
    return _file_side(world, words)


def side_of_launch(
    world: World, launch: Launch, *, title: str, user: str | None, read_text: ReadText | None = None
) -> Compared:
    """A launch as a side; its secrets are read where the owner keeps them."""
    copies = {secret.path: secret for secret in launch.secrets}
    read = read_text or reader(world.host)

    def read_copy(path: str) -> str | None:
        """A secret as the service's copy has it, or will have it, from the owner's file."""
        secret = copies.get(path)
        text = read(secret.source_path if secret else path)
        if secret is None or text is None:
            return text
        return render_secret(text.encode(), secret.entry).decode()

    program = launch.argv[0] if launch.argv else ""
    start = Start(
        title=title,
        argv=launch.argv,
        env=launch.env,
        secret_files={each.variable: each.source_path for each in launch.secrets if each.variable},
        interpreter=interpreter_of(world.host, program),
        user=user,
        kind=launch.engine,
        reasons=_reasons(launch),
    )
    return Compared(start=start, read_text=read_copy)


def reader(host: ReadableHost) -> ReadText:
    """Reads files with secrets; None for one that cannot be read."""

    def read(path: str) -> str | None:
        try:
            return host.read_text(path, SECRET_LIMIT_BYTES)
        except HostError:
            return None

    return read


def user_of(world: World, deployment: Mapping[str, Plain]) -> str:
    """Whom the service of a deployment runs as on this machine."""
    options = deployment.get("service") or {}
    return str(options.get("user") or (UNPRIVILEGED_USER if world.is_root else world.me))


def _reasons(launch: Launch) -> dict[str, str]:
    """Why Stoker sets what nobody asked for, by the names that are compared."""
    table = find_table(launch.engine, launch.engine_build)
    reasons = {}
    for setting in (each for each in launch.settings if each.origin is not Origin.USER):
        option = table.catalogue.find(setting.name) if table and setting.kind == "flag" else None
        name = own_name(option) if option else setting.name
        reasons[name] = f"Stoker sets it: {setting.reason}"
    return reasons


def _process_side(world: World, words: str, what: str, number: int) -> Compared:
    pid = number if what == "pid" else choose_server(world, pid=None, port=number).pid
    process = look_at(world.host, find_engine(world, pid))
    start = start_of_process(world.host, process)
    title = words if words == start.title else f"{words} ({start.title})"
    return Compared(start=replace(start, title=title), read_text=reader(world.host))


def _is_file_alone(world: World, words: str) -> bool:
    """Whether there is a file of this name and no deployment."""
    if words in list_deployments(world.host, world.folders):
        return False
    stat = world.host.stat(absolute_path(words))
    return stat is not None and stat.kind == "file"


def _generation_side(world: World, name: str, number: int | None) -> Compared:
    chosen = choose_deployment(world.host, world.folders, name)
    if number is None:
        generation = read_current(world.host, world.folders, chosen)
    else:
        generation = read_generation(world.host, world.folders, chosen, number)
    if generation is None:
        raise UsageError(
            f"{name} has no generation {number}" if number is not None else f"{name} is not there",
            f"`stoker rollback --list {name}` lists its generations",
        )
    title = f"{name}@{generation.number}"
    return _side_of_generation(world, generation, title)


def _side_of_generation(world: World, generation: Generation, title: str) -> Compared:
    user = user_of(world, generation.deployment)
    return side_of_launch(world, generation.launch, title=title, user=user)


def _run_side(world: World, words: str) -> Compared:
    run = words.removeprefix("run:")
    if not _RUN.fullmatch(run):
        raise UsageError(f"{words} is not the name of a run", "runs lie in the state folder")
    path = run_plan_path(world.folders, run)
    plan = read_document(world.host, path, Plan)
    if plan is None:
        raise UsageError(f"there is no run {run}", f"runs lie in {path.rsplit('/', 2)[0]}")
    return _side_of_plan(world, plan, words)


def _side_of_plan(world: World, plan: Plan, title: str) -> Compared:
    if plan.launch is None:
        raise UsageError(f"{title} starts nothing, so there is nothing to compare", "name another")
    user = user_of(world, plan.served.deployment if plan.served else {})
    return side_of_launch(world, plan.launch, title=title, user=user)


def _file_side(world: World, path: str) -> Compared:
    text = read_file(path)
    if text.lstrip().startswith("{"):
        return _document_side(world, text, path)
    world = using_wanted(world, parse_deployment(text, path, engine_kinds=engine_kinds()))
    resolved = resolve(world, text, absolute_path(path))
    user = resolved.user or world.me
    return side_of_launch(world, resolved.launch, title=path, user=user)


def _document_side(world: World, text: str, path: str) -> Compared:
    """A stored document that holds a launch. Raises UsageError for any other."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON document: {error}", "name another file") from error
    schema = str(data.get("schema", "")) if isinstance(data, dict) else ""
    match schema.partition("/")[0]:
        case "launch":
            launch = parse_document(text, Launch, origin=path)
            return side_of_launch(world, launch, title=path, user=None)
        case "generation":
            generation = parse_document(text, Generation, origin=path)
            return _side_of_generation(world, generation, path)
        case "plan":
            return _side_of_plan(world, parse_document(text, Plan, origin=path), path)
    raise UsageError(
        f"{path} holds no launch ({schema or 'no schema'})",
        "a launch, a generation or a plan can be compared, or a deployment file (YAML)",
    )
