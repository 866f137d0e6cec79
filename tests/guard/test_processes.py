"""Real guards around real processes: signals, output, notifications, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from stoker.fake_engine.server import COUNTER
from stoker.guard.values import ExitCode
from tests.guard.engine_script import NOISE
from tests.guard.running import (
    Guarded,
    fake_engine,
    free_port,
    is_alive,
    wait_for,
    write_config,
)

MOST_MEMORY_KIB = 50 << 10
MEASURED_SECONDS = 4.0


def read_pids(paths: list[str]) -> list[int]:
    """The pids that the engine has written down."""
    wait_for(lambda: all(map(os.path.exists, paths)))
    return [int(Path(path).read_text()) for path in paths]


def find_listener(port: int) -> str:
    """The socket that listens on a port, as /proc/PID/fd names it."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    (inode,) = (row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A")
    return f"socket:[{inode}]"


def open_sockets(pid: int) -> set[str]:
    """What the descriptors of a process stand for."""
    return {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}


@pytest.fixture
def port() -> int:
    """Where the engine will listen."""
    return free_port()


@pytest.mark.parametrize("is_abstract", [False, True], ids=["path", "abstract"])
def test_ready_comes_after_the_contract(tmp_path: Path, port: int, is_abstract: bool) -> None:
    lines = ["loading  62 % of it"]
    config = write_config(tmp_path, fake_engine(port, lines=lines), port)
    with Guarded(config, is_abstract=is_abstract) as guard:
        guard.wait_told("READY=1")
        assert "STATUS=loading weights 62 %" in guard.told
        assert guard.told.index("STATUS=verifying") < guard.told.index("READY=1")
        assert guard.told[1].startswith("EXTEND_TIMEOUT_USEC=")
        wait_for(lambda: guard.status()["verified"])
        status = guard.status()
        assert status["phase"] == "ready"
        assert status["process"].startswith(f"{status['pid']}:")
        # Clients talk to the engine itself.
        listener = find_listener(port)
        assert listener in open_sockets(status["pid"])
        family = {guard.process.pid, *children_of(guard.process.pid)} - {status["pid"]}
        assert len(family) == 2
        assert not any(listener in open_sockets(pid) for pid in family)
        assert guard.terminate() == ExitCode.DONE
        assert "STOPPING=1" in guard.told
        assert not is_alive(status["pid"])
        assert guard.status()["phase"] == "stopping"
        assert not guard.status()["verified"]


def test_a_broken_contract_is_never_ready(tmp_path: Path, port: int) -> None:
    argv = fake_engine(port, fault="one_character")
    with Guarded(write_config(tmp_path, argv, port)) as guard:
        wait_for(lambda: any("one character over and over" in line for line in guard.told))
        assert "READY=1" not in guard.told
        assert guard.status()["phase"] == "verifying"


def test_a_key_goes_with_every_question(tmp_path: Path, port: int) -> None:
    (tmp_path / "key").write_text("\n secret-word \n")
    argv = fake_engine(port, api_key="secret-word")
    server = {"key_path": str(tmp_path / "key")}
    with Guarded(write_config(tmp_path, argv, port, server=server)) as guard:
        guard.wait_told("READY=1")
        assert guard.terminate() == ExitCode.DONE
        assert "secret-word" not in guard.error() + (tmp_path / "status.json").read_text()


def test_the_output_is_passed_on_byte_for_byte(tmp_path: Path, port: int) -> None:
    argv = fake_engine(port, lines=["first"], noise=True, ends=3)
    with Guarded(write_config(tmp_path, argv, port)) as guard:
        assert guard.wait() == 3
        assert guard.output() == b"first\n" + NOISE + NOISE


def test_an_engine_outlives_the_reader_of_its_output(tmp_path: Path, port: int) -> None:
    config = write_config(tmp_path, fake_engine(port, noise=True), port)
    reading, writing = os.pipe()
    guard = subprocess.Popen(
        [sys.executable, "-m", "stoker.guard", config], stdout=writing, stderr=writing
    )
    os.close(writing)
    os.close(reading)
    wait_for((tmp_path / "status.json").exists)
    wait_for(lambda: b'"phase": "ready"' in (tmp_path / "status.json").read_bytes())
    guard.terminate()
    assert guard.wait() == ExitCode.DONE


