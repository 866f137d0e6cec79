"""What there is to read of a deployment of this machine when something went wrong with it.

Called by :mod:`stoker.commands.diagnose`, and where an apply failed. Reads and asks; changes
nothing, and does without whatever cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from stoker.apply.journal import list_runs, read_entries, read_run_plan
from stoker.commands.failed_run import list_symptoms, read_failed_run
from stoker.commands.judge import knowledge_tree
from stoker.commands.kernel_log import KERNEL, read_kernel
from stoker.commands.log_facts import keep_last_start
from stoker.commands.resolve import resolve
from stoker.commands.supervising import using_supervisor_of
from stoker.commands.world import World
from stoker.diagnosis.diagnose import diagnose
from stoker.diagnosis.inputs import Inputs
from stoker.diagnosis.lines import ReadLog, read_log
from stoker.errors import HostError, StateError, StokerError, UsageError
from stoker.knowledge.rules import evaluate_rules, load_rules
from stoker.knowledge.templates import read_leaf
from stoker.model.diagnosis import Diagnosis, ReadInput
from stoker.model.facts import Plain, Unknown
from stoker.model.finding import Finding, Status
from stoker.model.generation import Generation
from stoker.model.plan import Plan
from stoker.model.run import Entry, EntryPhase, Outcome
from stoker.state.documents import (
    choose_deployment,
    list_deployments,
    read_current,
    read_verification,
)

_CHUNK_BYTES = 1 << 20
#: Of a log that was never rotated the end is read.
_MOST_LOG_BYTES = 1 << 30
#: So many runs are looked through for one of the deployment.
_MOST_RUNS = 100
#: The clock of /proc counts so many ticks a second on every machine that engines run on.
_TICKS = 100.0
#: Without any run of the deployment the kernel is asked about the last hours.
_HOURS = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestRun:
    """The newest run of a deployment. ``has_failed``: it was rolled back, or could not be."""

    name: str
    plan: Plan
    at_seconds: float
    has_failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is known of a deployment now, and the rules that fired over it."""

    tree: Mapping[str, Plain] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def read_deployment(world: World, name: str | None) -> Inputs:
    """All that there is to read. Raises UsageError for a name that nothing is known of."""
    chosen = _choose(world, name)
    run = find_run(world, chosen)
    generation = read_current(world.host, world.folders, chosen)
    if generation is not None:
        world = using_supervisor_of(world, chosen)
    if run is not None and run.has_failed:
        inputs = _read_failed(world, chosen, run)
    elif generation is not None:
        inputs = _read_last_start(world, generation)
    else:
        raise UsageError(f"nothing is known of {chosen} that could be diagnosed")
    begin = run.at_seconds if run else world.clock.now_seconds() - _HOURS * 3600
    inputs = _with_kernel(world, inputs, since_seconds=begin)
    if run is not None and run.has_failed:
        return inputs
    return _part_kernel(world, inputs, chosen)


def diagnose_failed_apply(world: World, name: str | None = None) -> Diagnosis | None:
    """What the newest run of all (or of one deployment) failed by; None where it did not fail."""
    for run in reversed(list_runs(world.host, world.folders)):
        plan = _read_plan(world, run)
        if plan is None or (name is not None and plan.name != name):
            continue
        found = _describe_run(world, run, plan)
        if not found.has_failed:
            return None
        inputs = _read_failed(world, plan.name, found)
        return diagnose(_with_kernel(world, inputs, since_seconds=found.at_seconds))
    return None


def _choose(world: World, name: str | None) -> str:
    """A deployment in force, or one whose first start failed."""
    if name is None and not list_deployments(world.host, world.folders):
        newest = next(reversed(list_runs(world.host, world.folders)), None)
        plan = _read_plan(world, newest) if newest else None
        if plan is not None:
            return plan.name
    is_gone = name is not None and name not in list_deployments(world.host, world.folders)
    if name is not None and is_gone and find_run(world, name) is not None:
        return name
    return choose_deployment(world.host, world.folders, name)


def find_run(world: World, name: str) -> NewestRun | None:
    """The newest run of a deployment, None where none is known."""
    runs = list_runs(world.host, world.folders)
    for run in reversed(runs[-_MOST_RUNS:]):
        plan = _read_plan(world, run)
        if plan is not None and plan.name == name:
            return _describe_run(world, run, plan)
    return None


def _read_plan(world: World, run: str) -> Plan | None:
    try:
        return read_run_plan(world.host, world.folders, run)
    except (HostError, StateError):
        return None


def _describe_run(world: World, run: str, plan: Plan) -> NewestRun:
    try:
        entries = read_entries(world.host, world.folders, run)
    except (HostError, StateError):
        entries = ()
    return NewestRun(
        name=run,
        plan=plan,
        at_seconds=entries[0].at_seconds if entries else world.clock.now_seconds(),
        has_failed=any(map(_is_failure, entries)),
    )


