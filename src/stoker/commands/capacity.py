"""`stoker capacity`: where the memory of a deployment lies, what fits, and what would give more.

Reads a deployment file, a deployment that runs, or an engine's log; looks at the machine as a plan
does. Changes nothing but, where one option is chosen, the deployment file; what a deployment that
runs has found is kept for later predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from stoker.capacity.correction import correct_capacity, find_missing_bytes
from stoker.capacity.host_cache_limits import list_limits, list_node_limits, tell_nodes
from stoker.capacity.inputs import Inputs, Readings
from stoker.capacity.main_memory import add_main_memory
from stoker.capacity.options import add_options
from stoker.capacity.predict import predict
from stoker.commands.assemble import require_current
from stoker.commands.capacity_changes import fit_options
from stoker.commands.capacity_inputs import (
    Described,
    describe_deployment,
    read_readings,
    told_count,
    told_parts,
    told_pool_bytes,
)
from stoker.commands.capacity_starts import correct_described
from stoker.commands.capacity_told import Heard, hear
from stoker.commands.deployment_file import write_back
from stoker.commands.folders import absolute_path
from stoker.commands.forecast import RUNS
from stoker.commands.judge import pids_of_service
from stoker.commands.keep_start import keep_told
from stoker.commands.plan import looks_like_plan, read_file
from stoker.commands.resolve import Resolved, resolve
from stoker.commands.resolved import read_deployment, read_log
from stoker.commands.supervising import using_supervisor_of, using_wanted
from stoker.commands.world import World
from stoker.errors import HostError, UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.model.capacity import Capacity, MemoryMap, MemoryPart, Option, Span
from stoker.model.facts import Plain
from stoker.model.resolved import Resolved as Told
from stoker.report.capacity_text import ShownCapacity
from stoker.spec import edit_deployment, parse_deployment
from stoker.state.documents import choose_deployment

_TITLES = {
    "weights": "weights of the model",
    "kv_pool": "keys and values of tokens",
    "state_pool": "recurrent states of requests",
    "draft": "the model that drafts tokens",
    "graphs": "captured graphs",
    "workspace": "what a step needs",
    "unused": "unused",
    "host_cache": "cache of prompts in host memory",
}
_HOST = "host_cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A deployment file, a deployment that runs, an engine's log, or a file and a log of its start.

    ``context_tokens`` and ``parallel``: None for what the deployment says.
    """

    file: str | None = None
    running: str | None = None
    log: str | None = None
    engine: str | None = None
    context_tokens: int | None = None
    parallel: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCapacity:
    """What is shown, and the file that an option would be written into (None without one)."""

    shown: ShownCapacity
    resolved: Resolved | None = None
    file: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedOption:
    """The option that was written into a file, with the keys as they stand there."""

    option: Option
    file: str
    changes: Mapping[str, Plain]


def find_capacity(world: World, question: Question) -> FoundCapacity:
    """Predict, compare and list options. Raises UsageError and what resolving a file raises."""
    _check(question)
    if question.file is None and question.running is None:
        heard = hear(read_log(world, absolute_path(question.log or ""), question.engine))
        return FoundCapacity(shown=_show_log(heard, question))
    world.open_state()
    if question.running is not None:
        return _of_running(world, question, question.running)
    return _of_file(world, question, question.file or "")


def _check(question: Question) -> None:
    given = [each for each in (question.file, question.running) if each is not None]
    if len(given) > 1:
        raise UsageError("a file and a deployment that runs are two things", "name one of them")
    if not given and question.log is None:
        raise UsageError(
            "nothing is named whose memory could be looked at",
            "name a deployment file, --running NAME, or --log FILE",
        )
    if question.running is not None and question.log is not None:
        raise UsageError("a deployment that runs has a log of its own", "leave --log out")
    if question.engine is not None and (given or question.log is None):
        raise UsageError("--engine tells who wrote a log", "leave it out")


def _of_file(world: World, question: Question, path: str) -> FoundCapacity:
    text = read_file(path)
    if looks_like_plan(text):
        raise UsageError(f"{path} is a saved plan", "name the deployment file that it is of")
    world = using_wanted(world, parse_deployment(text, path, engine_kinds=engine_kinds()))
    resolved = resolve(world, text, absolute_path(path))
    heard = None
    if question.log is not None:
        heard = hear(read_log(world, absolute_path(question.log), resolved.table.kind))
    return FoundCapacity(
        shown=_show(world, resolved, heard, question), resolved=resolved, file=path, text=text
    )


def _of_running(world: World, question: Question, wanted: str) -> FoundCapacity:
    name = choose_deployment(world.host, world.folders, wanted)
    told = read_deployment(world, name)
    if not told.is_running:
        raise UsageError(f"{name} does not run", f"`stoker start {name}`, or name its file")
    world = using_supervisor_of(world, name)
    generation = require_current(world, name)
    resolved = resolve(world, generation.source, f"the file of {name}")
    heard = hear(told)
    with suppress(HostError):  # an answer that cannot be kept is an answer
        keep_told(world, resolved, heard.told)
    return FoundCapacity(shown=_show(world, resolved, heard, question), resolved=resolved)


# --- from a deployment ---


