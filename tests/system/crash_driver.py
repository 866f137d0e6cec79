"""A Stoker that kills itself: `crash_driver.py WHEN VERB [FILE]`, for real.

WHEN is the number of a moment, a name (`after start`, its first; `os.rename small.yaml`, that of
the file), or 0 for none; then the number of moments is printed. Each effect on the machine has a
moment before and one after it, and the writing of a file one in between: when its content is there
and not in place yet. VERB is apply, repair (an apply that does so), down, or recover, which does
nothing but bring an unfinished run to its end.

It runs as a program of its own and takes nothing from the tests; its world is the command line's.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import stoker.cli.world as command_line
from stoker.cli.progress import TextReporter
from stoker.commands.apply import apply_file
from stoker.commands.converge import exclusive
from stoker.commands.repair import RepairWish, apply_repairing
from stoker.commands.service import remove_deployment
from stoker.commands.world import World
from stoker.hosts.local import LocalHost

HOST_EFFECTS = (
    *("run", "write_file", "append_file", "remove_file", "make_folder"),
    *("set_mode", "remove_tree", "rename", "end_process"),
)
SUPERVISOR_EFFECTS = ("reload", "start", "stop", "restart")


class Fuse:
    """Counts moments, and kills this process at one of them."""

    def __init__(self, when: str) -> None:
        self._when = when
        self.moments = 0

    def pass_moment(self, name: str, file: str = "") -> None:
        """One more moment. ``file``: the name of the file that it is about."""
        self.moments += 1
        if self._when in (str(self.moments), name, f"{name} {file}"):
            os.kill(os.getpid(), signal.SIGKILL)


class Fused:
    """A port whose effects have a moment before and after them."""

    def __init__(self, port: object, effects: Sequence[str], fuse: Fuse) -> None:
        self._port = port
        self._effects = effects
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        return self._wrap(name, found) if name in self._effects else found

    def _wrap(self, name: str, effect: Callable[..., object]) -> Callable[..., object]:
        def passing(*arguments: object, **named: object) -> object:
            first = arguments[0] if arguments else ""
            file = os.path.basename(first) if isinstance(first, str) else ""
            self._fuse.pass_moment(f"before {name}", file)
            result = effect(*arguments, **named)
            self._fuse.pass_moment(f"after {name}", file)
            return result

        return passing


def build_fused_world(fuse: Fuse) -> World:
    """The world of the command line, with a host that the supervisor uses as well."""

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename":
            fuse.pass_moment(event, os.path.basename(str(arguments[1])))

    sys.addaudithook(hear)
    setattr(command_line, "LocalHost", lambda: Fused(LocalHost(), HOST_EFFECTS, fuse))  # noqa: B010
    world = command_line.build_world(TextReporter())
    fused: dict[str, Any] = {
        kind: Fused(supervisor, SUPERVISOR_EFFECTS, fuse)
        for kind, supervisor in world.supervisors.items()
    }
    kind = world.supervisor.properties.kind
    return replace(world, supervisor=fused[kind], supervisors=fused)


def main(when: str, verb: str, file: str | None = None) -> int:
    """Do the verb, or be killed in it."""
    fuse = Fuse(when)
    world = build_fused_world(fuse)
    if verb == "apply" and file is not None:
        apply_file(world, file)
    elif verb == "repair" and file is not None:
        apply_repairing(world, file, RepairWish())
    elif verb == "down":
        remove_deployment(world, None)
    else:
        with exclusive(world, "recover"):
            pass
    return fuse.moments


if __name__ == "__main__":
    sys.stdout.write(f"{main(*sys.argv[1:])}\n")
