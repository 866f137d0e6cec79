"""Whether an engine may be started on its GPUs, as they are seen now. Pure.

:mod:`stoker.guard.boot` calls it before the engine is started, again and again while what is wrong
may pass by itself:

==============================================  ==========================================
seen                                            done
==============================================  ==========================================
not on the bus, fallen off it, bound to         given up at once
another driver, forbidden by device rules
no driver yet, no device node yet, permissions  waited for, ``wait_seconds`` at most
memory that other programs hold                 waited for, HELD_SECONDS at most: what ran
                                                before gives it back by then
the driver does not answer                      waited for, ``wait_seconds`` at most
nothing could be seen                           started: no view is no flaw
==============================================  ==========================================
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from stoker.guard.config import Devices
from stoker.model.facts import Plain
from stoker.model.gpu import (
    GpuFlaw,
    GpuHold,
    GpuRoom,
    GpuSight,
    are_in_the_way,
    find_flaw,
    say_holds,
)

#: A process that was ended gives its memory back within seconds.
HELD_SECONDS = 30.0
#: GPU memory is counted in steps of this: less is a driver's bookkeeping and no progress.
STEP_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at all GPUs. ``rooms`` None: nobody could tell how their memory is used.

    ``is_answered``: whether the look came to an end; if not, a GPU or its driver hangs.
    """

    sights: tuple[GpuSight, ...] = ()
    rooms: Mapping[str, GpuRoom] | None = None
    holds: tuple[GpuHold, ...] = ()
    is_answered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do: start (no sentence), wait, or give up, and why."""

    sentence: str = ""
    gives_up: bool = False


def parse_look(text: str | None) -> Look:
    """What the reading program printed; None is one that did not end.

    A program that printed nothing of use has seen nothing.
    """
    if text is None:
        return Look(is_answered=False)
    try:
        data = json.loads(text)
        return Look(
            sights=tuple(GpuSight(**row) for row in data.get("sights", ())),
            rooms=_parse_rooms(data["rooms"]),
            holds=tuple(GpuHold(**row) for row in data["holds"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return Look()


def _parse_rooms(data: Plain) -> dict[str, GpuRoom] | None:
    return None if data is None else {address: GpuRoom(**row) for address, row in data.items()}


def decide_boot(devices: Devices, look: Look, waited_seconds: float) -> Decision:
    """Whether to start the engine, after having waited so long."""
    if not look.is_answered:
        sentence = "NVIDIA's driver does not answer; its kernel log says why"
        return Decision(sentence=sentence, gives_up=waited_seconds >= devices.wait_seconds)
    flaw, limit = _find_flaw(look.sights), devices.wait_seconds
    if flaw is None:
        flaw, limit = _find_hold(devices, look), min(HELD_SECONDS, devices.wait_seconds)
    if flaw is None:
        return Decision()
    return Decision(sentence=flaw.sentence, gives_up=not flaw.may_pass or waited_seconds >= limit)


def _find_flaw(sights: Sequence[GpuSight]) -> GpuFlaw | None:
    """The gravest flaw: one that does not pass before one that may."""
    flaws = [flaw for sight in sights if (flaw := find_flaw(sight))]
    return min(flaws, key=lambda flaw: flaw.may_pass, default=None)


def _find_hold(devices: Devices, look: Look) -> GpuFlaw | None:
    """Memory that others compute with; what only draws is no reason by itself."""
    if devices.held_share is None or not look.rooms:
        return None
    rooms = {address: _held_of(address, room, look) for address, room in look.rooms.items()}
    total = sum(room.total_bytes for room in rooms.values())
    needed = total if devices.needed_bytes is None else devices.needed_bytes
    if not are_in_the_way(tuple(rooms.values()), share=devices.held_share, needed=(needed, needed)):
        return None
    return GpuFlaw(sentence=say_holds(look.holds, rooms), may_pass=True)


def _held_of(address: str, room: GpuRoom, look: Look) -> GpuRoom:
    """What is held by those that compute; all that is in use where the driver tells no amounts."""
    amounts = [hold.used_bytes for hold in look.holds if hold.address == address]
    if None in amounts:
        return room
    held = sum(amount for amount in amounts if amount is not None)
    return GpuRoom(total_bytes=room.total_bytes, held_bytes=held)


def count_memory(look: Look, pids: Collection[int]) -> int | None:
    """The memory that these processes use, in whole steps; all that is in use where the driver
    does not tell whose it is, as in a container. None where it tells nothing."""
    if not look.rooms:
        return None
    own = [hold.used_bytes for hold in look.holds if hold.pid in pids]
    used = (
        sum(amount for amount in own if amount is not None)
        if own and None not in own
        else sum(room.held_bytes for room in look.rooms.values())
    )
    return used // STEP_BYTES * STEP_BYTES