def _show(
    world: World, resolved: Resolved, heard: Heard | None, question: Question
) -> ShownCapacity:
    told = heard.told if heard is not None else None
    own_pids = pids_of_service(world, resolved.deployment.name)
    described = describe_deployment(resolved, own_pids)
    serve = resolved.deployment.serve
    parallel = question.parallel or serve.parallel_requests
    wish = described.wish(question.context_tokens, parallel)
    if told is None:
        corrected = correct_described(world, resolved, described)
        inputs = corrected.inputs
        capacity = correct_capacity(add_main_memory(predict(inputs), inputs), corrected)
    else:
        inputs, capacity = _hear(described, told)
    capacity = fit_options(add_options(capacity, inputs, wish), resolved)
    if heard is not None:
        capacity = replace(capacity, unknown=(*heard.doubts, *capacity.unknown))
    cache = capacity.host_cache
    notes = []
    if cache is not None:
        notes.append(tell_nodes(cache, described.nodes))
        notes.append(RUNS if own_pids else "")
    return ShownCapacity(
        capacity=capacity,
        context_tokens=question.context_tokens or serve.context_tokens or capacity.context_tokens,
        parallel=parallel,
        told_tokens=told_count(told, "kv_tokens") if told is not None else None,
        limits=(*list_limits(inputs, cache), *list_node_limits(inputs, cache))
        if cache is not None
        else (),
        notes=tuple(note for note in notes if note),
    )


def _hear(described: Described, told: Told) -> tuple[Inputs, Capacity]:
    """The inputs corrected by what the engine found, and the answer with it beside its maps.

    Maps are those that are predicted without any reading.
    """
    readings = read_readings(told, parts=told_parts(told))
    inputs = replace(described.inputs, readings=readings)
    pool = told_pool_bytes(told)
    missing = None if pool is None else find_missing_bytes(predict(inputs), pool)
    inputs = replace(inputs, readings=replace(readings, missing_bytes=missing))
    capacity = add_main_memory(predict(inputs), inputs)
    if capacity.kv_tokens is None:
        return inputs, _told_instead(capacity, told)
    bare = replace(described.inputs, readings=Readings(resolved_parts=told_parts(told)))
    maps = add_main_memory(predict(bare), bare).maps
    return inputs, replace(capacity, maps=maps or capacity.maps)


def _told_instead(capacity: Capacity, told: Told) -> Capacity:
    """Where nothing may be predicted, what the engine told is still true."""
    alone = _read_log_capacity(told)
    return replace(alone, name=capacity.name, release=capacity.release, unknown=capacity.unknown)


# --- from a log alone ---


def _show_log(heard: Heard, question: Question) -> ShownCapacity:
    """What a log alone tells: nothing is predicted without the model's dimensions."""
    capacity = _read_log_capacity(heard.told)
    capacity = replace(capacity, unknown=(*heard.doubts, *capacity.unknown))
    return ShownCapacity(
        capacity=capacity,
        context_tokens=question.context_tokens or capacity.context_tokens,
        parallel=question.parallel,
    )


def _read_log_capacity(told: Told) -> Capacity:
    tokens, pool = told_count(told, "kv_tokens"), told_count(told, "kv_bytes")
    version = told.values.get("engine_version")
    return Capacity(
        name="the start in the log",
        engine=told.engine,
        release=str(version.value) if version is not None else "",
        kv_tokens=None if tokens is None else _exact(tokens),
        token_bytes=None if not tokens or not pool else pool / tokens,
        context_tokens=told_count(told, "context_tokens"),
        maps=_map_log(told),
        unknown=_why_no_more(tokens),
    )


def _why_no_more(tokens: int | None) -> tuple[str, ...]:
    more = "a log does not tell the model's dimensions: for options name the deployment file too"
    if tokens is not None:
        return (more,)
    return ("this start did not come as far as its cache, or its log does not tell it", more)


def _map_log(told: Told) -> tuple[MemoryMap, ...]:
    parts = tuple(
        MemoryPart(part=part, title=_TITLES[part], resolved_bytes=size, reason="not predicted")
        for part, size in told_parts(told)
    )
    total = told_count(told, "total_bytes")
    of_gpu = tuple(part for part in parts if part.part != _HOST)
    of_host = tuple(part for part in parts if part.part == _HOST)
    maps = (
        MemoryMap(title="each rank of the engine", total_bytes=total, rank=0, parts=of_gpu),
        MemoryMap(title="host, for each process that tells it", total_bytes=None, parts=of_host),
    )
    return tuple(each for each in maps if each.parts)


def _exact(value: float) -> Span:
    return Span(low=value, likely=value, high=value)


# --- one option into the file ---


def apply_option(world: World, found: FoundCapacity, number: int) -> AppliedOption:
    """Write an option, counted from 1, into the deployment file; comments and order stay.

    Raises UsageError for a number that is none, without a file, and where the file has changed.
    """
    options = found.shown.capacity.options
    if found.file is None or found.resolved is None:
        raise UsageError("an option is written into a deployment file", "name the file")
    if not 1 <= number <= len(options):
        raise UsageError(
            f"there is no option {number}",
            f"choose 1 to {len(options)}"
            if options
            else "no single change that is known gives more here",
        )
    option = options[number - 1]
    new = edit_deployment(found.text, option.changes, origin=found.file)
    parse_deployment(new, found.file, engine_kinds=engine_kinds())
    write_back(world, found.file, found.text, new)
    return AppliedOption(option=option, file=found.file, changes=option.changes)
