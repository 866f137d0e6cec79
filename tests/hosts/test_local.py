"""What only a real machine can show: crashes, kills, permissions, processes."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.errors import AccessDenied, HostError, NotFound
from stoker.hosts.local import KEPT_OUTPUT_BYTES, LocalHost
from stoker.ports import Command
from tests.hosts.worlds import as_nobody, end_child, in_child, is_running

PATH = {"PATH": "/usr/bin:/bin"}
OLD = b"old " * 50_000
NEW = b"brand new " * 40_000


@pytest.fixture
def host() -> LocalHost:
    return LocalHost()


def shell(script: str, *, timeout_seconds: float = 20, directory: str = "/") -> Command:
    return Command(
        argv=("/bin/sh", "-c", script),
        timeout_seconds=timeout_seconds,
        env=PATH,
        directory=directory,
    )


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


# Atomic writing


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_what_is_no_file_stays(host: LocalHost, tmp_path: Path, kind: str) -> None:
    """As /dev/null must when root names it for a picture."""
    path = tmp_path / "special"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        os.mknod(path, stat.S_IFSOCK | 0o600)
    with pytest.raises(HostError, match="not a file"):
        host.write_file(str(path), NEW, 0o600)
    assert not path.is_file()
    assert os.listdir(tmp_path) == ["special"]


def test_a_kill_at_any_instant_leaves_old_or_new_whole(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    chance = random.Random(20)

    def write_for_ever() -> None:
        while True:
            host.write_file(str(path), NEW, 0o600)
            host.write_file(str(path), OLD, 0o600)

    for _ in range(30):
        child = in_child(write_for_ever)
        deadline = time.monotonic() + chance.uniform(0, 0.02)
        while time.monotonic() < deadline:
            assert path.read_bytes() in (OLD, NEW)
        assert os.WIFSIGNALED(end_child(child))
        assert path.read_bytes() in (OLD, NEW)
    host.write_file(str(path), b"after all", 0o600)
    assert path.read_bytes() == b"after all"


@pytest.mark.parametrize("step", ["write", "fsync", "rename"])
def test_a_crash_before_the_rename_is_done_leaves_the_old(
    host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)

    def crash(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def write_and_crash() -> None:
        monkeypatch.setattr(os, step, crash)
        host.write_file(str(path), NEW, 0o600)

    _, status = os.waitpid(in_child(write_and_crash), 0)
    assert os.WIFSIGNALED(status)
    assert path.read_bytes() == OLD


def test_everything_is_flushed_before_the_rename_and_the_folder_after(
    host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    flush, rename = os.fsync, os.rename

    def note_flush(descriptor: int) -> None:
        found = os.fstat(descriptor)
        steps.append(f"flush {found.st_size} {oct(found.st_mode)[-3:]}")
        flush(descriptor)

    def note_rename(source: str, target: str, **folders: int) -> None:
        steps.append("rename")
        rename(source, target, **folders)

    monkeypatch.setattr(os, "fsync", note_flush)
    monkeypatch.setattr(os, "rename", note_rename)
    host.write_file(str(tmp_path / "file"), b"12345", 0o640)
    assert steps[:2] == ["flush 5 640", "rename"]
    assert len(steps) == 3


def test_a_failure_at_the_last_step_leaves_no_temporary_file(
    host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(HostError, match="Input/output error"):
        host.write_file(str(tmp_path / "file"), b"12345", 0o640)
    assert list(tmp_path.iterdir()) == []


def test_the_umask_takes_nothing_away(host: LocalHost, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        host.write_file(str(tmp_path / "a" / "b" / "file"), b"", 0o664)
        host.make_folder(str(tmp_path / "c"), 0o775)
        host.append_file(str(tmp_path / "log"), b"", 0o644)
    finally:
        os.umask(before)
    tmp_path_is_private = tmp_path.stat().st_mode & 0o777 == 0o700
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b/file", "c", "log")]
    assert modes == [0o700 if tmp_path_is_private else 0o755, 0o664, 0o775, 0o644]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_gives_a_file_to_another_user(host: LocalHost, tmp_path: Path) -> None:
    for owner, shown in (("nobody", "nobody"), ("54321", "54321")):
        host.write_file(str(tmp_path / "file"), b"secret", 0o600, owner=owner)
        found = host.stat(str(tmp_path / "file"))
        assert found is not None
        assert (found.owner, found.mode) == (shown, 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_gives_a_folder_to_another_user(host: LocalHost, tmp_path: Path) -> None:
    host.make_folder(str(tmp_path / "outer" / "inner"), 0o700, owner="nobody")
    found = {name: host.stat(str(tmp_path / name)) for name in ("outer", "outer/inner")}
    assert [each and each.owner for each in found.values()] == ["root", "nobody"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("step", ["fchown", "fchmod", "rename"])
def test_a_folder_is_there_only_once_it_is_its_users(
    host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, refuse)
        with pytest.raises(HostError, match="Input/output error"):
            host.make_folder(str(tmp_path / "inner"), 0o700, owner="nobody")
    assert list(tmp_path.iterdir()) == []


def test_a_full_file_system_is_no_space_and_leaves_the_old(tmp_path: Path) -> None:
    program = f"""
