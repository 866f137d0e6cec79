"""A real server that was started by hand: written as a deployment, compared, taken over."""

from __future__ import annotations

import os
import stat
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stoker.knowledge.engines import engine_kinds
from stoker.model.deployment import Deployment
from stoker.spec import parse_deployment
from tests.system.runner import Stoker, ask, edit, wait_until

TOKEN = "hf_token0of0the0owner0"
KEY = "k3y-0f-the-0wner"
ENV = {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "1", "HF_TOKEN": TOKEN, "MY_NOTE": "by hand"}
#: What Stoker says about the name and the counters that it adds.
ADDED = {"--metrics"}


class ByHand:
    """A server that a person started in a session of its own, as with nohup."""

    def __init__(self, argv: list[str], env: Mapping[str, str], *, place: Path, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        with (place / "nohup.out").open("wb") as log:
            self.process = subprocess.Popen(
                argv,
                env={"PATH": os.defpath, **env},
                cwd=place,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self.process.pid

    def wait_ready(self) -> None:
        """Wait until it has loaded."""
        wait_until(self._is_ready)

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, "it has ended"
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def is_running(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def engine(data: Path) -> Path:
    """The embedded engine's executable."""
    return min((data / "environments").glob("llamacpp-*/bin/llama-server"))


@pytest.fixture
def by_hand(engine: Path, model_file: Path, tmp_path: Path, port: int) -> Iterator[ByHand]:
    """A server with a key, slots and a few settings, its model named by a relative path."""
    place = tmp_path / "by hand"
    place.mkdir()
    (place / "weights.gguf").symlink_to(model_file)
    words = f"-m weights.gguf --port {port} -c 512 -np 2 -t 1 --alias small-model --api-key {KEY}"
    more = ["--temp", "0.70", "-n", "-1", "--no-warmup", "--reverse-prompt", 'a "b" ü']
    server = ByHand([str(engine), *words.split(), *more], ENV, place=place, port=port)
    try:
        server.wait_ready()
        yield server
    finally:
        server.close()


def read(file: Path) -> Deployment:
    return parse_deployment(file.read_text("utf-8"), str(file), engine_kinds=engine_kinds())


def assert_secrets_are_closed(place: Path) -> None:
    """0600 files in a folder of 0700, and no secret in any other."""
    folder = place / "secrets"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["small-model-api-key", "small-model-hf-token"]
    assert [file.read_text() for file in files] == [f"{KEY}\n", f"{TOKEN}\n"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    for path in place.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.parent != folder:
            text = path.read_bytes()
            assert TOKEN.encode() not in text, path
            assert KEY.encode() not in text, path


def test_a_server_becomes_a_deployment_and_then_stokers_own(
    stoker: Stoker, by_hand: ByHand, engine: Path, model_file: Path
) -> None:
    file = stoker.place / "small-model.yaml"
    said = [stoker.succeed("adopt", "--port", str(by_hand.port))]
    assert "Wrote small-model.yaml" in said[0].stdout
    assert "Not taken over, for no engine is known to read them: MY_NOTE" in said[0].stdout
    assert f"stoker apply small-model.yaml --end-holders {by_hand.pid}" in said[0].stdout
    assert_secrets_are_closed(stoker.place)

    found = read(file)
    assert found.model.ref == f"path:{stoker.place}/by hand/weights.gguf"
    assert found.engine.environment == f"path:{engine}"
    assert found.engine.settings == {
        "threads": 1,
        "temp": "0.70",
        "predict": -1,
        "no-warmup": True,
        "reverse-prompt": 'a "b" ü',
    }
    assert found.engine.env == {name: ENV[name] for name in ("NCCL_DEBUG", "OMP_NUM_THREADS")}
    assert (found.serve.port, found.serve.published_name) == (by_hand.port, "small-model")
    assert (found.serve.context_tokens, found.serve.parallel_requests) == (256, 2)

    # It would be the same but for what was said; one flag more, and it is not.
    compared = stoker.run("diff", str(file), f"pid:{by_hand.pid}", "--json")
    assert compared.exit_code == 4
    assert names(compared.document) == ADDED
    said += [compared, stoker.run("diff", str(file), f"port:{by_hand.port}")]
    edit(str(file), {"engine.settings.threads": 2, "engine.env.NCCL_DEBUG": "INFO"})
    changed = stoker.run("diff", str(file), f"pid:{by_hand.pid}")
    assert changed.exit_code == 4
    assert "--threads    2" in changed.stdout
    assert "$NCCL_DEBUG  INFO" in changed.stdout
    edit(str(file), {"engine.settings.threads": 1, "engine.env.NCCL_DEBUG": "WARN"})
    (stoker.place / "secrets" / "small-model-hf-token").write_text("another\n")
    told = stoker.run("diff", str(file), f"pid:{by_hand.pid}", "--json").document
    assert names(told) == {*ADDED, "--hf-token"}
    (stoker.place / "secrets" / "small-model-hf-token").write_text(f"{TOKEN}\n")
    said.append(changed)

    # Stoker takes its place: the same engine on the same port, with the same key.
    applied = stoker.run("apply", str(file), "--end-holders", str(by_hand.pid))
    assert applied.exit_code == 0, applied
    assert not by_hand.is_running()
    assert ask(by_hand.url, key=KEY)[0] == 200
    assert ask(by_hand.url)[0] == 401
    (process,) = [each for each in stoker.engines() if each.argv[1:2] == (str(engine),)]
    same = stoker.succeed("diff", "small-model", f"pid:{process.pid}")
    assert "are the same" in same.stdout
    stoker.succeed("diff", "small-model", f"port:{by_hand.port}")
    stoker.succeed("diff", str(file), "small-model@1")
    refused = stoker.run("adopt", "--pid", str(process.pid), "--output", "other.yaml")
    assert refused.exit_code == 2
    assert "is already run by Stoker as small-model" in refused.stderr
    assert process.env["HF_TOKEN"] == TOKEN
    said += [applied, same, refused]
    for result in said:
        assert TOKEN not in result.stdout + result.stderr
        assert KEY not in result.stdout + result.stderr


def names(comparison: Any) -> set[str]:
    """The names of what differs in a document."""
    assert comparison["schema"] == "diff/1"
    return {each["name"] for each in comparison["differences"]}


def test_by_pid_and_without_either(stoker: Stoker, by_hand: ByHand) -> None:
    adopted = stoker.say("adopt", "--pid", str(by_hand.pid))
    assert adopted["schema"] == "adopt/1"
    assert (adopted["file"], adopted["pid"]) == ("small-model.yaml", by_hand.pid)
    assert names({**adopted, "schema": "diff/1"}) == ADDED
    assert TOKEN not in str(adopted)
    assert KEY not in str(adopted)
    assert_secrets_are_closed(stoker.place)

    # Nothing is overwritten: neither the file nor, under another file's name, the secrets.
    before = {path: path.read_bytes() for path in stoker.place.rglob("*.yaml")}
    assert "is there already" in stoker.refuse(2, "adopt", "--pid", str(by_hand.pid))
    refused = stoker.refuse(2, "adopt", "--pid", str(by_hand.pid), "--output", "b.yaml")
    assert "small-model-api-key is there already" in refused
    assert {path: path.read_bytes() for path in stoker.place.rglob("*.yaml")} == before

    # Others may run servers on this machine as well.
    alone = stoker.run("adopt", "--name", "other", "--json")
    if alone.exit_code == 0:
        assert alone.document["pid"] == by_hand.pid
        assert (stoker.place / "other.yaml").is_file()
    else:
        assert alone.exit_code == 2
        assert f"process {by_hand.pid} of " in alone.document["summary"]


def test_what_no_deployment_says_is_refused(
    stoker: Stoker, engine: Path, model_file: Path, tmp_path: Path, port: int
) -> None:
    words = f"-m {model_file} --port {port} -c 256 -t 1 --api-prefix /x"
    server = ByHand([str(engine), *words.split()], {}, place=tmp_path, port=port)
    server.url += "/x"
    try:
        server.wait_ready()
        result = stoker.run("adopt", "--port", str(port))
        assert result.exit_code == 3
        assert "--api-prefix: Stoker cannot run the engine with it" in result.stderr
        assert not list(tmp_path.glob("*.yaml"))
        assert server.is_running()
        shown = stoker.run("diff", f"pid:{server.pid}", f"pid:{os.getpid()}")
        assert (shown.exit_code, "no server that Stoker knows" in shown.stdout) == (4, True)
    finally:
        server.close()


def test_what_is_the_same_is_called_the_same(
    stoker: Stoker, engine: Path, model_file: Path, tmp_path: Path, port: int
) -> None:
    words = f"-m {model_file} --port {port} -c 256 -t 1 --metrics --host 127.0.0.1 --alias m"
    server = ByHand([str(engine), *words.split()], ENV, place=tmp_path, port=port)
    try:
        server.wait_ready()
        assert stoker.say("adopt", "--port", str(port))["differences"] == []
        same = stoker.succeed("diff", f"pid:{server.pid}", "m.yaml")
        assert "0 different" in same.stdout
    finally:
        server.close()
