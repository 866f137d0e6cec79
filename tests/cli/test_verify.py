"""The verb `verify` as a person types it: what is printed where, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from stoker.fake_engine.server import EngineServer
from stoker.fake_engine.values import Asked

pytestmark = pytest.mark.timeout(120)
STOKER = (sys.executable, "-m", "stoker", "verify")
ONLY = ("--only", "chat_answer", "--only", "stream_ends_done")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    folders = {"STOKER_STATE": str(tmp_path / "state"), "STOKER_DATA": str(tmp_path / "data")}
    return {**os.environ, **folders}


def run(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STOKER, *words], env=env, capture_output=True, text=True, check=False, timeout=100
    )


def url(server: EngineServer) -> str:
    return f"http://127.0.0.1:{server.port}"


def test_kept_promises_end_with_0(env: dict[str, str]) -> None:
    with EngineServer() as server:
        done = run(env, url(server), *ONLY)
    assert done.returncode == 0, done.stderr
    assert "ok   chat_answer" in done.stdout
    assert "verified: 2 of 2 promises kept" in done.stdout
    assert "check 2 of 2" in done.stderr
    assert "check 1 of 2" not in done.stdout


def test_a_broken_promise_ends_with_5_and_shows_the_exchange(env: dict[str, str]) -> None:
    with EngineServer(fault="no_done") as server:
        done = run(env, url(server), *ONLY)
    assert done.returncode == 5
    assert "FAIL stream_ends_done" in done.stdout
    assert "asked    POST /v1/chat/completions" in done.stdout
    assert "got      HTTP 200" in done.stdout
    assert "NOT verified: 1 of 2 promises kept" in done.stdout


def test_json_is_one_document_on_stdout_and_events_on_stderr(env: dict[str, str]) -> None:
    with EngineServer(fault="no_done") as server:
        done = run(env, url(server), *ONLY, "--json")
    assert done.returncode == 5
    result = json.loads(done.stdout)
    assert result["schema"] == "verification/1"
    broken = result["results"][1]
    assert broken["exchanges"][1]["request"]["path"] == "/v1/chat/completions"
    assert broken["exchanges"][1]["events"]
    assert all(json.loads(line)["schema"] == "event/1" for line in done.stderr.splitlines())


def test_junit_is_written_beside_the_result(env: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "result.xml"
    with EngineServer(fault="no_done") as server:
        done = run(env, url(server), *ONLY, "--junit", str(path))
    assert done.returncode == 5
    suite = ET.fromstring(path.read_text("utf-8"))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_a_recording_says_the_same_again_without_a_server(
    env: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "recording.json"
    with EngineServer(fault="no_done") as server:
        first = run(env, url(server), *ONLY, "--record", str(path))
        again = run(env, url(server), *ONLY, "--record", str(path))
    assert first.returncode == again.returncode == 5
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "holds the recording" in first.stdout
    assert "replaced" in again.stdout
    replayed = run(env, "--replay", str(path), *ONLY)
    assert replayed.returncode == 5
    told = [line for line in again.stdout.splitlines() if not line.startswith("note:")]
    assert replayed.stdout.splitlines() == told


def test_another_file_is_never_written_over(env: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with EngineServer() as server:
        done = run(env, url(server), "--record", str(path))
    assert done.returncode == 2
    assert path.read_text() == "mine"
    assert server.asked == []


def test_a_file_that_could_not_be_written_does_not_end_with_0(
    env: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    path = folder / "result.xml"
    server = EngineServer()
    server.asked = Removing(folder)
    with server:
        done = run(env, url(server), *ONLY, "--junit", str(path))
    assert done.returncode == 7, done.stderr
    assert f"{path} could not be written" in done.stdout
    assert "verified: 2 of 2 promises kept" in done.stdout
    assert not folder.exists()


class Removing(list[Asked]):
    """Takes a folder away with the first question."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def append(self, asked: Asked) -> None:
        super().append(asked)
        if self._folder.exists():
            self._folder.rmdir()


class FallingSilent(list[Asked]):
    """Makes a server mute with its second question."""

    def __init__(self, server: EngineServer) -> None:
        super().__init__()
        self._server = server

    def append(self, asked: Asked) -> None:
        super().append(asked)
        questions = sum(each.path.endswith("completions") for each in self)
        self._server.is_mute = questions > 1


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_tells_what_was_found_so_far(env: dict[str, str], as_json: bool) -> None:
    server = EngineServer()
    server.asked = FallingSilent(server)
    with server:
        words = [*STOKER, url(server), "--only", "published_name", "--only", "chat_answer"]
        started = subprocess.Popen(
            [*words, *(["--json"] if as_json else [])],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not server.is_mute and started.poll() is None:
            time.sleep(0.01)
        started.send_signal(signal.SIGINT)
        stdout, stderr = started.communicate(timeout=30)
    assert started.returncode == 130, stderr
    if as_json:
        document = json.loads(stdout)
        assert any("interrupted" in note for note in document["notes"])
    else:
        assert "ok   chat_answer" in stdout
        assert "interrupted: 1 of 2 checks" in stdout
        assert stdout.splitlines()[-1] == "interrupted: 1 of 1 promises kept"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("http://127.0.0.1:1",), "cannot be reached"),
        (("https://127.0.0.1:1",), "cannot be reached"),
        (("ftp://127.0.0.1:1",), "neither http:// nor https://"),
        (("http://a:b@127.0.0.1:1",), "a user or a password"),
        (("--replay", "/nowhere.json"), "there is no file"),
        (("http://127.0.0.1:1", "--replay", "/a.json"), "asks no server"),
        (("http://127.0.0.1:1", "--for", "soon"), "no time"),
        (("http://127.0.0.1:1", "--level", "quikc"), "there is no level quikc"),
    ],
)
def test_what_cannot_be_done_ends_with_2(
    env: dict[str, str], words: tuple[str, ...], sentence: str
) -> None:
    done = run(env, *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("error:") == 1
    assert done.stdout == ""


def test_the_checks_are_listed_with_their_levels(env: dict[str, str]) -> None:
    listed = run(env, "--list")
    assert listed.returncode == 0
    assert "chat_answer" in listed.stdout
    document = json.loads(run(env, "--list", "--json").stdout)
    assert {each["level"] for each in document["checks"]} <= {"quick", "full", "soak"}
