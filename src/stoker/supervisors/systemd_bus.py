"""What is said to a systemd and what it answers, over D-Bus.

Called by the adapter beside it, which imports this module late: it brings ``asyncio`` and
``dbus_fast`` with it. Every conversation has a connection and a loop of its own and a bounded
time. A connection costs a few milliseconds beside what systemd does with the question; in return
there is no thread, nothing to close, nothing that goes stale when systemd or the bus is started
again, and an interrupt ends it like any other call. It must not be used from within a running
loop. Nothing here decides or tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from dbus_fast.aio import MessageBus
from dbus_fast.constants import MessageFlag, MessageType
from dbus_fast.errors import AuthError, DBusFastError, InvalidAddressError
from dbus_fast.message import Message
from dbus_fast.unpack import unpack_variants

from stoker.supervisors.systemd_answers import (
    BEGUN,
    JobEnd,
    LoadedUnit,
    Reading,
    SystemdDown,
    SystemdRefused,
    parse_reading,
    parse_unit,
)

_Answer = TypeVar("_Answer")

_SYSTEMD = "org.freedesktop.systemd1"
_MANAGER = f"{_SYSTEMD}.Manager"
_MANAGER_PATH = "/org/freedesktop/systemd1"
_DBUS = "org.freedesktop.DBus"
_PROPERTIES = f"{_DBUS}.Properties"

#: A question that systemd answers from memory; it is silent while it reads its units anew.
_ANSWER_SECONDS = 30.0
#: Reading all units of a large machine anew, generators included.
_RELOAD_SECONDS = 120.0

#: How often systemd is looked for on a bus that it has not joined yet, and how long between.
_JOIN_TRIES, _JOIN_SECONDS = 40, 0.05

_NOT_KNOWN = frozenset({f"{_SYSTEMD}.NoSuchUnit", f"{_SYSTEMD}.UnitNotLoaded"})
_DENIED = frozenset(
    {f"{_DBUS}.Error.AccessDenied", f"{_DBUS}.Error.InteractiveAuthorizationRequired"}
)
_NOBODY = frozenset({f"{_DBUS}.Error.ServiceUnknown", f"{_DBUS}.Error.NameHasNoOwner"})

#: What a person types for what was refused.
_COMMANDS = {
    "Reload": "daemon-reload",
    "StartUnit": "start",
    "StopUnit": "stop",
    "RestartUnit": "restart",
    "ResetFailedUnit": "reset-failed",
    "EnableUnitFiles": "enable",
    "DisableUnitFiles": "disable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A method call; ``signature`` and ``body`` are its arguments."""

    member: str
    signature: str = ""
    body: tuple[Any, ...] = ()
    path: str = _MANAGER_PATH
    interface: str = _MANAGER
    destination: str = _SYSTEMD


