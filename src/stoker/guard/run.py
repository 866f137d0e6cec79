"""The guard's shell: makes the observations, carries the actions out, and decides nothing.

:mod:`stoker.guard.__main__` calls :func:`run_guard` in the main thread of a fresh process. Two
threads beside it may block (one copies the engine's output, one asks over HTTP); the main thread
never waits for anything but its inbox, so a server that hangs holds up no signal and no deadline.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType

from stoker.contract.selection import QUICK, select_checks
from stoker.endpoints.http import HttpEndpoint
from stoker.errors import UsageError
from stoker.guard.asking import Question, WallClock, put_question, read_key
from stoker.guard.boot import Boot, await_devices, read_memory
from stoker.guard.child import (
    Child,
    Watcher,
    beat,
    choose_environment,
    kill_rest,
    read_bytes_read,
    reap,
    release_watcher,
    signal_engine,
    start_engine,
    start_watcher,
)
from stoker.guard.config import GuardConfig, sum_weights
from stoker.guard.decide import begin, step
from stoker.guard.notify import Send, connect_manager
from stoker.guard.output import pump
from stoker.guard.progress import read_fraction
from stoker.guard.starts import read_starts, remember_start
from stoker.guard.status import write_status
from stoker.guard.values import (
    Action,
    BytesRead,
    Exit,
    ExitCode,
    Exited,
    Lines,
    Mode,
    Notify,
    Observation,
    Rules,
    SignalEngine,
    Signalled,
    State,
    Tick,
)
from stoker.guard.words import (
    GuardStatus,
    describe,
    estimate_left_seconds,
    name_phase,
    phase_began_seconds,
)
from stoker.model.generation import Start, Starts
from stoker.ports import Endpoint

_STDOUT, _STDERR = 1, 2

#: A small model loads in under a second; a ready engine is looked at seldom.
_STARTING_TICK_SECONDS = 0.25
_TICK_SECONDS = 1.0
#: The whole process table is read for it.
_BYTES_SECONDS = 2.0
#: A program of our own is run for it.
_MEMORY_SECONDS = 10.0
_STATUS_SECONDS = 1.0
#: How often the watcher is told that the guard goes on; for a short limit, a tenth of that.
_BEAT_SECONDS = 5.0
_BEATS = 10
#: What is left in the pipe of an engine that has ended is read in no time, unless the reader of
#: the guard's own output stands still.
_LAST_WORDS_SECONDS = 5.0
#: An engine that writes faster than the guard judges: the rest is passed on without judging it.
_MOST_WAITING = 256


@dataclass(frozen=True, slots=True)
class _ChildEnded:
    """Some child has ended and can be reaped."""


@dataclass(frozen=True, slots=True)
class _ThreadEnded:
    """The asking thread has ended, which it never does unless by a bug."""


Item = Observation | _ChildEnded | _ThreadEnded


@dataclass(kw_only=True)
class _Shell:
    """What a running guard holds."""

    config: GuardConfig
    child: Child
    watcher: Watcher
    send: Send
    state: State
    inbox: SimpleQueue[Item]
    questions: SimpleQueue[Question] = field(default_factory=SimpleQueue)
    output: threading.Thread
    starts: Starts
    bytes_at_seconds: float = 0.0
    memory_at_seconds: float = 0.0
    memory_reader: threading.Thread | None = None
    status_at_seconds: float = 0.0
    beat_at_seconds: float = 0.0
    shown: GuardStatus | None = None


def run_guard(config: GuardConfig) -> int:
    """Run the engine to its end and answer the guard's exit code.

    Raises UsageError, before anything is started, for a configuration that cannot be followed.
    """
    endpoint = _connect(config)
    secrets = _read_secrets(config)
    environment = choose_environment(config.engine, os.environ, secrets)
    inbox: SimpleQueue[Item] = SimpleQueue()
    _listen(inbox)
    say = partial(_say, config)
    code = await_devices(Boot(config=config, inbox=inbox, send=connect_manager(), say=say))
    if code is not None:
        return code
    try:
        child = start_engine(config.engine, environment)
    except OSError as error:
        _say(config, f"the engine cannot be started: {error}")
        is_missing = isinstance(error, FileNotFoundError)
        return ExitCode.NOT_FOUND if is_missing else ExitCode.NOT_EXECUTABLE
    shell = _prepare(config, child, inbox, hidden=(*secrets.values(), *_read_own_key(config)))
    threading.Thread(target=_answer, args=(shell, endpoint), daemon=True).start()
    shell.output.start()
    return _run(shell)


def _connect(config: GuardConfig) -> Endpoint:
    server = config.server
    select_checks(QUICK, require=config.require)
    try:
        key = read_key(server.key_path)
    except OSError as error:
        raise UsageError(f"the API key cannot be read: {error}") from error
    return HttpEndpoint(server.host, server.port, api_key=key)


def _read_secrets(config: GuardConfig) -> dict[str, str]:
    secrets = {}
    for name, path in config.engine.secret_env.items():
        try:
            secrets[name] = read_key(path) or ""
        except OSError as error:
            raise UsageError(f"the secret of {name} cannot be read: {error}") from error
    return secrets


def _read_own_key(config: GuardConfig) -> tuple[str, ...]:
    key = read_key(config.server.key_path)
    return (key,) if key else ()


def _listen(inbox: SimpleQueue[Item]) -> None:
    """Turn signals into items; SimpleQueue.put may be called from a handler."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        inbox.put(Signalled(number=signal.Signals(number)))

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, pass_on)
    signal.signal(signal.SIGCHLD, lambda number, frame: inbox.put(_ChildEnded()))