def test_a_reader_that_stands_still_holds_up_no_signal(tmp_path: Path, port: int) -> None:
    config = write_config(tmp_path, fake_engine(port, noise=True, children=[]), port)
    reading, writing = os.pipe()
    guard = subprocess.Popen(
        [sys.executable, "-m", "stoker.guard", config],
        stdout=writing,
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    wait_for((tmp_path / "status.json").exists)
    guard.terminate()
    assert guard.wait() == ExitCode.DONE
    os.close(reading)


@pytest.mark.parametrize(("ends", "code"), [(7, 7), (-11, 139), (0, ExitCode.ENDED_UNASKED)])
def test_the_engines_own_end_is_passed_on(tmp_path: Path, port: int, ends: int, code: int) -> None:
    argv = fake_engine(port, lines=["last words"], ends=ends)
    with Guarded(write_config(tmp_path, argv, port)) as guard:
        assert guard.wait() == code
        assert "while starting; its last lines:\n    last words" in guard.error()


def test_a_kill_of_the_guard_leaves_nothing(tmp_path: Path, port: int) -> None:
    paths = [str(tmp_path / "child"), str(tmp_path / "runaway")]
    argv = fake_engine(port, children=paths, ignores=["SIGTERM", "SIGHUP", "SIGINT"])
    with Guarded(write_config(tmp_path, argv, port)) as guard:
        pids = [*read_pids(paths), guard.engine()]
        assert all(map(is_alive, pids))
        guard.process.kill()
        wait_for(lambda: not any(map(is_alive, pids)))


def test_an_end_of_the_engine_leaves_nothing(tmp_path: Path, port: int) -> None:
    paths = [str(tmp_path / "child"), str(tmp_path / "runaway")]
    with Guarded(write_config(tmp_path, fake_engine(port, children=paths, ends=5), port)) as guard:
        assert guard.wait() == 5
        assert not any(map(is_alive, read_pids(paths)))


def test_the_watcher_ends_with_its_guard(tmp_path: Path, port: int) -> None:
    with Guarded(write_config(tmp_path, fake_engine(port), port)) as guard:
        guard.wait_told("READY=1")
        (watcher,) = children_of(guard.process.pid) - {guard.engine()}
        assert Path(f"/proc/{watcher}/comm").read_text() == "stoker-watcher\n"
        assert guard.terminate() == ExitCode.DONE
        wait_for(lambda: not is_alive(watcher))


def test_a_guard_that_stands_still_is_ended_by_its_watcher(tmp_path: Path, port: int) -> None:
    paths = [str(tmp_path / "child"), str(tmp_path / "runaway")]
    argv = fake_engine(port, fault="slow_drip", children=paths, ignores=["SIGTERM"])
    limits = {"heartbeat_seconds": 1}
    with Guarded(write_config(tmp_path, argv, port, limits=limits)) as guard:
        pids = [*read_pids(paths), guard.engine()]
        (watcher,) = children_of(guard.process.pid) - {guard.engine()}
        guard.process.send_signal(signal.SIGSTOP)
        assert guard.wait() == -signal.SIGKILL
        wait_for(lambda: not any(map(is_alive, [*pids, watcher])))
        assert "a-deployment: the guard itself has stood still for 1 s" in guard.error()


def test_a_guard_that_stands_still_together_with_its_watcher_goes_on(
    tmp_path: Path, port: int
) -> None:
    """As in a frozen control group, or a container that is paused."""
    limits = {"heartbeat_seconds": 1}
    with Guarded(write_config(tmp_path, fake_engine(port), port, limits=limits)) as guard:
        guard.wait_told("READY=1")
        (watcher,) = children_of(guard.process.pid) - {guard.engine()}
        for number in (signal.SIGSTOP, signal.SIGCONT):
            os.kill(watcher, number)
            guard.process.send_signal(number)
            time.sleep(2)
        assert guard.process.poll() is None
        assert is_alive(watcher)
        assert is_alive(guard.engine())
        assert guard.terminate() == ExitCode.DONE


def test_a_guard_without_watcher_goes_on(tmp_path: Path, port: int) -> None:
    with Guarded(write_config(tmp_path, fake_engine(port), port)) as guard:
        guard.wait_told("READY=1")
        (watcher,) = children_of(guard.process.pid) - {guard.engine()}
        os.kill(watcher, signal.SIGKILL)
        wait_for(lambda: watcher not in children_of(guard.process.pid))
        assert guard.terminate() == ExitCode.DONE


def children_of(pid: int) -> set[int]:
    """The pids of what a process has started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return set(map(int, text.split()))


def test_an_engine_that_ignores_term_is_killed(tmp_path: Path, port: int) -> None:
    argv = fake_engine(port, ignores=["SIGTERM"])
    limits = {"stop_timeout_seconds": 0.5}
    with Guarded(write_config(tmp_path, argv, port, limits=limits)) as guard:
        guard.wait_told("READY=1")
        engine = guard.engine()
        assert guard.terminate() == ExitCode.DONE
        assert not is_alive(engine)
        assert "it has ended, by SIGKILL" in guard.error()


def test_a_second_request_to_stop_is_in_a_hurry(tmp_path: Path, port: int) -> None:
    argv = fake_engine(port, ignores=["SIGINT"])
    limits = {"stop_timeout_seconds": 600}
    with Guarded(write_config(tmp_path, argv, port, limits=limits)) as guard:
        guard.wait_told("READY=1")
        guard.process.send_signal(signal.SIGINT)
        guard.wait_told("STOPPING=1")
        guard.process.send_signal(signal.SIGINT)
        assert guard.wait() == ExitCode.DONE


def test_a_stop_while_loading_is_a_stop(tmp_path: Path, port: int) -> None:
    argv = fake_engine(port, fault="slow_drip")
    with Guarded(write_config(tmp_path, argv, port)) as guard:
        guard.engine()
        assert guard.terminate() == ExitCode.DONE
        assert "READY=1" not in guard.told


def test_hang_up_is_passed_on(tmp_path: Path, port: int) -> None:
    with Guarded(write_config(tmp_path, fake_engine(port, says=["SIGHUP"]), port)) as guard:
        guard.wait_told("READY=1")
        guard.process.send_signal(signal.SIGHUP)
        wait_for(lambda: b"heard 1\n" in guard.output())
        assert guard.terminate() == ExitCode.DONE


def test_a_server_that_hangs_is_stuck(tmp_path: Path, port: int) -> None:
    argv = fake_engine(port, fault="slow_drip", lines=["loading 30 %"])
    changes = {"limits": {"stall_seconds": 1}, "canary": {"timeout_seconds": 30}}
    with Guarded(write_config(tmp_path, argv, port, **changes)) as guard:
        assert guard.wait() == ExitCode.STALLED
        assert "stuck in loading weights" in guard.error()
        assert guard.status()["phase"] == "stalled"


@pytest.mark.parametrize(
    ("later", "says"),
    [
        ("nan", "numbers broke down"),
        ("server_error", "HTTP 500"),
        ("closes_at_once", "broke off"),
        ("slow_drip", "no whole reply"),
        ("garbage", "was not HTTP"),
    ],
)
def test_what_breaks_later_is_noticed(tmp_path: Path, port: int, later: str, says: str) -> None:
    canary = {"timeout_seconds": 0.3 if later == "slow_drip" else 10}
    argv = fake_engine(port, later=later)
    with Guarded(write_config(tmp_path, argv, port, canary=canary)) as guard:
        guard.wait_told("READY=1")
        os.kill(guard.engine(), signal.SIGUSR1)
        assert guard.wait() == ExitCode.GAVE_UP
        assert "it no longer generates" in guard.error()
        assert says in guard.error()


#: Looks that come and end soon.
COUNTING = {
    "interval_seconds": 0.1,
    "timeout_seconds": 0.5,
    "metrics_path": "/metrics",
    "counters": [COUNTER],
}


def test_a_dead_scheduler_behind_live_http_is_noticed(tmp_path: Path, port: int) -> None:
    argv = fake_engine(port, breaks=["questions", "counters"], tells=True)
    with Guarded(write_config(tmp_path, argv, port, canary=COUNTING)) as guard:
        guard.wait_told("READY=1")
        os.kill(guard.engine(), signal.SIGUSR1)
        assert guard.wait() == ExitCode.GAVE_UP
        assert "it no longer generates: expected a whole reply within 0.5 s" in guard.error()
        assert "while its counters stood still" in guard.error()
        # It went on to answer for itself to the end.
        assert guard.output().rstrip().endswith(b"asked /metrics")


@pytest.mark.parametrize(
    ("breaks", "path"), [("questions", b"/v1/chat/completions"), ("health", b"/metrics")]
)
def test_an_engine_whose_counters_move_lives_on(
    tmp_path: Path, port: int, breaks: str, path: bytes
) -> None:
    argv = fake_engine(port, breaks=[breaks], tells=True)
    with Guarded(write_config(tmp_path, argv, port, canary=COUNTING)) as guard:
        guard.wait_told("READY=1")
        os.kill(guard.engine(), signal.SIGUSR1)
        before = guard.output().count(path)
        # More looks than any doubt lasts; questions beside growing counters come seldom.
        wait_for(
            lambda: guard.output().count(path) > before + 4 or guard.process.poll() is not None
        )
        wait_for(lambda: guard.output().count(b"/metrics") > 30 or guard.process.poll() is not None)
        assert guard.process.poll() is None, guard.error()
        assert guard.status()["text"] == "ready"
        if breaks == "health":
            with pytest.raises(HTTPError, match="503"):
                urlopen(f"http://127.0.0.1:{port}/health")
        assert guard.terminate() == ExitCode.DONE


def test_a_load_that_only_reads_lives(tmp_path: Path, port: int) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(bytes(8 << 20))
    argv = fake_engine(port, reads=[str(weights), 12])
    stall_seconds = 5
    changes = {"limits": {"stall_seconds": stall_seconds}, "weights": {"paths": [str(weights)]}}
    with Guarded(write_config(tmp_path, argv, port, **changes)) as guard:
        guard.wait_told("READY=1")
        began, ready = guard.moments["EXTEND_TIMEOUT_USEC"], guard.moments["READY"]
        assert ready - began > 2 * stall_seconds
        assert guard.output() == b""
        assert guard.terminate() == ExitCode.DONE


def test_the_same_load_that_does_not_read_is_stuck(tmp_path: Path, port: int) -> None:
    argv = fake_engine(port, reads=["/dev/null", 30])
    with Guarded(write_config(tmp_path, argv, port, limits={"stall_seconds": 5})) as guard:
        assert guard.wait() == ExitCode.STALLED
        assert "stuck in starting, no progress for 5 s" in guard.error()


def test_an_engine_that_is_not_there(tmp_path: Path, port: int) -> None:
    with Guarded(write_config(tmp_path, ["/no/such/engine"], port)) as guard:
        assert guard.wait() == ExitCode.NOT_FOUND
        assert "/no/such/engine" in guard.error()


def test_an_engine_that_may_not_be_executed(tmp_path: Path, port: int) -> None:
    with Guarded(write_config(tmp_path, ["/etc/passwd"], port)) as guard:
        assert guard.wait() == ExitCode.NOT_EXECUTABLE


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"limits": {"stall_seconds": "60"}}, "`limits.stall_seconds` is no number of seconds"),
        ({"canary": {"intervall": 1}}, "`canary.intervall` is unknown to this guard"),
        ({"require": ["chat_answers"]}, "did you mean chat_answer?"),
        ({"server": {"host": "localhost"}}, "localhost is not a numeric address"),
        ({"server": {"key_path": "/no/such/key"}}, "the API key cannot be read"),
        ({"phases": [{"pattern": "(", "phase": "p", "title": "t"}]}, "is no regular expression"),
    ],
)
def test_a_wrong_configuration_starts_nothing(
    tmp_path: Path, port: int, changes: dict[str, object], says: str
) -> None:
    argv = ["/bin/touch", str(tmp_path / "started")]
    with Guarded(write_config(tmp_path, argv, port, **changes)) as guard:
        assert guard.wait() == ExitCode.USAGE
        assert says in guard.error()
    assert not (tmp_path / "started").exists()


def test_it_takes_little(
    tmp_path: Path, port: int, record_property: Callable[[str, object], None]
) -> None:
    canary = {"interval_seconds": 1}
    with Guarded(write_config(tmp_path, fake_engine(port), port, canary=canary)) as guard:
        guard.wait_told("READY=1")
        time.sleep(1)
        before = cpu_seconds(guard.process.pid)
        time.sleep(MEASURED_SECONDS)
        used = cpu_seconds(guard.process.pid) - before
        memory = memory_kib(guard.process.pid)
        figures = f"{memory} KiB, {used / MEASURED_SECONDS:.2%} of a core at a look a second"
        record_property("guard", figures)
        sys.stdout.write(f"\nguard: {figures}\n")
        assert memory < MOST_MEMORY_KIB
        assert guard.terminate() == ExitCode.DONE


def cpu_seconds(pid: int) -> float:
    """The time on a core that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_kib(pid: int) -> int:
    """The resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS"))


def test_the_guard_loads_nothing_heavy() -> None:
    script = "import stoker.guard.run, sys; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    loaded = set(run.stdout.split())
    assert loaded & {"pydantic", "httpx2", "typer", "asyncio", "ruamel.yaml", "ssl"} == set()
