"""Before the engine: are its GPUs there? And while it starts: how much of their memory it has.

:mod:`stoker.guard.run` calls it. All looking is done by :mod:`stoker.guard.gpu_reader`, a program
of its own, because a sick GPU hangs whoever touches it; what follows from what is seen stands in
:mod:`stoker.guard.devices`. Nothing here happens for a configuration without GPUs.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from stoker.guard.child import engine_pids, identify, reap, run_helper
from stoker.guard.config import Devices, GuardConfig
from stoker.guard.devices import Decision, Look, count_memory, decide_boot, parse_look
from stoker.guard.notify import Send
from stoker.guard.status import write_status
from stoker.guard.values import ExitCode, GpuMemory, Signalled
from stoker.guard.words import GuardStatus
from stoker.model.visible import visible

_READER = "stoker.guard.gpu_reader"
#: Longer than the program waits for NVIDIA's own tool, twice; opening a GPU takes some seconds.
_ANSWER_SECONDS = 30.0
_PAUSE_SECONDS = 2.0
_TICK_SECONDS = 0.1
#: The word of the phase, for programs.
WAITING = "waiting"
_STATUS_CHARACTERS = 300


@dataclass(kw_only=True)
class Boot:
    """A guard that has not started its engine yet.

    ``inbox`` takes signals, and whatever else the guard will look at later.
    """

    config: GuardConfig
    inbox: SimpleQueue[Any]
    send: Send
    say: Callable[[str], None]
    began_seconds: float = field(default_factory=time.monotonic)
    told: str = ""


def await_devices(boot: Boot) -> int | None:
    """Wait until the engine may be started. An exit code ends the guard instead."""
    devices = boot.config.devices
    while devices.gpus:
        look = _look(boot)
        if look is None:
            return ExitCode.DONE
        decision = decide_boot(devices, look, time.monotonic() - boot.began_seconds)
        if not decision.sentence:
            return None
        if decision.gives_up:
            return _give_up(boot, decision)
        _tell(boot, f"waiting: {visible(decision.sentence)}")
        if _is_asked_to_stop(boot, _PAUSE_SECONDS):
            return ExitCode.DONE
    return None


def _look(boot: Boot) -> Look | None:
    """One look at all GPUs; None when the guard is asked to stop meanwhile."""
    seen: list[Look] = []
    thread = threading.Thread(target=lambda: seen.append(ask(boot.config.devices, "look")))
    thread.daemon = True
    thread.start()
    while thread.is_alive():
        if _is_asked_to_stop(boot, _TICK_SECONDS):
            return None
    return seen[0] if seen else Look()


def ask(devices: Devices, what: str) -> Look:
    """Run the reading program; one that cannot be run has seen nothing."""
    gpus = json.dumps([asdict(gpu) for gpu in devices.gpus])
    try:
        text = run_helper(("-m", _READER, what, gpus), timeout_seconds=_ANSWER_SECONDS)
    except OSError:
        return Look()
    return parse_look(text)


def _is_asked_to_stop(boot: Boot, seconds: float) -> bool:
    """Wait so long at most; whether TERM or INT came. Whatever else comes is of no use yet."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        with suppress(Empty):
            item = boot.inbox.get(timeout=left)
            _ = tuple(reap())
            if isinstance(item, Signalled) and item.number in (signal.SIGTERM, signal.SIGINT):
                boot.send("STOPPING=1")
                return True
    return False


def _tell(boot: Boot, text: str) -> None:
    """Say what is waited for, and that the service manager shall wait as well."""
    waited = time.monotonic() - boot.began_seconds
    left = max(boot.config.devices.wait_seconds - waited, 0) + _PAUSE_SECONDS + _ANSWER_SECONDS
    # What the engine itself may take after that is the same as without waiting.
    allowed = left + boot.config.limits.stall_seconds + boot.config.limits.stop_timeout_seconds
    boot.send(f"STATUS={text[:_STATUS_CHARACTERS]}\nEXTEND_TIMEOUT_USEC={int(allowed * 1e6)}")
    if text != boot.told:
        boot.told = text
        boot.say(text)
        _show(boot, WAITING, text)


def _give_up(boot: Boot, decision: Decision) -> int:
    sentence = visible(decision.sentence)
    boot.send(f"STATUS={sentence[:_STATUS_CHARACTERS]}\nSTOPPING=1")
    boot.say(sentence)
    _show(boot, "ended", f"ended: {sentence}")
    return ExitCode.NO_DEVICES


def _show(boot: Boot, phase: str, text: str) -> None:
    """The status document of a guard without an engine: process 0."""
    config = boot.config
    if config.status_path is None:
        return
    waited = time.monotonic() - boot.began_seconds
    status = GuardStatus(
        name=config.name,
        digest=config.digest,
        phase=phase,
        percent=None,
        left_seconds=None,
        since_seconds=round(time.time() - waited, 1),
        verified=False,
        text=text[:_STATUS_CHARACTERS],
        pid=0,
        process="",
        guard=identify(os.getpid()),
    )
    with suppress(OSError):
        write_status(config.status_path, status)


def read_memory(devices: Devices) -> GpuMemory | None:
    """How much GPU memory the engine has; None where that cannot be told. It may take long."""
    look = ask(devices, "use")
    used_bytes = count_memory(look, engine_pids())
    return None if used_bytes is None else GpuMemory(used_bytes=used_bytes)
