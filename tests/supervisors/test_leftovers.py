"""What may be taken for a leftover of ours: real processes, forged and foreign ones among them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.hosts.local import LocalHost
from stoker.supervisors.processes import read_line_of_descent, sees_same_folder
from tests.fakes.host import MemoryHost

IN_OTHER_NAMESPACE = ("unshare", "--mount", "--propagation", "private")


@contextmanager
def sleeping(*prefix: str) -> Iterator[int]:
    """A process that lives until the end of the block."""
    code = "print('up', flush=True); import time; time.sleep(60)"
    process = subprocess.Popen([*prefix, sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"up\n":
            pytest.skip("mount namespaces cannot be made here")
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def test_we_and_our_ancestors_are_no_leftovers() -> None:
    line = read_line_of_descent(LocalHost())
    assert {os.getpid(), os.getppid()} <= line


def test_without_a_process_table_nobody_is_known() -> None:
    assert read_line_of_descent(MemoryHost()) == frozenset()
    assert not sees_same_folder(MemoryHost(), 7, home="/state")


def test_a_process_beside_us_sees_our_folder(tmp_path: Path) -> None:
    with sleeping() as pid:
        assert sees_same_folder(LocalHost(), pid, home=str(tmp_path))


@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")
def test_in_another_mount_namespace_the_folders_mark_decides(tmp_path: Path) -> None:
    with sleeping(*IN_OTHER_NAMESPACE) as pid:
        assert not sees_same_folder(LocalHost(), pid, home=str(tmp_path)), "there is no mark"
        (tmp_path / "state.json").write_text("a random key")
        assert sees_same_folder(LocalHost(), pid, home=str(tmp_path))
        (tmp_path / "cover").mkdir()
    covered = f'mount -t tmpfs none "{tmp_path}" && exec "$@"'
    with sleeping(*IN_OTHER_NAMESPACE, "sh", "-c", covered, "-") as pid:
        assert not sees_same_folder(LocalHost(), pid, home=str(tmp_path))
