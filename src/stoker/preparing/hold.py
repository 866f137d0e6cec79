"""Run a program that holds a shared lock for as long as it lives. A script, never imported.

Started by :func:`stoker.preparing.workplace.run_held` as ``python hold.py LOCK PROGRAM ...``. When
the maker is killed, its pip lives on; the next maker waits for this lock before it clears the
folder away, so that no two of them ever write into it. Uses the standard library alone, because
the interpreter may see nothing else.
"""

from __future__ import annotations

import fcntl
import os
import sys


def main(path: str, command: list[str]) -> str:
    """Become ``command``; returns only when that cannot be, with the reason."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if os.fstat(descriptor).st_nlink == 0:
            return f"{path} was removed: another maker has taken over"
        fcntl.fcntl(descriptor, fcntl.F_SETFD, 0)  # not closed by exec
        os.execvp(command[0], command)
    except OSError as error:
        return f"{command[0]} could not be started: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
