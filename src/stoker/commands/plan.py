"""`stoker plan FILE`: what apply would do, and why; saved, changes nothing else."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.commands.assemble import plan_deployment
from stoker.commands.folders import absolute_path
from stoker.commands.resolve import resolve
from stoker.commands.supervising import using_wanted
from stoker.commands.world import World
from stoker.errors import HostError, StateError, UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.model.document import render_document
from stoker.model.facts import Facts
from stoker.model.plan import Plan
from stoker.spec import parse_deployment
from stoker.state.documents import write_facts, write_plan

#: A deployment file is a page of text; the limit is the parser's.
FILE_LIMIT_BYTES = 2 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The plan and where it was saved."""

    plan: Plan
    path: str


def plan_file(world: World, path: str, *, end_holders: Sequence[int] = ()) -> Planned:
    """Plan a deployment file and save the plan. Raises SpecError, UsageError or StateError.

    ``end_holders`` are processes to be ended before the start.
    """
    world.open_state()
    text = read_file(path)
    if looks_like_plan(text):
        raise UsageError(f"{path} is a saved plan already", f"`stoker apply {path}` does it")
    world = using_wanted(world, parse_deployment(text, path, engine_kinds=engine_kinds()))
    resolved = resolve(world, text, path)
    plan = plan_deployment(world, resolved, origin=path, end_holders=end_holders)
    return Planned(plan=plan, path=_save(world, resolved.facts, plan))


def _save(world: World, facts: Facts, plan: Plan) -> str:
    try:
        write_facts(world.host, world.folders, facts)
        return write_plan(world.host, world.folders, plan)
    except HostError as error:
        raise StateError(f"the plan cannot be saved: {error.summary}", error.hint) from error


def _hint(error: OSError, path: str) -> str:
    if not isinstance(error, FileNotFoundError):
        return ""
    if "/" in path or "." in path:
        return "`stoker init` writes one"
    return f"a deployment file is wanted here; a deployment is started by `stoker start {path}`"


def looks_like_plan(text: str) -> bool:
    """Whether a file is a saved plan rather than a deployment."""
    head = text.lstrip()[:200]
    return head.startswith("{") and '"schema"' in head and '"plan/' in head


def write_plan_file(world: World, plan: Plan, path: str) -> None:
    """Write a plan where the user wants it. Raises UsageError."""
    try:
        world.host.write_file(absolute_path(path), render_document(plan).encode(), 0o600)
    except HostError as error:
        raise UsageError(f"the plan cannot be written: {error.summary}", error.hint) from error


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for whoever writes into a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def read_file(path: str) -> str:
    """The text of a file that the user named. Raises UsageError, for a pipe or a device too."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is not a file", "a deployment file is wanted here")
            content = file.read(FILE_LIMIT_BYTES)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", _hint(error, path)) from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not UTF-8 text (byte {error.start})", "save it as UTF-8"
        ) from error
