"""The lock of a state folder: one Stoker changes a host at a time.

The kernel holds it (flock), so it is gone with the process that held it, however that ended;
what stands in the file only tells a person who it is. Never deleted: deleting a lock file that
another process has open would give two locks.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

from stoker.errors import LockHeld, StateError


@contextmanager
def hold_lock(path: str, *, verb: str, now_text: str) -> Iterator[None]:
    """Hold the lock for the block.

    Raises LockHeld with pid, verb and since when, at once, or StateError where no file can be
    written.
    """
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockHeld(
                f"another stoker is at work: {_read_holder(descriptor)}",
                "wait until it has finished, or look with `stoker status`",
            ) from None
        holder = {"pid": os.getpid(), "verb": verb, "since": now_text}
        with _explaining(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def read_holder(path: str) -> str:
    """Who holds the lock right now, in words; empty when nobody does or it cannot be known.

    The kernel's table is read instead of trying the lock: even a try that lasts a microsecond
    could turn an apply away.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return ""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as table:
            is_held = is_locked(table.read(), os.fstat(descriptor).st_ino)
        return _read_holder(descriptor) if is_held else ""
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def is_locked(table: str, inode: int) -> bool:
    """Whether /proc/locks (its text) has a whole-file lock on this inode.

    A line is ``1: FLOCK  ADVISORY  WRITE 4458 fd:00:131 0 EOF`` (proc_locks(5)); waiting ones
    have an arrow behind the number.
    """
    rows = (line.split() for line in table.splitlines())
    return any(
        row[1] == "FLOCK" and row[5].rpartition(":")[2] == str(inode)
        for row in rows
        if len(row) >= 6
    )


def _open(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with _explaining(path):
        return os.open(path, flags, 0o600)


@contextmanager
def _explaining(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = (
            "free some space on its file system"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "choose another state folder with STOKER_STATE=/path"
        )
        raise StateError(f"the lock {path} cannot be taken: {error.strerror}", hint) from error


def _read_holder(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        return f"`stoker {holder['verb']}` (pid {holder['pid']}) since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "it has not said what it does yet"
