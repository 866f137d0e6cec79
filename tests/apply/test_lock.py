"""The lock: one holder, named to others, gone with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stoker.apply.lock import hold_lock, is_locked, read_holder
from stoker.errors import LockHeld, StateError

TABLE = """\
1: POSIX  ADVISORY  WRITE 700 fd:00:77 0 EOF
2: FLOCK  ADVISORY  WRITE 4458 fd:00:131 0 EOF
2: -> FLOCK  ADVISORY  WRITE 4460 fd:00:131 0 EOF
"""


def test_the_kernels_table() -> None:
    assert is_locked(TABLE, 131)
    assert not is_locked(TABLE, 77)
    assert not is_locked(TABLE, 31)
    assert not is_locked("", 131)


def test_a_second_is_refused_and_told_who_it_is(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    assert read_holder(path) == ""
    with hold_lock(path, verb="apply", now_text="noon"):
        assert read_holder(path) == f"`stoker apply` (pid {os.getpid()}) since noon"
        with (
            pytest.raises(LockHeld, match=f"stoker apply.*pid {os.getpid()}.*since noon"),
            hold_lock(path, verb="down", now_text="later"),
        ):
            pytest.fail("two held it")
    assert read_holder(path) == ""
    with hold_lock(path, verb="down", now_text="later"):
        pass


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    text = (
        "import sys, time; from stoker.apply.lock import hold_lock\n"
        f"with hold_lock({path!r}, verb='apply', now_text='noon'):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    assert f"(pid {holder.pid})" in read_holder(path)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    deadline = time.monotonic() + 10
    while read_holder(path) and time.monotonic() < deadline:
        time.sleep(0.05)
    with hold_lock(path, verb="down", now_text="later"):
        pass


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("dear")
    (tmp_path / "lock").symlink_to(target)
    with (
        pytest.raises(StateError),
        hold_lock(str(tmp_path / "lock"), verb="apply", now_text="noon"),
    ):
        pass
    assert target.read_text() == "dear"
