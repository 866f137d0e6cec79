"""What the kernel of this machine said: for a diagnosis that begins below it, and for bundles.

Called by :mod:`stoker.commands.diagnose` and :mod:`stoker.commands.bundle_parts`. It looks, changes
nothing, and never fails: who may not read the kernel's log has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.commands.world import World
from stoker.diagnosis.lines import ReadLog, read_log
from stoker.errors import HostError
from stoker.model.facts import Unknown
from stoker.ports import Command

KERNEL = "the kernel's log"
_SECONDS = 20.0
_MOST_LINES = 20_000
_PLAIN = ("dmesg",)
_UPTIME = re.compile(r"(?:<\d{1,3}>)?\[ *(?P<seconds>\d{1,12}\.\d{1,9})\]")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def read_kernel(world: World, *, since_seconds: float) -> ReadLog | Unknown:
    """The kernel's lines since a time (seconds since the epoch), or why there are none."""
    text = read_kernel_text(world, since_seconds=since_seconds)
    if isinstance(text, Unknown):
        return text
    return read_log([text.encode("utf-8", "replace")], KERNEL, is_kernel=True)


def read_kernel_text(world: World, *, since_seconds: float | None = None) -> str | Unknown:
    """The same as it was printed; since the machine's start where no time is given.

    A journal that nobody fills is read without an error and without a line: then the kernel's own
    buffer is asked too.
    """
    reasons: list[str] = []
    has_answered = False
    for argv in _list_commands(since_seconds):
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
        if result.exit_status != 0 or result.timed_out:
            said = result.stderr.strip().partition("\n")[0]
            reasons.append(f"{argv[0]}: {said or f'it ended with {result.exit_status}'}")
            continue
        text = result.stdout
        if argv == _PLAIN and since_seconds is not None:
            text = _drop_earlier(world, text, since_seconds)
        if text.strip():
            return text
        has_answered = True
    return "" if has_answered else Unknown(reason="; ".join(dict.fromkeys(reasons)))


def _list_commands(since_seconds: float | None) -> Iterator[tuple[str, ...]]:
    since = () if since_seconds is None else (f"--since=@{int(since_seconds)}",)
    yield (
        *("journalctl", "--dmesg", "--no-pager", "--output=short-iso", "--quiet"),
        *(*since, f"--lines={_MOST_LINES}"),
    )
    yield ("dmesg", "--time-format=iso", *since)
    # Busybox and older ones cannot choose by time.
    yield _PLAIN


def _drop_earlier(world: World, text: str, since_seconds: float) -> str:
    """The records since a time, by the seconds since the machine's start in front of each."""
    try:
        up_seconds = float(world.host.read_text("/proc/uptime", 256).split()[0])
    except (HostError, ValueError, IndexError):
        return text
    begin = since_seconds - (world.clock.now_seconds() - up_seconds)
    kept, is_kept = [], True
    for line in text.splitlines(keepends=True):
        if found := _UPTIME.match(line):
            is_kept = float(found["seconds"]) >= begin - 1
        if is_kept:
            kept.append(line)
    return "".join(kept)
