"""Executes a plan: journal, then effect, then look again; on any failure, roll back.

Called by commands under the lock. It decides nothing: what to roll back to comes from the
planner through ``plan_back``. This is one of the three places with a broad ``except``, because
whatever went wrong (a bug and Ctrl-C included), the host must not be left between two states.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from stoker.apply.journal import LIMIT_BYTES, Journal
from stoker.apply.observe import observe_files, render_secret
from stoker.errors import ApplyFailed, HostError, Interrupted, RollbackFailed, StokerError
from stoker.model.event import Event, EventKind
from stoker.model.launch import ServicePhase
from stoker.model.plan import Activation, ActivationKind, Change, Image, Plan
from stoker.model.run import EntryPhase, Outcome
from stoker.ports import Clock, Host, Reporter, Supervisor

#: How long a left-over process may take to end after TERM before it is killed.
ORPHAN_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What an execution works with.

    ``me``: the user that Stoker runs as. ``is_secret``: whether a path holds a
    secret; ``digest_secret``: how those are digested.
    ``before_start``: told the name before each start. ``freeing``: stands around the end of
    processes, takes their pids, and waits until the memory of the activation's GPUs is free;
    ``end_named`` ends the processes that an activation names and gives their pids. ``verify``:
    waits until the service of that name is verified, raises StokerError if it never is.
    ``forget``: removes what a deployment left behind that nobody will ask for again (logs,
    results) once it is down.
    """

    host: Host
    supervisor: Supervisor
    clock: Clock
    reporter: Reporter
    me: str
    is_secret: Callable[[str], bool]
    digest_secret: Callable[[bytes], str]
    before_start: Callable[[str], None]
    freeing: Callable[[Activation], AbstractContextManager[set[int]]]
    end_named: Callable[[Activation, set[int]], None]
    verify: Callable[[str], object]
    forget: Callable[[str], None]


def run_plan(plan: Plan, tools: Tools, journal: Journal, plan_back: Callable[[], Plan]) -> None:
    """Execute the plan and close the run.

    Raises ApplyFailed when something failed and the host was rolled back, Interrupted when
    somebody asked to end and it was rolled back, RollbackFailed when that failed too.
    """
    try:
        execute(plan, tools, journal)
    except BaseException as cause:
        roll_back(plan, tools, journal, plan_back, cause=cause)
        if isinstance(cause, KeyboardInterrupt):
            raise Interrupted(f"interrupted; {_say_restored(journal)}") from cause
        if not isinstance(cause, StokerError):
            raise
        raise ApplyFailed(
            f"{cause.summary}\n{_capitalise(_say_restored(journal))}.", cause.hint
        ) from cause
    end_run(plan, tools, journal, Outcome.DONE)


def _say_restored(journal: Journal) -> str:
    """What came back, and what cannot."""
    if not journal.lost:
        return "the host was rolled back: it is as it was before"
    lost = ", ".join(journal.lost)
    return f"the host was rolled back, but nobody can bring back what was ended: {lost}"


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def end_run(
    plan: Plan, tools: Tools, journal: Journal, outcome: Outcome, *, detail: str = ""
) -> None:
    """Close the run. The before-images of secrets go: a key that was replaced is kept nowhere.

    They go first: all is done or restored by now, so nothing will be rolled back to them, while
    nobody looks at a run again that is closed.
    """
    for change in plan.changes:
        if change.before is not None and tools.is_secret(change.path):
            journal.drop_image(change.before.digest)
    journal.end(outcome, detail)


def roll_back(
    plan: Plan,
    tools: Tools,
    journal: Journal,
    plan_back: Callable[[], Plan],
    *,
    cause: BaseException | None = None,
) -> None:
    """Return to the state before the run of ``plan`` and close it. Raises RollbackFailed."""
    journal.keeps_images = False
    reason = _one_line(cause) if cause else "the run was interrupted"
    _say(tools, EventKind.NOTE, "roll-back", f"rolling back: {reason}")
    try:
        journal.free_reserve()
        journal.append(EntryPhase.ROLLING_BACK, "run", details={"cause": reason})
        execute(plan_back(), tools, journal)
        end_run(plan, tools, journal, Outcome.ROLLED_BACK, detail=reason)
    except KeyboardInterrupt as interrupt:
        raise Interrupted(
            "interrupted while rolling back: the host is between two states",
            "`stoker start`, or apply again: either finishes the roll-back first",
        ) from interrupt
    except StokerError as error:
        _end_if_possible(journal, error)
        left = (error.summary, f"the journal of run {journal.run} says what was begun")
        raise RollbackFailed(
            f"{reason}\nRolling back failed too: {error.summary}", left, error.hint
        ) from (cause or error)


