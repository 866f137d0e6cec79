"""The launcher of the embedded llama.cpp: the real package, a real model, real signals."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from stoker.engines.phases import read_phase
from stoker.knowledge.engines import load_engine_table, load_environment
from tests.engines.environment import write_command
from tests.engines.test_llamacpp import make_launch

pytestmark = pytest.mark.engine

RECIPE = load_environment("llamacpp")
TABLE = load_engine_table("llamacpp")
#: Small and quick: one thread, one slot, no look for devices.
SMALL = ("--ctx-size", "512", "--parallel", "1", "--threads", "1", "--device", "none")
PATIENCE_SECONDS = 60.0


def run(
    environment: Path,
    *arguments: str,
    name: str = "llama-server",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [str(environment / "bin" / name), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env=dict(env or {}),
        check=False,
    )


def find_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A running llama-server of a test."""

    def __init__(self, environment: Path, log: Path, *arguments: str) -> None:
        self.port = find_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [str(environment / "bin" / "llama-server"), "--port", str(self.port), *arguments],
                stdout=output,
                stderr=output,
                env={},
            )

    def wait_until_ready(self) -> None:
        """Wait for the health page; fails with the log if the process ends before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()
            try:
                if httpx2.get(f"{self.url}/health").status_code == 200:
                    return
            except httpx2.TransportError:
                pass
            time.sleep(0.05)
        pytest.fail(f"not ready: {self.log.read_text()}")

    def stop(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; answers the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE_SECONDS)


@contextmanager
def serving(environment: Path, log: Path, *arguments: str) -> Iterator[Server]:
    server = Server(environment, log, *arguments)
    try:
        server.wait_until_ready()
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def sentences(text: str) -> list[str]:
    """What the launcher itself says, apart from the engine's log."""
    return [line for line in text.splitlines() if line.startswith("llama-server: ")]


def test_the_recipe_tests_itself(environment: Path) -> None:
    command, *arguments = RECIPE.self_test
    ran = run(environment, *arguments, name=command)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert len(sentences(ran.stderr)) == 1


def test_a_machine_without_a_compilers_openmp_library(environment: Path, tmp_path: Path) -> None:
    """The machine's own is hidden behind an empty file, for this process alone."""
    libraries = list(Path("/usr/lib").glob("*/libgomp.so.1"))
    empty = tmp_path / "empty"
    empty.touch()
    hide = "".join(f'mount --bind "{empty}" "{path}" && ' for path in libraries)
    command = f'{hide}exec "$@"'
    argv = [str(environment / "bin" / "llama-server"), "--self-test"]
    ran = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", command, "-", *argv],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unshare" in ran.stderr or "mount" in ran.stderr:
        pytest.skip("a private mount cannot be made here")
    assert ran.returncode == 0, ran.stderr


def test_variables_that_stand_for_flags_do_not_disturb_the_self_test(environment: Path) -> None:
    assert run(environment, "--self-test", env={"LLAMA_ARG_PORT": "1"}).returncode == 0


def test_it_tells_its_build(environment: Path) -> None:
    ran = run(environment, "--version")
    build, version = RECIPE.build.removeprefix("b"), RECIPE.requirements[0].version
    assert (ran.returncode, ran.stdout) == (0, f"version: {build} (xllamacpp {version})\n")


def test_it_shows_the_help_of_the_engine(environment: Path) -> None:
    ran = run(environment, "--help")
    assert ran.returncode == 0
    assert "--ctx-size N" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--nope", "1"], "error: invalid argument: --nope"),
        (["--port", "many"], 'error while handling argument "--port"'),
        (["--port", "1"], "llama-server: no model was given: --model FILE"),
    ],
)
def test_wrong_flags_are_wrong_use(environment: Path, arguments: list[str], told: str) -> None:
    ran = run(environment, *arguments)
    assert ran.returncode == 2
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (RECIPE.requirements[0].version, "1.0", "was made for xllamacpp 1.0"),
        ("object.__basicsize__", "object.__basicsize__ + 8", "keeps its options elsewhere"),
        ("_Z19common_params_parse", "_Z19common_params_spell", "keeps its options elsewhere"),
        ('"--ctx-size", str', '"--batch-size", str', "keeps its options elsewhere"),
        ('PACKAGE = "xllamacpp"', 'PACKAGE = "nollamacpp"', "nollamacpp cannot be loaded"),
    ],
)
def test_a_package_that_it_does_not_know_is_refused(
    environment: Path, old: str, new: str, told: str
) -> None:
    program = RECIPE.launchers["llama-server"]
    assert old in program
    command = write_command(environment, "changed-llama-server", program.replace(old, new))
    try:
        ran = run(environment, "--self-test", name=command.name)
    finally:
        command.unlink()
    assert ran.returncode == 70
    (sentence,) = ran.stderr.splitlines()
    assert told in sentence


