"""The whole life of a deployment, as a person lives it."""

from __future__ import annotations

import re
import signal

from tests.system.runner import NAME, Stoker, ask, edit, finish, free_port, wait_until

URL = re.compile(r"https?://[^\s'\"]+")
#: What may stay of a state folder when nothing is deployed any more.
MAY_STAY = ("state.json", "lock", "facts.json", "runs/", "plans/")


def test_up_without_a_file_serves_the_example(stoker: Stoker, port: int) -> None:
    up = stoker.succeed("up", "--port", str(port))
    first = URL.search(up.stderr + up.stdout)
    assert first is not None
    assert first[0].removesuffix("/v1") == f"http://127.0.0.1:{port}"
    one = stoker.status()
    assert (one["url"], one["phase"], one["verified"]) == (
        f"http://127.0.0.1:{port}",
        "ready",
        True,
    )
    assert one["model"] in up.stdout
    status, answer = ask(first[0], model=one["model"])
    assert (status, bool(answer)) == (200, True)


def test_from_apply_to_down(stoker: Stoker, small: str) -> None:
    applied = stoker.succeed("apply", small)
    assert f"{NAME} is up and verified" in applied.stdout
    first = stoker.status()
    assert first["generation"] == 1
    assert first["phase"] == "ready"
    assert ask(first["url"])[0] == 200

    # The same again changes nothing.
    runs = stoker.runs()
    again = stoker.succeed("apply", small)
    assert "nothing changed" in again.stdout
    assert stoker.runs() == runs
    assert stoker.status() == first
    assert "2 of 2 promises kept" in stoker.succeed("verify").stdout
    assert "listening on http" in stoker.succeed("logs", "--lines", "1000").stdout

    # Stopped and started.
    assert f"{NAME} is stopped" in stoker.succeed("stop").stdout
    assert not stoker.stamped()
    stopped = stoker.status()
    assert (stopped["phase"], stopped["verified"], stopped["pid"]) == ("stopped", False, 0)
    assert "nothing had to change" in stoker.succeed("stop").stdout
    stoker.refuse(2, "verify")
    assert stoker.say("start")["run"] == stoker.runs()[-1]
    assert stoker.status() == {**first, "pid": stoker.guards()[0].pid}

    # Another definition: one restart, another generation, and back again.
    edit(small, {"serve.context_tokens": 512})
    assert stoker.say("apply", small)["changed"]
    second = stoker.status()
    assert (second["generation"], second["verified"]) == (2, True)
    assert [line for line in stoker.entries() if line["subject"] == f"restart:{NAME}"][1:]
    assert context_tokens(stoker) == "512"
    stoker.succeed("rollback")
    assert context_tokens(stoker) == "256"
    listing = stoker.succeed("rollback", "--list").stdout
    assert "* 3" in listing
    assert "rolled back to 1" in listing
    assert stoker.say("rollback", "2") == {
        "schema": "done/1",
        "name": NAME,
        "run": stoker.runs()[-1],
    }
    assert context_tokens(stoker) == "512"
    assert stoker.status()["generation"] == 4
    assert "no generation 9" in stoker.refuse(2, "rollback", "9")
    assert ask(first["url"])[0] == 200

    # Gone, but for the weights and the records.
    assert "model files are kept" in stoker.succeed("down").stdout
    assert not stoker.stamped()
    assert not stoker.daemons()
    left = {path for path in stoker.state.rglob("*") if not path.is_dir()}
    names = {path.relative_to(stoker.state).as_posix() for path in left}
    assert {name for name in names if not name.startswith(MAY_STAY)} == set()
    assert not stoker.key_copy().parent.exists()
    assert list((stoker.data / "models").rglob("*.gguf"))
    assert stoker.say("status")["deployments"] == []
    assert "there is no deployment yet" in stoker.refuse(2, "down")


def context_tokens(stoker: Stoker) -> str:
    """What the running engine was told."""
    (engine,) = stoker.engines()
    return engine.argv[engine.argv.index("--ctx-size") + 1]


def test_logs_are_followed_until_interrupted(running: Stoker) -> None:
    following = running.begin("logs", "--follow", "--lines", "1")
    assert following.stdout is not None
    assert following.stdout.readline()
    url = running.status()["url"]
    shown = ""
    assert ask(url)[0] == 200
    while "stop processing" not in shown:
        shown = following.stdout.readline()
    following.send_signal(signal.SIGINT)
    ended = finish(following)
    assert ended.exit_code in (0, 130)
    assert "error" not in ended.stderr


def test_logs_end_quietly_when_nobody_reads_them(running: Stoker) -> None:
    following = running.begin("logs", "--follow")
    assert following.stdout is not None
    assert following.stderr is not None
    following.stdout.readline()
    following.stdout.close()
    wait_until(lambda: ask(running.status()["url"])[0] == 200 and following.poll() is not None)
    assert following.stderr.read() == ""
    assert following.returncode == 0


def test_one_of_two_deployments_goes(running: Stoker, running_file: str) -> None:
    """Verbs without a name ask which; the other one is left alone."""
    before = running.look()
    kept = running.engines()
    other = free_port()
    edit(running_file, {"name": "other", "serve.port": other})
    running.succeed("apply", running_file)
    assert "name one of: other, small" in running.refuse(2, "stop")
    assert "there is no deployment named third" in running.refuse(2, "down", "third")
    assert ask(f"http://127.0.0.1:{other}")[0] == 200
    running.succeed("down", "other")
    assert running.look() == before
    assert running.engines() == kept
    assert running.status()["verified"]
