"""The verb `bench` as a person types it: what is printed where, what is kept, how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.fake_engine.script import Script, Timing
from stoker.fake_engine.server import EngineServer
from tests.bench.servers import scripted, status
from tests.endpoints.certificates import make_certificate, needs_openssl, serving_tls

pytestmark = pytest.mark.timeout(120)
STOKER = (sys.executable, "-m", "stoker", "bench")
#: Long enough between tokens that a busy machine's client keeps up with so few requests.
SLOW = Script(timing=Timing(first_token_seconds=0.05, seconds_per_token=0.02))
FEW = (
    *("--unverified", "--concurrency", "1", "--requests", "4"),
    *("--output-tokens", "4", "--prompt-tokens", "20"),
)
#: A loaded machine may starve the client, which is told; what else is tested here stays as it is.
MEASURED = (0, 7)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    folders = {"STOKER_STATE": str(tmp_path / "state"), "STOKER_DATA": str(tmp_path / "data")}
    return {**os.environ, **folders, "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def server() -> Iterator[EngineServer]:
    with EngineServer(SLOW) as running:
        yield running


def run(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*STOKER, *words], env=env, capture_output=True, text=True, check=False, timeout=100
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def documents(env: dict[str, str]) -> list[Any]:
    folder = Path(env["STOKER_STATE"]) / "benchmarks"
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]


def test_a_benchmark_its_list_its_document_and_its_comparison(
    env: dict[str, str], server: EngineServer, tmp_path: Path
) -> None:
    files = [str(tmp_path / name) for name in ("a.json", "a.csv", "a.requests.csv", "a.svg")]
    outputs = [word for path in files for word in ("--output", path)]
    sweep = ("--concurrency", "1,2", "--warmup", "1", *FEW[3:], "--unverified")
    done = run(env, server.url, *sweep, *outputs)
    assert done.returncode in MEASURED, done.stderr
    (document,) = documents(env)
    assert f"kept as {document['id']}" in done.stdout
    assert "NOT VERIFIED" in done.stdout
    assert all(f"wrote {path}" in done.stdout for path in files)
    lines = Path(files[0]).read_text("utf-8").splitlines()
    assert [json.loads(line)["model_id"] for line in lines] == ["smollm2", "smollm2"]

    again = run(env, server.url, *sweep, "--json")
    assert json.loads(again.stdout)["schema"] == "benchmark/1"
    assert all(json.loads(line)["schema"] == "event/1" for line in again.stderr.splitlines())

    listed = json.loads(run(env, "list", "--json").stdout)
    assert len(listed["benchmarks"]) == 2
    assert listed["complaints"] == []
    first, second = sorted(each["id"] for each in listed["benchmarks"])
    shown = run(env, "show", first, "--verbose", "--output", files[0])  # its own file is replaced
    assert (shown.returncode, "TPOT:" in shown.stdout) == (0, True)
    compared = run(env, "compare", first, second)
    assert compared.returncode == 0, compared.stderr


def test_a_broken_contract_ends_with_5_and_insisting_measures(env: dict[str, str]) -> None:
    with EngineServer(SLOW, fault="no_done") as server:
        done = run(env, server.url, *FEW[1:])
        assert done.returncode == 5
        assert "breaks its contract, so its speed says nothing" in done.stderr
        assert "--unverified" in done.stderr
        assert documents(env) == []
        insisted = run(env, server.url, *FEW)
    assert insisted.returncode in MEASURED
    assert "NOT VERIFIED" in insisted.stdout


def test_a_signal_keeps_and_shows_what_was_measured(
    env: dict[str, str], server: EngineServer
) -> None:
    words = ("--unverified", "--concurrency", "2,4", "--for", "60s", "--output-tokens", "4")
    with subprocess.Popen(
        [*STOKER, server.url, *words],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:  # told once a tenth has passed
            if "answered" in line:
                break
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "interrupted" in stderr
    assert "2 at once was interrupted; these are the figures until then" in " ".join(
        stdout.replace("concurrency 2", "2 at once").split()
    )
    (document,) = documents(env)
    assert len(document["points"]) == 1
    assert document["points"][0]["was_interrupted"] is True


def test_a_starved_client_is_told_and_its_figures_are_no_result(
    env: dict[str, str], server: EngineServer
) -> None:
    words = ("--unverified", "--concurrency", "2", "--for", "3s", "--output-tokens", "8")
    with subprocess.Popen(
        [*STOKER, server.url, *words],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "measuring" in line:
                break
        process.send_signal(signal.SIGSTOP)
        try:
            process.wait(1.5)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGCONT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 7, stderr
    assert "NO RESULT, what was measured is the client and not the server" in stdout
    assert "no result" in stdout
    (document,) = documents(env)
    assert document["points"][0]["health"]["complaints"]


def test_a_server_that_gives_nothing_but_errors_ends_with_5(env: dict[str, str]) -> None:
    with scripted(status("500 No", b'{"error": "out of memory"}')) as url:
        done = run(env, url, *FEW[:3], "--for", "60s")
    assert done.returncode == 5, done.stderr
    said = " ".join(done.stdout.split())
    assert "ended early: nothing but errors (8 in a row); the last: HTTP status 500" in said
    assert "8 x HTTP status 500: out of memory" in said
    assert f"kept as {documents(env)[0]['id']}" in said


def test_a_key_is_nowhere_but_in_its_header(env: dict[str, str], tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sk-very-secret\n", encoding="utf-8")
    key.chmod(0o600)
    with EngineServer(Script(api_key="sk-very-secret", timing=SLOW.timing)) as server:
        done = run(env, server.url, *FEW, "--key-file", str(key), "--verbose", "--json")
        refused = run(env, server.url, *FEW)
    assert done.returncode in MEASURED, done.stderr
    assert "sk-very-secret" not in done.stdout + done.stderr
    kept = [path for path in Path(env["STOKER_STATE"]).rglob("*") if path.is_file()]
    assert len(kept) >= 2
    assert all(b"sk-very-secret" not in path.read_bytes() for path in kept)
    assert refused.returncode == 2
    assert "--key-file" in refused.stderr


@needs_openssl
def test_tls_with_an_authority_of_ones_own(env: dict[str, str], tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path / "tls", "IP:127.0.0.1")
    with serving_tls(EngineServer(SLOW), certificate, key) as server:
        url = f"https://127.0.0.1:{server.port}"
        done = run(env, url, *FEW, "--ca-file", str(certificate))
        assert done.returncode in MEASURED, done.stderr
        distrusted = run(env, url, *FEW)
    assert distrusted.returncode == 2
    assert "--ca-file" in distrusted.stderr


def test_a_state_folder_that_cannot_be_written(
    env: dict[str, str], server: EngineServer, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    done = run({**env, "STOKER_STATE": str(tmp_path / "file" / "state")}, server.url, *FEW)
    assert done.returncode in MEASURED, done.stderr
    assert "the result is not kept: the state folder" in " ".join(done.stdout.split())
    assert "kept as" not in done.stdout


def test_a_file_that_cannot_be_written_in_the_end_ends_with_7(
    env: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()

    with EngineServer(SLOW) as server:
        words = (*FEW, "--output", str(folder / "a.csv"))
        with subprocess.Popen(
            [*STOKER, server.url, *words],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            while not server.asked and process.poll() is None:
                time.sleep(0.01)
            folder.rmdir()
            stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 7, stderr
    assert "was not written" in " ".join(stdout.split())
    assert "kept as" in stdout


def test_a_file_of_somebody_else_is_left_alone(
    env: dict[str, str], server: EngineServer, tmp_path: Path
) -> None:
    strange = tmp_path / "mine.csv"
    strange.write_text("a person's own", encoding="utf-8")
    refused = run(env, server.url, *FEW, "--output", str(strange))
    assert refused.returncode == 2
    assert strange.read_text("utf-8") == "a person's own"
    assert "no table of loads of Stoker's" in refused.stderr
    assert server.asked == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workload", "nope"), "there is no workload nope"),
        (("--replay", "1"), "says not when its requests were sent"),
        (("--prompt-tokens", "100000"), "context"),
        (("--frob",), "--frob"),
    ],
)
def test_wrong_options(
    env: dict[str, str], server: EngineServer, words: tuple[str, ...], said: str
) -> None:
    done = run(env, server.url, "--unverified", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert documents(env) == []


def test_nobody_is_there(env: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    done = run(env, f"http://127.0.0.1:{port}", *FEW)
    assert done.returncode == 2
    assert "cannot be reached" in done.stderr


def test_nothing_heavy_is_imported(env: dict[str, str], server: EngineServer) -> None:
    code = (
        "import sys\n"
        "from stoker.cli.main import app\n"
        "sys.argv = ['stoker', 'bench', *sys.argv[1:]]\n"
        "try:\n    app()\n"
        "finally:\n    print(sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, server.url, *FEW],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    loaded = done.stderr.splitlines()[-1]
    assert "'stoker.bench.load'" in loaded, done.stderr
    for heavy in ("torch", "tokenizers", "transformers", "numpy", "optuna", "resvg_py"):
        assert f"'{heavy}'" not in loaded
    # What plans deployments takes most of a second to import.
    assert "'stoker.commands.assemble'" not in loaded


def test_help_does_not_load_what_measures() -> None:
    code = (
        "import sys; from stoker.cli.main import app\n"
        "print([name for name in sys.modules if name.startswith('stoker.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    for heavy in ("stoker.bench", "stoker.commands", "stoker.report", "stoker.knowledge"):
        assert f"'{heavy}" not in done.stdout
