"""What systemd answers, as values, and in whose words a service stands: pure.

Called by the adapter and the bus beside it. The words of systemd are those of its D-Bus interface
(org.freedesktop.systemd1(5)), whose names are promised to stay.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from stoker.errors import SupervisorError
from stoker.model.launch import ServicePhase
from stoker.supervisors.logs import flatten

#: Results of a job (org.freedesktop.systemd1(5), JobRemoved); there are others.
DONE, FAILED = "done", "failed"
#: Ours: the job goes on, and its service has begun.
BEGUN = "begun"

_MICROSECONDS = 1_000_000
#: What systemd says for "no limit", in microseconds.
_INFINITE = (1 << 64) - 1
#: How long is waited for something that may take for ever.
_LONGEST_SECONDS = 24 * 3600.0

#: Properties of the manager, without the ``Monotonic`` at the end (org.freedesktop.systemd1(5)).
_READING_NAMES = ("UnitsLoadTimestamp", "UnitsLoadFinishTimestamp")

_PHASES = {
    "active": ServicePhase.RUNNING,
    "reloading": ServicePhase.RUNNING,
    "refreshing": ServicePhase.RUNNING,
    "activating": ServicePhase.STARTING,
    "deactivating": ServicePhase.STOPPING,
    "failed": ServicePhase.FAILED,
    "inactive": ServicePhase.STOPPED,
}
#: ``activating`` as well, but nothing runs: the next try is waited for.
_BETWEEN_TRIES = frozenset({"auto-restart", "auto-restart-queued"})

#: Results that say more than the end of the process does (systemd.exec(5), $SERVICE_RESULT).
_RESULTS = {
    "start-limit-hit": "it ended again and again",
    "oom-kill": "the kernel ended it for want of memory",
    "timeout": "it did not do in time what it was asked for, and was ended",
    "watchdog": "it gave no sign of life, and was ended",
    "protocol": "it did not keep to the protocol of its type",
    "resources": "systemd lacked something to start it with",
    "exec-condition": "a condition of its unit was not met",
}

#: What exits so has not been started (systemd.exec(5), process exit codes).
_SET_UP = {
    200: "its folder could not be entered",
    203: "its program could not be executed",
    206: "its limits could not be set",
    208: "its input could not be opened",
    209: "its log could not be opened",
    216: "its group does not exist or could not be taken",
    217: "its user does not exist or could not be taken",
    218: "its capabilities could not be set",
    225: "its network could not be set up",
    226: "its sandbox could not be set up: this machine lets no service have a mount namespace, "
    "or a folder that the unit names is missing",
    228: "its system call filter could not be set up",
    233: "its runtime folder could not be made",
    239: "its cache folder could not be made",
    243: "its credentials could not be read",
}


class End(IntEnum):
    """How a main process ended (waitid(2), ``si_code``)."""

    EXITED = 1
    KILLED = 2
    DUMPED = 3


class SystemdDown(SupervisorError):
    """The bus, or systemd on it, does not answer; or not to this user (``is_refused``)."""

    is_refused = False


class SystemdRefused(SupervisorError):
    """systemd, or the bus before it, answered with an error; ``kind`` is its D-Bus name."""

    def __init__(self, kind: str, summary: str, hint: str = "") -> None:
        super().__init__(summary, hint)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedUnit:
    """One unit as systemd has it in memory.

    ``load``: loaded, not-found, masked, bad-setting, error. ``active`` and ``sub``: how it stands.
    ``path``: the file that it was loaded from. ``is_outdated``: that file has changed since.
    ``drop_ins``: files beside it that change what it says.
    ``type``: the protocol by which it starts. ``pid``: of the main process, 0 for none. ``end``:
    how the last main process ended, 0 when none has; ``status`` is its exit status or signal.
    ``start_limit``: how many starts systemd allows. ``text``: what the service says of itself.
    ``began_at_seconds``: when its main process was started, since the epoch; 0 for never.
    """

    load: str
    load_error: str
    active: str
    sub: str
    path: str
    is_outdated: bool
    drop_ins: tuple[str, ...]
    environment: tuple[str, ...]
    type: str
    pid: int
    result: str
    end: int
    status: int
    restarts: int
    start_limit: int
    text: str
    began_at_seconds: float
    start_seconds: float
    stop_seconds: float

    @property
    def is_ended(self) -> bool:
        """Nothing of it runs, and nothing will by itself."""
        return self.active in ("inactive", "failed")

    @property
    def is_unbegun(self) -> bool:
        """Whether its last process ended before its program ran."""
        return self.end == End.EXITED and self.status in _SET_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How a job ended, and how its unit stood at that moment."""

    result: str
    unit: LoadedUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """When a manager last read all of its units: at boot, or at the last reload.

    ``at_seconds``: since the epoch, by the clock as it went then; ``monotonic_seconds``: by the
    one that is never set. Both are 0 where systemd does not say it (before 250).
    """

    at_seconds: float
    monotonic_seconds: float

    def by_clock(self, *, now_seconds: float, monotonic_seconds: float) -> float:
        """The same since the epoch, not too early by any clock; 0 if it is not known.

        A machine may boot with a wrong clock that is then put right, so that what is older than
        the boot would look younger; a clock that is put back does the same the other way round.
        """
        if not self.monotonic_seconds:
            return 0
        return max(self.at_seconds, now_seconds - (monotonic_seconds - self.monotonic_seconds))