def test_a_port_that_is_taken(environment: Path, model: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        ran = run(environment, "--model", str(model), "--port", port, *SMALL)
    assert ran.returncode == 1
    told = f"llama-server: cannot listen on 127.0.0.1 port {port}: another program listens there"
    assert sentences(ran.stderr) == [told]
    assert "Traceback" not in ran.stderr
    assert read_phase(ran.stderr.splitlines(), TABLE).title == "the port cannot be opened"


@pytest.mark.parametrize(
    ("kept_bytes", "told"),
    [
        (50_000_000, "could not be served; the lines above say why"),
        (1_000_000, "could not be served; the lines above say why"),
        (None, "does not exist"),
    ],
)
def test_a_model_that_is_not_whole(
    environment: Path, model: Path, tmp_path: Path, kept_bytes: int | None, told: str
) -> None:
    cut = tmp_path / "cut.gguf"
    if kept_bytes is not None:
        with model.open("rb") as whole:
            cut.write_bytes(whole.read(kept_bytes))
    ran = run(environment, "--model", str(cut), "--port", str(find_port()), *SMALL)
    assert ran.returncode == 1
    (sentence,) = sentences(ran.stderr)
    assert sentence.startswith(f"llama-server: the model {cut} {told}")
    assert "Traceback" not in ran.stderr
    assert read_phase(ran.stderr.splitlines(), TABLE).title == "the model cannot be loaded"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(
    environment: Path, model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with serving(environment, tmp_path / "log", "--model", str(model), *SMALL) as server:
        assert server.stop(number) == 0
    lines = server.log.read_text().splitlines()
    assert f"llama-server: stopped {server.url}" in lines
    assert read_phase(lines, TABLE).phase == "listening"


def test_an_answer_in_flight_does_not_hold_up_the_stop(
    environment: Path, model: Path, tmp_path: Path
) -> None:
    body = {"prompt": "hi", "n_predict": 100_000, "ignore_eos": True, "stream": True}
    arguments = ["--model", str(model), *SMALL, "--ctx-size", "8192"]
    with (
        serving(environment, tmp_path / "log", *arguments) as server,
        httpx2.stream("POST", f"{server.url}/completion", json=body) as reply,
    ):
        assert next(reply.iter_lines()).startswith("data: ")
        assert server.stop(signal.SIGTERM) == 0


def test_a_signal_while_loading_ends_it_at_once(
    environment: Path, model: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    server = Server(
        environment,
        log,
        "--model",
        str(model),
        "--override-kv",
        "llama.context_length=int:400000",
        "--device",
        "none",
        "--threads",
        "1",
    )
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "load_model: loading model" not in log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        # Either it was caught while loading, or it had loaded by then and stops as always.
        assert server.stop(signal.SIGTERM) in (-signal.SIGTERM, 0)
    finally:
        server.process.kill()


def test_keys_are_read_from_their_file(environment: Path, model: Path, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("not-for-everybody\n")
    arguments = ["--model", str(model), "--api-key-file", str(key_file), "--alias", "smol", *SMALL]
    with serving(environment, tmp_path / "log", *arguments) as server:
        url = f"{server.url}/v1/models"
        assert httpx2.get(url).status_code == 401
        reply = httpx2.get(url, headers={"Authorization": "Bearer not-for-everybody"})
        assert reply.json()["data"][0]["id"] == "smol"
        assert server.stop(signal.SIGTERM) == 0
    assert "not-for-everybody" not in server.log.read_text()


def test_a_draft_model_drafts(environment: Path, model: Path, tmp_path: Path) -> None:
    mode = TABLE.settings["draft_mode"]
    draft = [TABLE.settings["draft_path"].flag, str(model), mode.flag, str(mode.default)]
    with serving(environment, tmp_path / "log", "--model", str(model), *draft, *SMALL) as server:
        body = {"prompt": "One, two, three,", "n_predict": 24, "temperature": 0}
        timings = httpx2.post(f"{server.url}/completion", json=body, timeout=60).json()["timings"]
    assert timings["draft_n_accepted"] > 0


def test_the_whole_launch_of_a_deployment_serves(
    environment: Path, model: Path, tmp_path: Path
) -> None:
    launch = make_launch(
        cpu={"physical_count": 2, "usable_cores": 2},
        gpus="none",
        serve={"context_tokens": 256, "parallel_requests": 2},
    )
    arguments = list(launch.argv[1:])
    arguments[arguments.index("--model") + 1] = str(model)
    port = arguments.index("--port")
    del arguments[port : port + 2]
    with serving(environment, tmp_path / "log", *arguments) as server:
        found = httpx2.get(f"{server.url}/v1/models").json()["data"][0]
        assert found["id"] == "smol"
        assert found["meta"]["n_ctx"] == 256
        assert httpx2.get(f"{server.url}/metrics").status_code == 200