def _prepare(
    config: GuardConfig, child: Child, inbox: SimpleQueue[Item], *, hidden: Sequence[str]
) -> _Shell:
    # The watcher is a fork, so it comes before the first thread.
    silence_seconds = config.limits.heartbeat_seconds
    watcher = start_watcher(child, name=config.name, silence_seconds=silence_seconds)

    def hear(lines: tuple[str, ...]) -> None:
        if inbox.qsize() < _MOST_WAITING:
            inbox.put(Lines(lines=lines))

    starts = read_starts(config.starts_path, config.name)
    rules = Rules(
        limits=config.limits,
        canary=config.canary,
        phases=config.phases,
        weight_bytes=sum_weights(config.weights.paths),
        expected_seconds=starts.expected_seconds(config.weights.model),
    )
    output = threading.Thread(target=pump, args=(child.output, _STDOUT, hear, hidden), daemon=True)
    return _Shell(
        config=config,
        child=child,
        watcher=watcher,
        send=connect_manager(),
        state=begin(rules, time.monotonic()),
        inbox=inbox,
        output=output,
        starts=starts,
    )


def _answer(shell: _Shell, endpoint: Endpoint) -> None:
    """The asking thread: one question after the other."""
    try:
        while True:
            question = shell.questions.get()
            shell.inbox.put(put_question(question, shell.config, endpoint, WallClock()))
    finally:
        shell.inbox.put(_ThreadEnded())


def _run(shell: _Shell) -> int:
    while True:
        for observation in _observe(shell):
            before = shell.state.mode
            shell.state, actions = step(shell.state, observation)
            if shell.state.mode is Mode.READY and before is not Mode.READY:
                _remember(shell)
            code = _carry_out(shell, actions)
            if code is not None:
                return _leave(shell, code)
        _show(shell)
        _beat(shell)


def _beat(shell: _Shell) -> None:
    now, limit = time.monotonic(), shell.config.limits.heartbeat_seconds
    if now - shell.beat_at_seconds >= min(_BEAT_SECONDS, limit / _BEATS):
        shell.beat_at_seconds = now
        beat(shell.watcher)


def _remember(shell: _Shell) -> None:
    state, config = shell.state, shell.config
    start = Start(
        digest=config.digest,
        model=config.weights.model,
        seconds=round(state.now_seconds - state.began_at_seconds, 2),
        at_seconds=round(time.time(), 1),
    )
    remember_start(config.starts_path, shell.starts, start)


def _observe(shell: _Shell) -> Iterator[Observation]:
    """Wait for an item or for the next tick, and tell what there is to see."""
    item = _next_item(shell)
    yield Tick(now_seconds=time.monotonic())
    if isinstance(item, _ThreadEnded):
        raise RuntimeError("the thread that asks the engine has ended")
    if isinstance(item, _ChildEnded):
        yield from _see_children(shell)
    elif item is not None:
        yield item
    if _is_starting(shell) and time.monotonic() - shell.bytes_at_seconds >= _BYTES_SECONDS:
        shell.bytes_at_seconds = time.monotonic()
        yield BytesRead(total=read_bytes_read())
    if _is_starting(shell) and shell.config.devices.gpus:
        _begin_to_read_memory(shell)


