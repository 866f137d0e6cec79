"""Who holds the chosen GPUs besides this deployment, and whether that forbids a start.

Memory decides: an engine that computes opens every GPU that it sees, so having one open says
little. What the driver says of memory (the gpus probe) is joined with what was seen of processes
(the gpu_holders probe), by process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.knowledge.derived.case import Case
from stoker.knowledge.derived.devices import Gpu, choose_gpus
from stoker.knowledge.derived.listening import shorten_command
from stoker.knowledge.derived.memory import estimate_needed
from stoker.knowledge.gpu_memory import load_gpu_memory
from stoker.model.facts import Plain, Unknown
from stoker.model.gpu import GpuRoom, are_in_the_way, count_free
from stoker.model.units import format_bytes

_KEYS = ("rows", "titles", "free_bytes", "are_in_the_way", "remedy")
#: How many programs are named in one sentence.
_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is known of the memory of one GPU.

    ``held``: what others hold, ``unseen_bytes``: how much of that no process accounts for.
    """

    label: str
    room: GpuRoom | Unknown
    unseen_bytes: int = 0


def derive_holders(case: Case) -> dict[str, Plain]:
    """``rows``: every process of somebody else that holds a chosen GPU; ``titles``: those that
    use its memory, in words; ``free_bytes`` on all chosen GPUs; ``are_in_the_way``: the engine
    cannot have what it needs beside them; ``remedy``: what to do about each."""
    if not (case.wants_gpus and case.can_use_gpus):
        return {"rows": [], "titles": [], "free_bytes": None, "are_in_the_way": False, "remedy": ""}
    chosen = choose_gpus(case.deployment.gpus, case.facts)
    if isinstance(chosen, Unknown):
        return dict.fromkeys(_KEYS, chosen)
    rows = _join(case, chosen)
    rooms = [_measure(case, gpu) for gpu in chosen]
    return {
        "rows": rows,
        "titles": _titles(rows, rooms),
        **_judge(case, [each.room for each in rooms]),
        "remedy": _say_remedy(rows),
    }


def _judge(case: Case, rooms: Sequence[GpuRoom | Unknown]) -> dict[str, Plain | Unknown]:
    known: list[GpuRoom] = []
    for room in rooms:
        if isinstance(room, Unknown):
            return {"free_bytes": room, "are_in_the_way": room}
        known.append(room)
    needed = estimate_needed(case)
    share = load_gpu_memory().little.share
    answer = are_in_the_way(known, share=share, needed=(needed.least, needed.most))
    return {
        "free_bytes": count_free(known),
        "are_in_the_way": Unknown(reason=needed.reason) if answer is None else answer,
    }


# Memory


def _measure(case: Case, gpu: Gpu) -> Room:
    """How much others hold. A process whose share the driver does not tell takes what is left."""
    label = f"GPU {gpu.get('index')}"
    total, used, listed = (
        gpu.get(key) for key in ("memory_total_bytes", "memory_used_bytes", "processes")
    )
    if not isinstance(total, int) or not isinstance(used, int):
        reason = f"how much memory of {label} is in use cannot be read"
        return Room(label=label, room=Unknown(reason=reason))
    ours = case.own_pids | case.ending
    own = [row.get("used_bytes") for row in listed or () if row["pid"] in ours]
    others = [row.get("used_bytes") for row in listed or () if row["pid"] not in ours]
    told = sum(amount for amount in others if amount is not None)
    if None in own or (listed is None and ours):
        if listed is None or None in others:
            reason = f"which part of the memory of {label} is our own is not told"
            return Room(label=label, room=Unknown(reason=reason))
        return Room(label=label, room=GpuRoom(total_bytes=total, held_bytes=told))
    left = used - sum(amount for amount in own if amount is not None) - told
    unseen = left if left > load_gpu_memory().idle.count_bytes(total) else 0
    room = GpuRoom(total_bytes=total, held_bytes=told + unseen)
    return Room(label=label, room=room, unseen_bytes=0 if None in others else unseen)


# Processes


def _join(case: Case, chosen: Sequence[Gpu]) -> list[dict[str, Plain]]:
    """One row a process, by pid: what is known of it, and what it uses of which GPU."""
    ours = case.own_pids | case.ending
    found: dict[int, dict[str, Plain]] = {}
    for pid, label, row in (*_using(chosen), *_opening(case, chosen)):
        if pid in ours:
            continue
        known = found.setdefault(pid, {"used_bytes": {}, "gpus": []})
        known.update({key: value for key, value in row.items() if key != "used_bytes"})
        if label not in known["gpus"]:
            known["gpus"].append(label)
        if "used_bytes" in row:
            known["used_bytes"][label] = row["used_bytes"]
    return [_complete(case, found[pid]) for pid in sorted(found)]


