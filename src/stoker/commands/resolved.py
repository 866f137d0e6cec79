"""`stoker resolved [NAME]`: what an engine decided at its start, in its own figures.

Reads the log of a deployment's last start and asks the engine where it can be asked; or reads a
log that somebody sent. Changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stoker.commands.answers import ANSWER_SECONDS, ask_documents, read_documents
from stoker.commands.assemble import require_current
from stoker.commands.ready import connect
from stoker.commands.supervising import using_supervisor_of
from stoker.commands.world import World
from stoker.endpoints.limited import LimitedEndpoint
from stoker.engines.resolved import (
    add_answers,
    answer_paths,
    read_resolved,
)
from stoker.errors import HostError, UsageError
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.model.engine_table import EngineTable
from stoker.model.generation import Generation
from stoker.model.resolved import Resolved, ResolvedValue
from stoker.state.documents import choose_deployment

#: A log is read backwards, so much at once, until its last start has been found.
_CHUNK_BYTES = 4 << 20
_MOST_BYTES = 64 << 20


def read_deployment(world: World, name: str | None) -> Resolved:
    """What the engine of a deployment decided at its last start. Raises UsageError without one."""
    chosen = choose_deployment(world.host, world.folders, name)
    world = using_supervisor_of(world, chosen)
    generation = require_current(world, chosen)
    table = load_engine_table(generation.launch.engine)
    lines = _lines_of_last_start(world, world.supervisor.log_path(chosen), table)
    is_running = bool(world.supervisor.state(chosen).pid)
    resolved = replace(read_resolved(lines, table), deployment=chosen, is_running=is_running)
    # Of one that does not run, another server may have the port by now.
    return (
        add_answers(resolved, _ask_all(world, generation, table), table) if is_running else resolved
    )


def _ask_all(
    world: World, generation: Generation, table: EngineTable
) -> Mapping[str, Mapping[str, ResolvedValue]]:
    """What the engine that runs answers, by the path that was asked."""
    endpoint = LimitedEndpoint(connect(world, generation), world.clock, ANSWER_SECONDS)
    return read_documents(ask_documents(endpoint, answer_paths(table)), table)


def read_log(world: World, path: str, kind: str | None) -> Resolved:
    """What a log in a file tells; the engine is told by its lines where no kind is given.

    Raises UsageError for a file that is none, or that no engine wrote as far as one can see.
    """
    try:
        stat = world.host.stat(path)
    except HostError as error:
        raise UsageError(f"the log cannot be read: {error.summary}", error.hint) from error
    if stat is None or stat.kind != "file":
        raise UsageError(f"there is no file {path}", "name the log of an engine")
    if kind is not None:
        table = load_engine_table(kind)
        return read_resolved(_lines_of_last_start(world, path, table), table)
    found = [
        read_resolved(_lines_of_last_start(world, path, table), table)
        for table in map(load_engine_table, engine_kinds())
    ]
    best = max(found, key=lambda each: len(each.values))
    if not best.values:
        kinds = ", ".join(engine_kinds())
        raise UsageError(
            f"no engine that Stoker knows wrote {path}, as far as its lines tell",
            f"name the engine with --engine: {kinds}",
        )
    return best


def _lines_of_last_start(world: World, path: str, table: EngineTable) -> Sequence[str]:
    """The lines from the beginning of the last start on; all that is read where none is seen."""
    try:
        stat = world.host.stat(path)
    except HostError:
        return ()
    size_bytes = stat.size_bytes if stat else 0
    begin = re.compile(table.log.begin)
    text = ""
    for chunk in _backwards(world, path, size_bytes):
        text = chunk + text
        if any(begin.search(line) for line in chunk.splitlines()):
            break
    return text.splitlines()


def _backwards(world: World, path: str, size_bytes: int) -> Iterator[str]:
    end, least = size_bytes, max(0, size_bytes - _MOST_BYTES)
    while end > least:
        offset = max(least, end - _CHUNK_BYTES)
        try:
            content = world.host.read_bytes(path, offset, end - offset)
        except HostError:
            return
        yield content.decode("utf-8", "replace")
        end = offset