class SystemdBus:
    """One manager of systemd, by the address of its bus.

    Every method raises SystemdDown when nobody is there, SystemdRefused for an error and
    no other SupervisorError. ``systemctl`` is how a person calls this manager.
    """

    def __init__(self, address: str, *, systemctl: str) -> None:
        self._address = address
        self._systemctl = systemctl

    def read_version(self) -> str:
        """The version of systemd, as it says it itself."""
        question = _Question(
            member="Get", signature="ss", body=(_MANAGER, "Version"), interface=_PROPERTIES
        )
        (version,) = self._ask(question, seconds=_ANSWER_SECONDS)
        return str(unpack_variants(version))

    def read_reading(self) -> Reading:
        """When this manager last read all of its units."""
        question = _Question(
            member="GetAll", signature="s", body=(_MANAGER,), interface=_PROPERTIES
        )
        (properties,) = self._ask(question, seconds=_ANSWER_SECONDS)
        return parse_reading(unpack_variants(properties))

    def reload(self) -> None:
        """Let systemd read all of its units anew."""
        self._ask(_Question(member="Reload"), seconds=_RELOAD_SECONDS)

    def read(self, unit: str) -> LoadedUnit:
        """How a unit stands; it is loaded if it is not."""

        async def talk(session: _Session) -> LoadedUnit:
            return await session.read(await session.load(unit))

        return self._converse(talk, seconds=_ANSWER_SECONDS)

    def list_units(self, pattern: str) -> tuple[str, ...]:
        """The units that systemd has in memory, by a pattern as of a shell."""
        question = _Question(member="ListUnitsByPatterns", signature="asas", body=([], [pattern]))
        (units,) = self._ask(question, seconds=_ANSWER_SECONDS)
        return tuple(sorted(unit[0] for unit in units))

    def enable(self, units: Collection[str]) -> None:
        """Let these units start at boot, as their [Install] sections say."""
        question = _Question(
            member="EnableUnitFiles", signature="asbb", body=(sorted(units), False, True)
        )
        self._ask(question, seconds=_ANSWER_SECONDS)

    def disable(self, units: Collection[str]) -> None:
        """Let these units no longer start at boot, whether or not they have a file."""
        question = _Question(
            member="DisableUnitFiles", signature="asb", body=(sorted(units), False)
        )
        self._ask(question, seconds=_ANSWER_SECONDS)

    def reset_failed(self, unit: str) -> None:
        """Forget a failure, and how often the unit was started; unknown is no error."""
        question = _Question(member="ResetFailedUnit", signature="s", body=(unit,))
        try:
            self._ask(question, seconds=_ANSWER_SECONDS)
        except SystemdRefused as refusal:
            if refusal.kind not in _NOT_KNOWN:
                raise

    def run_job(
        self,
        member: str,
        unit: str,
        *,
        seconds: float,
        has_begun: Callable[[LoadedUnit], bool] = lambda _: False,
    ) -> JobEnd:
        """Start, stop or restart a unit, and wait for the end of that job.

        The job of a service that has not said that it is ready may take long: the answer is BEGUN
        as soon as ``has_begun`` is true of the unit. Raises SystemdDown when neither comes in
        time; the job goes on then.
        """

        async def talk(session: _Session) -> JobEnd:
            path = await session.load(unit)
            await session.listen(path)
            (job,) = await session.call(
                _Question(member=member, signature="ss", body=(unit, "replace"))
            )
            async for signal in session.signals():
                is_end = signal.member == "JobRemoved" and signal.body[1] == job
                if is_end or signal.path == path:
                    current = await session.read(path)
                    if is_end:
                        return JobEnd(result=signal.body[3], unit=current)
                    if has_begun(current):
                        return JobEnd(result=BEGUN, unit=current)
            raise SystemdDown(f"the bus of systemd went away before {unit} was done")

        return self._converse(talk, seconds=seconds, about=unit)

    def _ask(self, question: _Question, *, seconds: float) -> Sequence[Any]:
        async def talk(session: _Session) -> Sequence[Any]:
            return await session.call(question)

        return self._converse(talk, seconds=seconds)

    def _converse(
        self,
        talk: Callable[[_Session], Awaitable[_Answer]],
        *,
        seconds: float,
        about: str = "",
    ) -> _Answer:
        async def converse() -> _Answer:
            async with asyncio.timeout(seconds), _connect(self._address) as session:
                await session.await_systemd()
                return await talk(session)

        try:
            return asyncio.run(converse())
        except _Refusal as refusal:
            raise self._explain(refusal) from refusal
        except TimeoutError as error:
            what = f"finish {about}" if about else "answer"
            raise SystemdDown(f"systemd did not {what} within {seconds:.0f} s") from error
        except (OSError, EOFError, InvalidAddressError, DBusFastError) as error:
            is_refused = isinstance(error, (PermissionError, AuthError))
            raise self._describe_down(str(error), is_refused=is_refused) from error

    def _describe_down(self, reason: str, *, is_refused: bool = False) -> SystemdDown:
        down = SystemdDown(
            f"systemd cannot be reached at {self._address}: {reason}",
            f"see whether `{self._systemctl} is-system-running` answers",
        )
        down.is_refused = is_refused
        return down

    def _explain(self, refusal: _Refusal) -> SystemdDown | SystemdRefused:
        if refusal.kind in _NOBODY:
            return self._describe_down(refusal.text)
        if refusal.kind not in _DENIED:
            return SystemdRefused(refusal.kind, f"systemd refuses: {refusal.text}")
        words = [_COMMANDS.get(refusal.question.member, "status"), *_units_in(refusal.question)]
        return SystemdRefused(
            refusal.kind,
            f"systemd does not let this user do it: {' '.join(words)}",
            f"it needs root: {self._systemctl} {' '.join(words)}",
        )