def _is_failure(entry: Entry) -> bool:
    outcome = entry.details.get("outcome")
    is_undone = outcome in (Outcome.ROLLED_BACK, Outcome.NOT_ROLLED_BACK)
    return entry.phase is EntryPhase.FAILED or (entry.phase is EntryPhase.ENDED and is_undone)


def _read_failed(world: World, name: str, run: NewestRun) -> Inputs:
    known = _look(world, run.plan.origin.get("source", ""))
    launch = run.plan.launch
    inputs = read_failed_run(
        world,
        run.name,
        engine=launch.engine if launch else "",
        name=name,
        tree=known.tree,
        said="\n".join(_list_failures(world, run.name)),
    )
    return replace(inputs, findings=(*inputs.findings, *known.findings))


def _list_failures(world: World, run: str) -> Iterator[str]:
    """What the journal says went wrong."""
    try:
        entries = read_entries(world.host, world.folders, run)
    except (HostError, StateError):
        return
    for entry in entries:
        if entry.phase is EntryPhase.FAILED:
            yield from (str(text) for text in entry.details.values() if isinstance(text, str))


def _read_last_start(world: World, generation: Generation) -> Inputs:
    name, engine = generation.name, generation.launch.engine
    log = _read_log(world, world.supervisor.log_path(name), f"the log of {name}")
    last = keep_last_start(log.lines, engine)
    known = _look(world, generation.source)
    verification = read_verification(world.host, world.folders, name)
    release = read_leaf(known.tree, "stack.version")
    return Inputs(
        name=name,
        engine=engine,
        release=release if isinstance(release, str) else "",
        lines=last,
        history=log.lines[: len(log.lines) - len(last)],
        kernel=log.kernel,
        symptoms=tuple(list_symptoms(verification)) if verification else (),
        tree=known.tree,
        findings=known.findings,
        read=(log.read,),
    )


def _read_log(world: World, path: str, origin: str) -> ReadLog:
    """A log; an empty one where it cannot be read."""

    def chunks() -> Iterator[bytes]:
        try:
            stat = world.host.stat(path)
            size_bytes = stat.size_bytes if stat else 0
            begin = max(0, size_bytes - _MOST_LOG_BYTES)
            for offset in range(begin, size_bytes, _CHUNK_BYTES):
                yield world.host.read_bytes(path, offset, _CHUNK_BYTES)
        except HostError:
            return

    return read_log(chunks(), origin)


def _look(world: World, source: str) -> _Known:
    """The tree of a deployment file on this machine; nothing where it cannot be resolved now."""
    if not source:
        return _Known()
    try:
        resolved = resolve(world, source, "the deployment file")
        tree = knowledge_tree(world, resolved)
    except StokerError:
        return _Known()
    accept = frozenset(resolved.deployment.accept)
    findings = evaluate_rules(load_rules(), tree, stage="diagnose", accept=accept)
    fired = tuple(each for each in findings if each.status is Status.FIRED)
    return _Known(tree=tree, findings=fired)


def _with_kernel(world: World, inputs: Inputs, *, since_seconds: float) -> Inputs:
    kernel = read_kernel(world, since_seconds=since_seconds)
    if isinstance(kernel, Unknown):
        unread = ReadInput(origin=KERNEL, kind="kernel", lines=0, size_bytes=0, note=kernel.reason)
        return replace(inputs, read=(*inputs.read, unread))
    return replace(
        inputs, kernel=(*inputs.kernel, *kernel.kernel), read=(*inputs.read, kernel.read)
    )


def _part_kernel(world: World, inputs: Inputs, name: str) -> Inputs:
    """What the kernel said before the process that runs now began is history, like its log."""
    begin = _find_begin(world, name)
    since = read_kernel(world, since_seconds=begin) if begin is not None else None
    if since is None or isinstance(since, Unknown):
        return inputs
    before = [line for line in inputs.kernel if line.origin == KERNEL]
    others = [line for line in inputs.kernel if line.origin != KERNEL]
    before = before[: max(0, len(before) - len(since.kernel))]
    return replace(inputs, kernel=(*others, *since.kernel), history=(*before, *inputs.history))


def find_story_begin(world: World, name: str) -> float:
    """Since when (seconds since the epoch) the kernel's words are about this deployment as it is:
    the newest run where that failed, else the process that runs now."""
    run = find_run(world, name)
    if run is not None and run.has_failed:
        return run.at_seconds
    begin = _find_begin(world, name)
    if begin is not None:
        return begin
    return run.at_seconds if run else world.clock.now_seconds() - _HOURS * 3600


def _find_begin(world: World, name: str) -> float | None:
    """When the process of a service began, None where none runs or that cannot be read."""
    _, _, ticks = world.supervisor.state(name).process.partition(":")
    try:
        up_seconds = float(world.host.read_text("/proc/uptime", 256).split()[0])
        return world.clock.now_seconds() - up_seconds + int(ticks) / _TICKS
    except (HostError, ValueError, IndexError):
        return None