def _end_if_possible(journal: Journal, error: StokerError) -> None:
    """Say in the journal that the roll-back failed; a full disk may forbid even that.

    Then the run stays open, which is the truth as well: the next verb tries to recover it.
    """
    with suppress(HostError):
        journal.append(EntryPhase.FAILED, "run", details={"error": error.summary})


def execute(plan: Plan, tools: Tools, journal: Journal) -> None:
    """All changes one by one, then all activations. Raises StokerError at the first failure."""
    for change in plan.changes:
        _change(change, tools, journal)
    for activation in plan.activations:
        subject = f"{activation.kind.value}:{activation.target}"
        journal.append(EntryPhase.BEGIN, subject)
        _say(tools, EventKind.ACTIVATION, activation.kind.value, activation.target)
        if activation.kind is ActivationKind.END_HOLDERS:
            journal.lost += tuple(each.title for each in activation.processes)
        _activate(activation, tools)
        journal.append(EntryPhase.DONE, subject)


def _change(change: Change, tools: Tools, journal: Journal) -> None:
    """One file: keep what is there, announce, write, look again."""
    host, subject = tools.host, f"file:{change.path}"
    kept = journal.keep_image(change.path, change.before)
    journal.append(EntryPhase.BEGIN, subject, before=kept)
    if change.after is None:
        _say(tools, EventKind.CHANGE, change.path, "remove")
        host.remove_file(change.path)
    else:
        _say(tools, EventKind.CHANGE, change.path, "write")
        content = _content(host, change.after)
        host.write_file(change.path, content, change.after.mode, change.after.owner)
    _look_again(change, tools)
    journal.append(EntryPhase.DONE, subject)


def _content(host: Host, image: Image) -> bytes:
    if image.content is not None:
        return image.content.encode()
    return render_secret(host.read_bytes(image.source_path, 0, LIMIT_BYTES), image.entry)


def _look_again(change: Change, tools: Tools) -> None:
    """Success is what is observed afterwards, not what a call returned."""
    found = observe_files(
        tools.host,
        [change.path],
        me=tools.me,
        secrets=[change.path] if tools.is_secret(change.path) else [],
        digest_secret=tools.digest_secret,
    )[change.path]
    is_right = found is None if change.after is None else change.after.is_like(found)
    if not is_right:
        raise HostError(
            f"{change.path} is not what was just written",
            "something else writes it at the same time; find out what before trying again",
        )


def _activate(activation: Activation, tools: Tools) -> None:
    supervisor, name = tools.supervisor, activation.target
    match activation.kind:
        case ActivationKind.END_ORPHANS:
            with tools.freeing(activation) as ended:
                _end_orphans(name, tools, ended)
        case ActivationKind.END_HOLDERS:
            with tools.freeing(activation) as ended:
                tools.end_named(activation, ended)
        case ActivationKind.RELOAD:
            supervisor.reload()
        case ActivationKind.START:
            tools.before_start(name)
            supervisor.start(name)
        case ActivationKind.RESTART:
            tools.before_start(name)
            supervisor.restart(name)
        case ActivationKind.STOP:
            supervisor.stop(name)
            _expect_stopped(name, tools)
        case ActivationKind.VERIFY:
            tools.verify(name)
        case ActivationKind.FORGET:
            tools.forget(name)


def _expect_stopped(name: str, tools: Tools) -> None:
    state = tools.supervisor.state(name)
    if state.pid or state.phase in (ServicePhase.RUNNING, ServicePhase.STARTING):
        raise HostError(f"{name} was told to stop but process {state.pid} still runs")


def _end_orphans(name: str, tools: Tools, ended: set[int]) -> None:
    for orphan in tools.supervisor.find_orphans(name):
        ended.add(orphan.pid)
        if not tools.host.end_process(orphan.pid, orphan.process, ORPHAN_TIMEOUT_SECONDS):
            raise HostError(
                f"process {orphan.pid}, left over from {name}, cannot be ended",
                "it may wait for a device; look at it with `ps` and in the kernel log",
            )


def _say(tools: Tools, kind: EventKind, subject: str, text: str) -> None:
    tools.reporter.emit(Event(kind=kind, subject=subject, text=text))


def _one_line(cause: BaseException) -> str:
    if isinstance(cause, KeyboardInterrupt):
        return "interrupted"
    return (str(cause) or type(cause).__name__).splitlines()[0]
