"""`apply --repair` and `bundle` by the real command, on an engine that answers nonsense first."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.probes.model_files import build_gguf
from tests.system.conftest import NewStoker
from tests.system.moody_engine import install
from tests.system.processes import kill
from tests.system.runner import NAME, Stoker, edit, finish, free_port, wait_until, write_small
from tests.system.test_crash import KILLED, drive


@pytest.fixture
def moody(tmp_path: Path) -> str:
    """The file of a deployment whose engine needs another attention than it asks for."""
    weights = tmp_path / "tiny.gguf"
    weights.write_bytes(build_gguf())
    changes = {
        "model": f"path:{weights}",
        "engine.environment": f"path:{install(tmp_path)}",
        "engine.settings.flash-attn": "on",
    }
    path = write_small(tmp_path, changes, port=free_port())
    Path(path).write_text("# mine\n" + Path(path).read_text())
    return path


def test_it_is_mended_verified_written_and_explained(stoker: Stoker, moody: str) -> None:
    failed = stoker.run("apply", moody)
    assert failed.exit_code == 7
    result = stoker.succeed("apply", moody, "--repair", "--attempts", "3")
    assert "verified:" in result.stdout
    assert 'engine.settings.flash-attn: "off"' in result.stdout
    text = Path(moody).read_text()
    assert text.startswith("# mine\n")
    assert "flash-attn: off" in text.replace('"', "").replace("'", "")
    assert stoker.status()["verified"]
    assert stoker.say("plan", moody)["changes"] == []
    edit(moody, {"engine.settings.flash-attn": None})
    explained = stoker.succeed("explain", moody, "--flash-attn").stdout
    assert "chosen by evidence" in explained
    assert "it mended small on" in explained
    # Every try was journaled: the one without repair, the one with, and what was verified.
    assert len(stoker.runs()) == 3


def test_without_a_repair_that_helps_nothing_runs_and_the_file_stays(
    stoker: Stoker, moody: str
) -> None:
    before = Path(moody).read_text()
    result = stoker.run("apply", moody, "--repair", "--budget", "0")
    assert result.exit_code == 7
    assert "No repair was verified" in result.error
    assert Path(moody).read_text() == before
    assert stoker.engines() == []


def test_options_of_repairs_without_one(stoker: Stoker, moody: str) -> None:
    assert "add --repair" in stoker.refuse(2, "apply", moody, "--attempts", "2")
    assert "add --repair" in stoker.refuse(2, "up", moody, "--budget", "0")
    assert "name one" in stoker.refuse(2, "up", "--repair")


def test_a_bundle_of_one_that_failed(stoker: Stoker, moody: str, new_stoker: NewStoker) -> None:
    assert stoker.run("apply", moody).exit_code == 7
    written = stoker.say("bundle", NAME)
    path = stoker.place / written["path"]
    assert path.stat().st_size == written["size_bytes"] < 2 << 20
    kinds = {part["kind"] for part in written["parts"]}
    assert {"document", "log"} <= kinds
    assert "is there already" in stoker.refuse(2, "bundle", NAME)


def test_a_crash_that_is_over_is_told_here_and_elsewhere(
    stoker: Stoker, moody: str, new_stoker: NewStoker
) -> None:
    """`diagnose NAME` of a real service, and of its bundle on another machine."""
    edit(moody, {"engine.settings.flash-attn": "off"})
    stoker.succeed("apply", moody)
    healthy = stoker.say("diagnose", NAME)
    assert (healthy["name"], healthy["causes"], healthy["earlier"]) == (NAME, [], [])
    assert "No failure was found" in stoker.succeed("diagnose").stdout
    (engine,) = stoker.engines()
    with stoker.state.joinpath("logs", f"{NAME}.log").open("a") as log:
        log.write("ggml_abort: GGML_ASSERT(x) failed\nE srv  load_model: error loading model: ")
        log.write("tensor 'a' data is not within the file bounds, model is corrupted\n")
    os.kill(engine.pid, signal.SIGKILL)
    wait_until(lambda: [each.pid for each in stoker.engines()] not in ([], [engine.pid]))
    wait_until(lambda: stoker.status()["verified"])
    told = stoker.say("diagnose", NAME)
    assert [each["kind"] for each in told["causes"] if each["gravity"] == "error"] == []
    assert "corrupt-shard" in [each["kind"] for each in told["earlier"]]
    assert "Before the last start: " in stoker.succeed("diagnose", NAME).stdout
    written = stoker.place / stoker.say("bundle", NAME)["path"]
    other = new_stoker()
    elsewhere = other.say("diagnose", "--bundle", str(written))
    assert (elsewhere["name"], elsewhere["earlier"]) != (NAME, [])
    assert [each["kind"] for each in elsewhere["causes"]] == [
        each["kind"] for each in told["causes"]
    ]


@pytest.mark.parametrize("moment", ["before the first try", "during the first try"])
def test_killed_while_it_tries(stoker: Stoker, moody: str, *, moment: str) -> None:
    """The journal of the try brings all of it to its end: nothing runs, and the file is mine."""
    before = Path(moody).read_text()
    verb = stoker.begin("apply", moody, "--repair")
    assert verb.stderr is not None
    while "trying: " not in (line := verb.stderr.readline()):
        assert line, "it ended without a try"
    if moment == "during the first try":
        wait_until(lambda: len(stoker.runs()) == 2 and stoker.engines())
    kill(verb.pid)
    verb.communicate()
    assert verb.returncode == KILLED
    assert Path(moody).read_text() == before
    assert stoker.say("status")["interrupted"] == (
        stoker.runs()[-1:] if stoker.is_interrupted() else []
    )
    assert stoker.run("stop").exit_code == 2
    assert not stoker.is_interrupted()
    assert stoker.stamped() == []
    assert stoker.say("status")["deployments"] == []
    assert Path(moody).read_text() == before


@pytest.mark.parametrize("moment", ["os.rename", "after write_file"])
def test_killed_while_it_writes_what_it_found(stoker: Stoker, moody: str, *, moment: str) -> None:
    """What was verified serves on; the file is the old one or the new one, and whole."""
    before = Path(moody).read_text()
    file = Path(moody).name
    assert drive(stoker, f"{moment} {file}", "repair", moody).returncode == KILLED
    is_written = moment == "after write_file"
    assert (Path(moody).read_text() != before) == is_written
    assert stoker.status()["verified"]
    assert not stoker.is_interrupted()
    (engine,) = stoker.engines()
    assert engine.argv[engine.argv.index("--flash-attn") + 1] == "off"
    stoker.succeed("apply", moody, "--repair")
    assert "flash-attn: off" in Path(moody).read_text().replace('"', "")
    assert stoker.status()["verified"]
    assert stoker.say("plan", moody)["changes"] == []


def test_nobody_else_changes_the_machine_meanwhile(stoker: Stoker, moody: str) -> None:
    verb = stoker.begin("apply", moody, "--repair")
    wait_until(stoker.engines)
    os.kill(verb.pid, signal.SIGSTOP)  # or it may be done before we ask
    for words in (("apply", moody), ("apply", moody, "--repair"), ("down",)):
        second = stoker.run(*words)
        assert second.exit_code == 6, second
        assert f"`stoker apply` (pid {verb.pid})" in second.error
    stoker.succeed("status")
    os.kill(verb.pid, signal.SIGCONT)
    assert finish(verb).exit_code == 0
    assert stoker.status()["verified"]


@pytest.mark.parametrize(
    "words", [("--attempts", "0"), ("--attempts", "-1"), ("--budget", "-1"), ("--budget", "soon")]
)
def test_bounds_that_are_none(stoker: Stoker, moody: str, *, words: tuple[str, str]) -> None:
    result = stoker.run("apply", moody, "--repair", *words)
    assert result.exit_code == 2
    assert result.stderr.count("Error: ") == 1
    assert f"'{words[0]}'" in result.stderr
    assert stoker.runs() == []
