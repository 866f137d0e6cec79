"""One maker a target at a time, and no leftover child of a killed one.

Two Stokers with different state folders may share the folders of environments and models, so the
lock of the state folder is not enough. Called by whatever makes a target; never waits without
saying so. The kernel holds the locks (flock), so they are gone with the process that held them.
"""

from __future__ import annotations

import fcntl
import os
import posixpath
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from stoker.model.event import EventKind
from stoker.ports import Command, CommandResult
from stoker.preparing import hold
from stoker.preparing.failures import naming_failure
from stoker.preparing.tools import Tools, tell

_WAIT_SECONDS = 0.2
_HELD_NAME = "held"


@contextmanager
def hold_turn(target: str, tools: Tools, *, folder: str = "") -> Iterator[None]:
    """Be the only maker of ``target`` for the block; wait for another one first.

    The lock file stays in ``folder`` (beside the target if that is empty), with nothing in it: to
    delete a lock file that another process has open would give two locks.
    """
    beside, name = posixpath.split(target)
    folder = folder or beside
    with naming_failure(f"preparing {target}"):
        tools.host.make_folder(folder, 0o755)
        descriptor = os.open(
            posixpath.join(folder, f".{name}.lock"),
            os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
            0o644,
        )
    try:
        _wait_for(descriptor, target, tools)
        yield
    finally:
        os.close(descriptor)


def open_workplace(workplace: str, tools: Tools) -> None:
    """Make the folder that children work in, with the lock that :func:`run_held` needs."""
    tools.host.make_folder(posixpath.join(workplace, "tmp"), 0o755)
    tools.host.write_file(posixpath.join(workplace, _HELD_NAME), b"", 0o644)


def clear_leftover(folder: str, *, workplace: str, tools: Tools) -> None:
    """Remove what a killed maker left, once the children that outlived it have ended.

    ``workplace`` is the folder itself or lies in it. Nothing happens when there is nothing. Call
    it inside :func:`hold_turn` only.
    """
    with naming_failure(f"removing the unfinished {folder}"):
        try:
            descriptor = os.open(posixpath.join(workplace, _HELD_NAME), os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            tools.host.remove_tree(folder)
            return
        try:
            # Held while removing: a child that has not locked yet finds its file gone, and ends.
            _wait_for(descriptor, folder, tools)
            tools.host.remove_tree(folder)
        finally:
            os.close(descriptor)


def run_held(
    tools: Tools,
    argv: tuple[str, ...],
    *,
    workplace: str,
    env: Mapping[str, str],
    timeout_seconds: float,
    poll: Callable[[], None] | None = None,
) -> CommandResult:
    """Run a child that holds the workplace, with its temporary files inside it.

    The umask lets other users read what it makes. Raises what :meth:`Host.run` raises.
    """
    held = posixpath.join(workplace, _HELD_NAME)
    return tools.host.run(
        Command(
            argv=(sys.executable, "-I", hold.__file__, held, *argv),
            timeout_seconds=timeout_seconds,
            env={**env, "TMPDIR": posixpath.join(workplace, "tmp")},
            umask=0o022,
        ),
        poll,
    )


def _wait_for(descriptor: int, target: str, tools: Tools) -> None:
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                text = f"waiting: another process is still preparing {target}"
                tell(tools, EventKind.NOTE, target, text=text)
                told = True
            tools.clock.sleep(_WAIT_SECONDS)
        else:
            return
