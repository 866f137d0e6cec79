"""What the kernel of this machine said since some time: for a diagnosis that begins below it.

Called by :mod:`stoker.commands.diagnose`. It looks, changes nothing, and never fails: who may not
read the kernel's log has none.
"""

from __future__ import annotations

from stoker.commands.world import World
from stoker.diagnosis.lines import ReadLog, read_log
from stoker.errors import HostError
from stoker.model.facts import Unknown
from stoker.ports import Command

KERNEL = "the kernel's log"
_SECONDS = 20.0
_MOST_LINES = 20_000
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def read_kernel(world: World, *, since_seconds: float) -> ReadLog | Unknown:
    """The kernel's lines since a time (seconds since the epoch), or why there are none."""
    commands = (
        (
            *("journalctl", "--dmesg", "--no-pager", "--output=short-iso", "--quiet"),
            *(f"--since=@{int(since_seconds)}", f"--lines={_MOST_LINES}"),
        ),
        ("dmesg", "--time-format=iso", f"--since=@{int(since_seconds)}"),
        # Busybox and older ones cannot choose by time.
        ("dmesg",),
    )
    reasons: list[str] = []
    for argv in commands:
        command = Command(
            argv=argv,
            timeout_seconds=_SECONDS,
            env={"PATH": world.env.get("PATH", _PATH), "LC_ALL": "C.UTF-8"},
            is_question=True,
        )
        try:
            result = world.host.run(command)
        except HostError as error:
            reasons.append(error.summary)
            continue
        if result.exit_status == 0 and not result.timed_out:
            content = result.stdout.encode("utf-8", "replace")
            return read_log([content], KERNEL, is_kernel=True)
        said = result.stderr.strip().partition("\n")[0]
        reasons.append(f"{argv[0]}: {said or f'it ended with {result.exit_status}'}")
    return Unknown(reason="; ".join(dict.fromkeys(reasons)))