def parse_reading(properties: Mapping[str, Any]) -> Reading:
    """When units were read, from the properties of the manager."""
    # The first is 0 until the first reload, the second is that of the boot for ever.
    name = next(
        (each for each in _READING_NAMES if properties.get(f"{each}Monotonic")), _READING_NAMES[0]
    )
    return Reading(
        at_seconds=properties.get(name, 0) / _MICROSECONDS,
        monotonic_seconds=properties.get(f"{name}Monotonic", 0) / _MICROSECONDS,
    )


def parse_unit(properties: Mapping[str, Any]) -> LoadedUnit:
    """A unit from all of its properties. What is no service lacks some of them."""
    load_error = properties.get("LoadError") or ("", "")
    return LoadedUnit(
        load=properties["LoadState"],
        load_error=load_error[1],
        active=properties["ActiveState"],
        sub=properties["SubState"],
        path=properties["FragmentPath"],
        is_outdated=properties["NeedDaemonReload"],
        drop_ins=tuple(properties.get("DropInPaths", ())),
        environment=tuple(properties.get("Environment", ())),
        type=properties.get("Type", ""),
        pid=properties.get("MainPID", 0),
        result=properties.get("Result", ""),
        end=properties.get("ExecMainCode", 0),
        status=properties.get("ExecMainStatus", 0),
        restarts=properties.get("NRestarts", 0),
        start_limit=properties.get("StartLimitBurst", 0),
        text=flatten(properties.get("StatusText", "")),
        began_at_seconds=properties.get("ExecMainStartTimestamp", 0) / _MICROSECONDS,
        start_seconds=_seconds(properties.get("TimeoutStartUSec", 0)),
        stop_seconds=_seconds(properties.get("TimeoutStopUSec", 0)),
    )


def name_phase(unit: LoadedUnit) -> ServicePhase:
    """The phase of a unit; UNKNOWN for a state that systemd has learnt since this was written."""
    if unit.active == "inactive" and unit.load == "not-found":
        return ServicePhase.ABSENT
    if unit.sub in _BETWEEN_TRIES:
        return ServicePhase.BACKOFF
    return _PHASES.get(unit.active, ServicePhase.UNKNOWN)


def describe(unit: LoadedUnit) -> str:
    """A sentence about how it stands, empty when there is nothing to say."""
    phase = name_phase(unit)
    if phase in (ServicePhase.RUNNING, ServicePhase.STARTING, ServicePhase.STOPPING):
        parts = [unit.text]
    else:
        parts = [_RESULTS.get(unit.result, ""), describe_end(unit)]
        # What it said last says why it ended, unless it ended as it should.
        if phase in (ServicePhase.FAILED, ServicePhase.BACKOFF) and unit.text:
            parts.append(f"it said last: {unit.text}")
    if phase is ServicePhase.BACKOFF:
        parts.append("systemd is about to start it again")
    # The restart that was refused may be counted among the restarts, or not.
    if phase is ServicePhase.FAILED and 1 < unit.start_limit <= unit.restarts + 1:
        parts.append(f"systemd gave up after {unit.start_limit} starts")
    if unit.load == "masked":
        parts.append("its unit is masked")
    return "; ".join(part for part in parts if part)


def describe_end(unit: LoadedUnit) -> str:
    """How the last main process ended, empty when none has."""
    if unit.end == End.EXITED and unit.status in _SET_UP:
        return f"{_SET_UP[unit.status]} (status {unit.status})"
    if unit.end == End.EXITED:
        return f"exited with status {unit.status}"
    if unit.end in (End.KILLED, End.DUMPED):
        return f"ended by the signal {_signal_name(unit.status)}"
    return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _seconds(microseconds: int) -> float:
    if microseconds == _INFINITE:
        return _LONGEST_SECONDS
    return min(microseconds / _MICROSECONDS, _LONGEST_SECONDS)
