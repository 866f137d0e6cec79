"""Which processes have NVIDIA's devices open or mapped, whoever they are and wherever they run.

Beside :mod:`stoker.probes.gpus`, which knows who uses memory of a GPU as the driver tells it, this
sees also who uses none, and processes that the driver does not tell of. Having ``/dev/nvidiactl``
or ``/dev/nvidia-uvm`` open is a hold on the driver and on no GPU in particular.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stoker.model.facts import Target
from stoker.ports import Probe, ReadableHost
from stoker.probes.children import run_reader
from stoker.probes.control_groups import name_owner
from stoker.probes.gpus import may_have_gpus
from stoker.probes.listeners import parse_users
from stoker.probes.reading import read_if_any

_READER = "stoker.probes.holders_reader"
#: Thousands of processes are looked through in a second; more is one that is stuck.
_TIMEOUT_SECONDS = 20.0


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """What a child process found, and names of users.

    Nothing is looked through where there can be no GPU, or where none is to be used.
    """
    if not target.uses_gpus or not may_have_gpus(host):
        return {"found": json.dumps({"gpus": [], "holders": [], "unread_count": 0}), "passwd": ""}
    found = run_reader(
        host, _READER, timeout_seconds=_TIMEOUT_SECONDS, subject="the processes of this machine"
    )
    return {"found": found, "passwd": read_if_any(host, "/etc/passwd") or ""}


def parse(raw: Mapping[str, str]) -> dict[str, object]:
    """``gpus`` that the driver lists, ``holders`` by pid, ``is_whole`` and the ``reason`` if not.

    A holder without ``gpus`` holds the driver alone. The list is not whole for a user who may not
    look at everybody's processes; what was seen counts all the same.
    """
    found: dict[str, Any] = json.loads(raw["found"])
    users = parse_users(raw["passwd"])
    count = found["unread_count"]
    hidden = f"{count} of the processes did not show their files: only root may see all"
    return {
        "gpus": found["gpus"],
        "holders": [name_owner(row, users) for row in found["holders"]],
        "is_whole": count == 0,
        "reason": hidden if count else None,
    }


PROBE = Probe(
    id="gpu_holders",
    source="/proc/PID/fd, /proc/PID/maps, /proc/driver/nvidia",
    read=read,
    parse=parse,
)