def _begin_to_read_memory(shell: _Shell) -> None:
    """Have a thread look how much GPU memory the engine has, one at a time, now and then."""
    now, reader = time.monotonic(), shell.memory_reader
    if now - shell.memory_at_seconds < _MEMORY_SECONDS or (reader and reader.is_alive()):
        return
    shell.memory_at_seconds = now
    shell.memory_reader = threading.Thread(target=_read_memory, args=(shell,), daemon=True)
    shell.memory_reader.start()


def _read_memory(shell: _Shell) -> None:
    memory = read_memory(shell.config.devices)
    if memory is not None:
        shell.inbox.put(memory)


def _next_item(shell: _Shell) -> Item | None:
    with suppress(Empty):
        tick = min(_TICK_SECONDS, shell.config.canary.interval_seconds)
        return shell.inbox.get(timeout=_STARTING_TICK_SECONDS if _is_starting(shell) else tick)
    return None


def _is_starting(shell: _Shell) -> bool:
    return shell.state.mode in (Mode.LOADING, Mode.VERIFYING)


def _see_children(shell: _Shell) -> Iterator[Observation]:
    """Reap, and if the engine itself has ended, tell its last words before its end."""
    ended = dict(reap())
    if shell.child.pid not in ended:
        return
    kill_rest(shell.watcher)
    shell.output.join(_LAST_WORDS_SECONDS)
    yield from (item for item in _drain(shell.inbox) if isinstance(item, Lines))
    yield Exited(status=ended[shell.child.pid])


def _drain(inbox: SimpleQueue[Item]) -> Iterator[Item]:
    with suppress(Empty):
        while True:
            yield inbox.get_nowait()


def _carry_out(shell: _Shell, actions: Sequence[Action]) -> int | None:
    """Do what was decided; an exit code ends the guard."""
    code: int | None = None
    for action in actions:
        match action:
            case Notify(text=text):
                shell.send(text)
            case SignalEngine(number=number):
                signal_engine(shell.child, number)
            case Exit():
                code = action.code
                _say(shell.config, action.reason)
            case question:
                shell.questions.put(question)
    return code


def _leave(shell: _Shell, code: int) -> int:
    is_gone = kill_rest(shell.watcher)
    _show(shell)
    if is_gone:
        release_watcher(shell.watcher)
    return code


def _show(shell: _Shell) -> None:
    """Keep the status document true, once a second or at once when the phase changes."""
    path, now = shell.config.status_path, time.monotonic()
    if path is None:
        return
    shown, status = shell.shown, _status(shell)
    is_same_phase = shown is not None and shown.phase == status.phase
    if is_same_phase and now - shell.status_at_seconds < _STATUS_SECONDS:
        return
    if shown is not None and (shown.text, shown.phase) == (status.text, status.phase):
        return
    shell.shown, shell.status_at_seconds = status, now
    try:
        write_status(path, status)
    except OSError as error:
        _say(shell.config, f"the status cannot be written: {error}")


def _status(shell: _Shell) -> GuardStatus:
    state = shell.state
    fraction = read_fraction(state.progress, state.rules) if state.mode is Mode.LOADING else None
    left = estimate_left_seconds(state) if state.mode is Mode.LOADING else None
    age_seconds = state.now_seconds - phase_began_seconds(state)
    return GuardStatus(
        name=shell.config.name,
        digest=shell.config.digest,
        phase=name_phase(state),
        percent=None if fraction is None else int(fraction * 100),
        left_seconds=None if left is None else int(left),
        since_seconds=round(time.time() - age_seconds, 1),
        verified=state.mode is Mode.READY,
        text=describe(state),
        pid=shell.child.pid,
        process=shell.child.process,
        guard=shell.watcher.guard,
    )


def _say(config: GuardConfig, text: str) -> None:
    """The guard's own words, beside the engine's output."""
    with suppress(OSError):
        os.write(_STDERR, f"stoker guard: {config.name}: {text}\n".encode())