def _using(chosen: Sequence[Gpu]) -> Iterator[tuple[int, str, Gpu]]:
    for gpu in chosen:
        for row in gpu.get("processes") or ():
            yield row["pid"], f"GPU {gpu.get('index')}", row


def _opening(case: Case, chosen: Sequence[Gpu]) -> Iterator[tuple[int, str, Gpu]]:
    labels = {gpu.get("pci_bus_id"): f"GPU {gpu.get('index')}" for gpu in chosen}
    holders = case.facts.read("gpu_holders.holders")
    for row in () if isinstance(holders, Unknown) else holders:
        rest = {key: value for key, value in row.items() if key != "gpus"}
        for address in row["gpus"]:
            if address in labels:
                yield row["pid"], labels[address], {**rest, "is_holder": True}


def _complete(case: Case, row: dict[str, Plain]) -> dict[str, Plain]:
    """With the deployment that it serves, and whether it may be ended by its pid."""
    deployment = case.services.get(row["pid"])
    # A pid that means nobody, or somebody without any device, belongs to another pid namespace.
    is_seen = bool(row.get("process")) and row.get("is_holder") is not False
    row = {**row, "deployment": deployment, "is_seen": is_seen}
    return {**row, "title": _title(row)}


def _title(row: Mapping[str, Plain]) -> str:
    uses = _say_uses(row["used_bytes"]) or f"has {', '.join(row['gpus'])} open"
    if not row["is_seen"]:
        return f"a process that is not seen from here ({row['pid']} where it runs, {uses})"
    if row["deployment"]:
        return f"your deployment {row['deployment']} (process {row['pid']}, {uses})"
    name = shorten_command(str(row.get("command") or "")) or "a program"
    place = row.get("container") or row.get("unit")
    where = f", {place}" if place else ""
    return f"{name} (process {row['pid']} of {row.get('user')}, {uses}{where})"


def _say_uses(used: Mapping[str, int | None]) -> str:
    """How much of which GPUs; the same amount on many of them once."""
    if not used:
        return ""
    known = [amount for amount in used.values() if amount is not None]
    amount = format_bytes(sum(known)) if len(known) == len(used) else "some memory"
    return f"{amount} of {', '.join(used)}"


def _titles(rows: Sequence[Mapping[str, Plain]], rooms: Sequence[Room]) -> list[str]:
    using = [row for row in rows if row["used_bytes"]]
    unseen = [room for room in rooms if room.unseen_bytes]
    labels = {room.label for room in unseen}
    suspects = [row for row in rows if not row["used_bytes"] and labels & {*row["gpus"]}]
    titles = [str(row["title"]) for row in (*using, *suspects)]
    more = [f"{len(titles) - _SHOWN} more"] if len(titles) > _SHOWN else []
    nobody = [
        f"processes that are not seen from here ({format_bytes(room.unseen_bytes)} of {room.label})"
        for room in unseen
        if not any(room.label in row["gpus"] for row in suspects)
    ]
    return [*titles[:_SHOWN], *more, *nobody]


def _say_remedy(rows: Sequence[Mapping[str, Plain]]) -> str:
    """What ends each of those that use memory, then what else one can do."""
    using = [row for row in rows if row["used_bytes"]]
    named = [str(row["pid"]) for row in using if is_endable(row)]
    stops = dict.fromkeys(filter(None, map(say_stop, using)))
    ends = [f"--end-holders {','.join(named)} ends what may be ended"] if named else []
    others = ["choose other GPUs (gpus), or share them: accept: [gpu.held]"]
    return "; ".join([*stops, *ends, *others])


def is_endable(row: Mapping[str, Plain]) -> bool:
    """Whether a row's process may be ended by its pid: nobody would start it again."""
    return bool(row["is_seen"]) and not say_stop(row)


def say_stop(row: Mapping[str, Plain]) -> str:
    """The command that stops what a process belongs to; empty where it belongs to nothing."""
    if row["deployment"]:
        return f"`stoker stop {row['deployment']}`"
    if not row.get("unit"):
        return ""
    if row.get("manager") == "user":
        return f"`systemctl --user stop {row['unit']}` as {row.get('user')}"
    return f"`systemctl stop {row['unit']}`"
