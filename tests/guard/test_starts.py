"""What the guard remembers of earlier starts, and what its engine's environment is made of."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from stoker.guard.child import choose_environment
from stoker.guard.config import Engine
from stoker.guard.starts import KEPT, read_starts, remember_start
from stoker.guard.values import ExitCode
from stoker.model.generation import Start, Starts
from stoker.ports import TEMPORARY_SUFFIX
from tests.guard.running import Guarded, fake_engine, free_port, wait_for, write_config


def start(seconds: float, model: str = "m") -> Start:
    return Start(digest="d", model=model, seconds=seconds, at_seconds=1.0)


def test_the_newest_starts_are_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "starts.json")
    for seconds in range(KEPT + 3):
        remember_start(path, read_starts(path, "one"), start(float(seconds)))
    found = read_starts(path, "one")
    assert [each.seconds for each in found.starts] == [float(n) for n in range(3, KEPT + 3)]
    assert found.expected_seconds("m") == 8.0
    assert found.expected_seconds("another model") is None


#: Larger than any float.
HUGE = '{"starts": [{"digest": "d", "model": "m", "seconds": 1' + "0" * 400 + ', "at_seconds": 1}]}'


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", '{"starts": 3}', '{"starts": [{"model": "m"}]}', '{"starts": [7]}'),
        *("[" * 100_000, HUGE),
    ],
)
def test_what_cannot_be_read_is_no_estimate(tmp_path: Path, text: str) -> None:
    path = tmp_path / "starts.json"
    path.write_text(text)
    assert read_starts(str(path), "one") == Starts(name="one")


def test_neither_links_nor_pipes_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "starts.json"
    os.mkfifo(path)
    assert read_starts(str(path), "one") == Starts(name="one")
    path.unlink()
    (tmp_path / "elsewhere.json").write_text(json.dumps({"starts": []}))
    path.symlink_to(tmp_path / "elsewhere.json")
    assert read_starts(str(path), "one") == Starts(name="one")


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    remember_start(str(tmp_path / "no" / "starts.json"), Starts(name="one"), start(1.0))
    remember_start(None, Starts(name="one"), start(1.0))


def test_the_engine_does_not_hear_the_manager() -> None:
    inherited = {
        "PATH": "/bin",
        "NCCL_P2P_LEVEL": "SYS",
        "NOTIFY_SOCKET": "/run/systemd/notify",
        "WATCHDOG_PID": "7",
        "WATCHDOG_USEC": "1",
        "LISTEN_FDS": "1",
        "STOKER_DIGEST": "d1",
    }
    engine = Engine(argv=("x",), directory="/", env={"LD_PRELOAD": "/lib/a.so", "PATH": "/usr/bin"})
    assert choose_environment(engine, inherited, {"HF_TOKEN": "t"}) == {
        "PATH": "/usr/bin",
        "NCCL_P2P_LEVEL": "SYS",
        "STOKER_DIGEST": "d1",
        "LD_PRELOAD": "/lib/a.so",
        "HF_TOKEN": "t",
    }


def test_a_real_guard_remembers_and_hands_secrets_over(tmp_path: Path) -> None:
    port = free_port()
    token = tmp_path / "token"
    token.write_text("\n  hidden-word  \n")
    config = write_config(
        tmp_path,
        fake_engine(port),
        port,
        engine={"secret_env": {"HF_TOKEN": str(token)}},
        weights={"model": "a model"},
        starts_path=str(tmp_path / "starts.json"),
    )
    with Guarded(config) as guard:
        guard.wait_told("READY=1")
        wait_for((tmp_path / "starts.json").exists)
        environment = Path(f"/proc/{guard.engine()}/environ").read_bytes().split(b"\0")
        assert b"HF_TOKEN=hidden-word" in environment
        assert not [entry for entry in environment if entry.startswith(b"NOTIFY_SOCKET")]
        command = Path(f"/proc/{guard.engine()}/cmdline").read_bytes()
        command += Path(f"/proc/{guard.process.pid}/cmdline").read_bytes()
        assert b"hidden-word" not in command
        assert guard.status()["guard"].startswith(f"{guard.process.pid}:")
        assert guard.terminate() == ExitCode.DONE
    assert "hidden-word" not in (tmp_path / "status.json").read_text() + guard.error()
    assert read_starts(str(tmp_path / "starts.json"), "one").expected_seconds("a model")


def test_a_secret_that_cannot_be_read_starts_nothing(tmp_path: Path) -> None:
    port = free_port()
    missing = str(tmp_path / "none")
    config = write_config(
        tmp_path, fake_engine(port), port, engine={"secret_env": {"HF_TOKEN": missing}}
    )
    with Guarded(config) as guard:
        assert guard.wait() == ExitCode.USAGE
        assert "the secret of HF_TOKEN cannot be read" in guard.error()
        assert not (tmp_path / "status.json").exists()


def test_an_engine_that_prints_its_secrets_prints_none(tmp_path: Path) -> None:
    """And neither do its last words, which the guard repeats."""
    for name, word in (("token", "token-word"), ("key", "key-word")):
        (tmp_path / name).write_text(f"{word}\n")
    program = "import os; print({'token': os.environ['HF_TOKEN'], 'api_key': 'key-' + 'word'})"
    port = free_port()
    config = write_config(
        tmp_path,
        [sys.executable, "-c", program],
        port,
        engine={"secret_env": {"HF_TOKEN": str(tmp_path / "token")}},
        server={"key_path": str(tmp_path / "key")},
    )
    with Guarded(config) as guard:
        assert guard.wait() == ExitCode.ENDED_UNASKED
        assert guard.output() == b"{'token': '[hidden]', 'api_key': '[hidden]'}\n"
        assert "[hidden]" in guard.error()
        assert "word" not in guard.error().replace("[hidden]", "")


def test_a_pipe_in_the_place_of_a_new_file_holds_nobody_up(tmp_path: Path) -> None:
    path = tmp_path / "starts.json"
    os.mkfifo(tmp_path / f".starts.json{TEMPORARY_SUFFIX}")
    remember_start(str(path), Starts(name="one"), start(1.0))
    assert read_starts(str(path), "one").expected_seconds("m") == 1.0