class _Refusal(Exception):
    """An error as it came over the bus."""

    def __init__(self, question: _Question, reply: Message) -> None:
        self.question = question
        self.kind = reply.error_name or ""
        self.text = str(reply.body[0]) if reply.body else self.kind
        super().__init__(self.text)


class _Session:
    """One connection, for as long as one conversation takes."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus
        self._signals: asyncio.Queue[Message] = asyncio.Queue()

    async def call(self, question: _Question) -> Sequence[Any]:
        """Ask, and return the arguments of the reply. Raises _Refusal."""
        reply = await self._bus.call(
            Message(
                destination=question.destination,
                path=question.path,
                interface=question.interface,
                member=question.member,
                signature=question.signature,
                body=list(question.body),
                # A bus without systemd shall say so, and not look for a program to start.
                flags=MessageFlag.NO_AUTOSTART,
            )
        )
        if reply is None or reply.message_type is MessageType.ERROR:
            raise _Refusal(question, reply)
        return list(reply.body)

    async def await_systemd(self) -> None:
        """Wait a moment for systemd to come to its bus.

        A user's bus is started by the first who speaks to it, and systemd joins it after that.
        """
        question = _to_bus("NameHasOwner", _SYSTEMD)
        for _ in range(_JOIN_TRIES):
            (is_there,) = await self.call(question)
            if is_there:
                return
            await asyncio.sleep(_JOIN_SECONDS)

    async def load(self, unit: str) -> str:
        """The object of a unit, loaded if need be."""
        (path,) = await self.call(_Question(member="LoadUnit", signature="s", body=(unit,)))
        return str(path)

    async def read(self, path: str) -> LoadedUnit:
        """All properties of a unit at one moment, whatever kind of unit it is."""
        question = _Question(
            member="GetAll", signature="s", body=("",), path=path, interface=_PROPERTIES
        )
        (properties,) = await self.call(question)
        return parse_unit(unpack_variants(properties))

    async def listen(self, path: str) -> None:
        """Collect from now on the ends of jobs and the changes of one unit."""
        self._bus.add_message_handler(self._take)
        rules = (
            f"type='signal',sender='{_SYSTEMD}',interface='{_MANAGER}',member='JobRemoved'",
            f"type='signal',sender='{_SYSTEMD}',interface='{_PROPERTIES}',path='{path}'",
        )
        for rule in rules:
            await self.call(_to_bus("AddMatch", rule))
        await self.call(_Question(member="Subscribe"))

    async def signals(self) -> AsyncIterator[Message]:
        """What has been heard since :meth:`listen`, and what comes."""
        while self._bus.connected:
            yield await self._signals.get()

    def _take(self, message: Message) -> None:
        if message.message_type is MessageType.SIGNAL:
            self._signals.put_nowait(message)


@asynccontextmanager
async def _connect(address: str) -> AsyncIterator[_Session]:
    bus = MessageBus(bus_address=address)
    await bus.connect()
    try:
        yield _Session(bus)
    finally:
        bus.disconnect()


def _to_bus(member: str, word: str) -> _Question:
    """A question to the bus itself."""
    return _Question(
        member=member,
        signature="s",
        body=(word,),
        path="/org/freedesktop/DBus",
        interface=_DBUS,
        destination=_DBUS,
    )


def _units_in(question: _Question) -> list[str]:
    """The units that a question is about, the first of its arguments if it has one."""
    first = question.body[0] if question.body else []
    return [first] if isinstance(first, str) else list(first)