from stoker.errors import NoSpace
from stoker.hosts.local import LocalHost
host = LocalHost()
host.write_file("{tmp_path}/file", b"old", 0o600)
for write in (lambda: host.write_file("{tmp_path}/file", bytes(1 << 20), 0o600),
              lambda: host.append_file("{tmp_path}/other", bytes(1 << 20), 0o600)):
    try:
        write()
    except NoSpace as error:
        print("NoSpace", "{tmp_path}" in str(error), bool(error.hint))
print(host.read_text("{tmp_path}/file"), len(host.list_folder("{tmp_path}")))
"""
    mount = f"mount -t tmpfs -o size=64k none {tmp_path} && echo mounted && exec {sys.executable} -"
    argv = ["unshare", "--mount", "--map-root-user", "/bin/sh", "-c", mount]
    try:
        done = subprocess.run(
            argv, check=False, input=program, capture_output=True, text=True, timeout=60
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if "mounted" not in done.stdout:
        pytest.skip("nothing can be mounted here")
    assert done.stdout.split("\n") == ["mounted", *["NoSpace True True"] * 2, "old 2", ""]


def test_renaming_across_file_systems_is_an_error(host: LocalHost, tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(HostError, match="cross-device"):
        host.rename(str(tmp_path / "file"), str(elsewhere / f"stoker-test-{os.getpid()}"))
    assert (tmp_path / "file").read_bytes() == b"old"


# Permissions


def test_a_user_without_rights_is_told_so(host: LocalHost, open_folder: Path) -> None:
    secret = open_folder / "private" / "secret"
    host.write_file(str(secret), b"secret", 0o600)
    (open_folder / "private").chmod(0o700)
    (open_folder / "program").write_text("#!/bin/sh\n")
    if os.geteuid() != 0:
        (open_folder / "private").chmod(0)
        open_folder.chmod(0o555)
    deeds: list[Callable[[], object]] = [
        lambda: host.read_text(str(secret)),
        lambda: host.read_bytes(str(secret), 0, 1),
        lambda: host.stat(str(secret)),
        lambda: host.list_folder(str(secret.parent)),
        lambda: host.read_link(str(secret)),
        lambda: host.free_bytes(str(secret)),
        lambda: host.write_file(str(secret), b"", 0o600),
        lambda: host.write_file(str(open_folder / "new"), b"", 0o600),
        lambda: host.append_file(str(open_folder / "new"), b"", 0o600),
        lambda: host.make_folder(str(open_folder / "new"), 0o755),
        lambda: host.remove_file(str(open_folder / "program")),
        lambda: host.remove_tree(str(secret.parent)),
        lambda: host.rename(str(open_folder / "program"), str(open_folder / "new")),
        lambda: host.run(Command(argv=(f"{open_folder}/program",), timeout_seconds=9, env={})),
    ]
    try:
        answers = [as_nobody(deed) for deed in deeds]
    finally:
        open_folder.chmod(0o755)
        secret.parent.chmod(0o700)
    for answer in answers:
        assert answer.startswith("AccessDenied: this user may not"), answers
        assert str(open_folder) in answer
    assert sorted(path.name for path in open_folder.iterdir()) == ["private", "program"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_a_process_of_somebody_else_cannot_be_ended(host: LocalHost) -> None:
    pid = os.getpid()
    identity = host._read_identity(pid)

    def end() -> None:
        raise HostError(f"ended: {host.end_process(pid, identity, 0.01)}")

    assert as_nobody(end) == "HostError: ended: False"


def test_reading_what_is_no_file_never_blocks(host: LocalHost, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = host.stat(str(tmp_path / "pipe"))
    assert found is not None
    assert found.kind == "other"
    with pytest.raises(HostError, match="not a file"):
        host.read_text(str(tmp_path / "pipe"))
    with pytest.raises(HostError):
        host.append_file(str(tmp_path / "pipe"), b"more", 0o600)


def test_reads_files_whose_size_reads_as_zero(host: LocalHost) -> None:
    found = host.stat("/proc/self/status")
    assert found is not None
    assert found.size_bytes == 0
    assert "Pid:" in host.read_text("/proc/self/status")
    assert host.read_bytes("/proc/self/status", 0, 5) == b"Name:"
    assert host.read_bytes("/proc/self/status", 1, 4) == b"ame:"


# Commands


def test_the_environment_is_what_was_given(host: LocalHost) -> None:
    result = host.run(Command(argv=("/usr/bin/env",), timeout_seconds=20, env={"A": "1", "B": ""}))
    assert result.stdout == "A=1\nB=\n"


def test_folder_umask_and_session_are_what_was_asked_for(host: LocalHost, tmp_path: Path) -> None:
    script = "pwd; umask; cut -d' ' -f6 /proc/self/stat"
    argv = ("/bin/sh", "-c", script)
    lines = host.run(
        Command(argv=argv, timeout_seconds=20, env=PATH, directory=str(tmp_path), umask=0o077)
    ).stdout.split()
    assert lines[:2] == [str(tmp_path), "0077"]
    assert int(lines[2]) != os.getsid(0)
    same = host.run(Command(argv=argv, timeout_seconds=20, env=PATH, new_session=False))
    assert int(same.stdout.split()[2]) == os.getsid(0)


def test_a_command_has_no_input_and_no_shell(host: LocalHost) -> None:
    assert host.run(shell("cat; echo end")).stdout == "end\n"
    argv = ("/bin/echo", "$HOME; exit 3", "*")
    assert host.run(Command(argv=argv, timeout_seconds=20, env={})).stdout == "$HOME; exit 3 *\n"


def test_the_program_is_searched_in_the_given_path_alone(host: LocalHost, tmp_path: Path) -> None:
    program = tmp_path / "our-program"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    argv = ("our-program",)
    found = host.run(Command(argv=argv, timeout_seconds=20, env={"PATH": str(tmp_path)}))
    assert found.stdout == "found\n"
    with pytest.raises(NotFound):
        host.run(Command(argv=argv, timeout_seconds=20, env=PATH))


def test_much_output_on_both_streams_keeps_the_end_of_each(host: LocalHost) -> None:
    script = (
        "head -c 3000000 /dev/zero | tr '\\0' o; echo end of out;"
        "head -c 3000000 /dev/zero | tr '\\0' e >&2; echo end of err >&2"
    )
    result = host.run(shell(script))
    assert result.stdout.endswith("oend of out\n")
    assert result.stderr.endswith("eend of err\n")
    assert len(result.stdout) == len(result.stderr) == KEPT_OUTPUT_BYTES


def test_output_that_is_no_text_is_replaced(host: LocalHost) -> None:
    assert host.run(shell("printf 'a\\377z'")).stdout == "a\N{REPLACEMENT CHARACTER}z"


def test_a_daemon_left_behind_holds_nothing_up_and_lives(host: LocalHost) -> None:
    result = host.run(shell("sleep 60 & echo $!"))
    daemon = int(result.stdout)
    assert result.exit_status == 0
    assert is_running(daemon)
    os.kill(daemon, signal.SIGKILL)


def test_a_command_that_closes_its_output_is_waited_for(host: LocalHost) -> None:
    result = host.run(shell("exec >&- 2>&-; sleep 0.1; exit 7"))
    assert result.exit_status == 7


def test_the_deadline_kills_the_whole_group(host: LocalHost, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM; echo $$ >{pids}; sleep 60 & echo $! >>{pids}; echo begun; wait"
    result = host.run(shell(script, timeout_seconds=0.3))
    assert result.timed_out
    assert result.exit_status == -signal.SIGKILL
    assert result.stdout == "begun\n"
    wait_until(lambda: not any(is_running(int(pid)) for pid in pids.read_text().split()))


@pytest.mark.parametrize("new_session", [True, False])
def test_an_interrupt_kills_the_whole_group_and_passes_on(
    host: LocalHost, tmp_path: Path, *, new_session: bool
) -> None:
    pids = tmp_path / "pids"

    def interrupt() -> None:
        raise KeyboardInterrupt

    argv = ("/bin/sh", "-c", f"echo $$ >{pids}; sleep 60 & echo $! >>{pids}; wait")
    command = Command(argv=argv, timeout_seconds=60, env=PATH, new_session=new_session)
    with pytest.raises(KeyboardInterrupt):
        host.run(command, interrupt)
    found = [int(pid) for pid in pids.read_text().split()]
    assert len(found) == 2
    wait_until(lambda: not any(map(is_running, found)))
    with pytest.raises(ProcessLookupError):
        os.kill(found[0], 0)  # our own child: killed and reaped


def test_polls_while_it_runs_in_the_callers_thread(host: LocalHost, tmp_path: Path) -> None:
    polled = tmp_path / "polled"
    result = host.run(shell(f"until [ -e {polled} ]; do sleep 0.02; done"), polled.touch)
    assert result.exit_status == 0


def test_no_descriptor_is_left_open(host: LocalHost, tmp_path: Path) -> None:
    before = host.list_folder("/proc/self/fd")
    host.run(shell("echo out; echo err >&2"))
    host.run(shell("sleep 60", timeout_seconds=0.01))
    host.write_file(str(tmp_path / "a"), b"", 0o600)
    host.append_file(str(tmp_path / "a"), b"", 0o600)
    host.set_mode(str(tmp_path / "a"), 0o644)
    host.end_process(os.getpid(), "another", 1)
    assert host.list_folder("/proc/self/fd") == before


def test_a_command_that_cannot_start_says_why(host: LocalHost, tmp_path: Path) -> None:
    def start(argv: tuple[str, ...], directory: str = "/") -> None:
        host.run(Command(argv=argv, timeout_seconds=9, env=PATH, directory=directory))

    with pytest.raises(NotFound, match="there is no program"):
        start((f"{tmp_path}/missing",))
    with pytest.raises(NotFound, match=r"the folder .*missing"):
        start(("/bin/sh",), f"{tmp_path}/missing")
    with pytest.raises(AccessDenied, match="may not execute"):
        start((str(tmp_path),))
    (tmp_path / "no-program").write_bytes(b"\x00\x01\x02")
    (tmp_path / "no-program").chmod(0o755)
    with pytest.raises(HostError, match="could not start"):
        start((f"{tmp_path}/no-program",))
    with pytest.raises(HostError, match="could not start"):
        start(("/bin/echo", "a\0b"))
    with pytest.raises(HostError, match="without a program"):
        start(())


# Processes


def test_a_dead_process_that_nobody_reaped_is_gone(host: LocalHost) -> None:
    process = subprocess.Popen(["/bin/sh", "-c", "exit 5"])
    wait_until(lambda: not is_running(process.pid))
    assert host.end_process(process.pid, host._read_identity(process.pid), 10)
    assert process.wait() == 5, "it was ours to reap, not the host's"


def test_nothing_of_a_question_goes_on_behind_its_answer(host: LocalHost) -> None:
    asked = replace(shell("sleep 60 & echo $!; exit 3"), is_question=True)
    result = host.run(asked)
    assert result.exit_status == 3
    wait_until(lambda: not is_running(int(result.stdout)))
