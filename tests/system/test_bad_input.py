"""What is wrong is said before anything is touched: one sentence, a place, a remedy."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.system.runner import NAME, Stoker, edit, write_small

#: Enough of the weights for their header's beginning.
HEAD_BYTES = 1 << 20


def test_yaml_that_cannot_be_read(stoker: Stoker, tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("name: small\nmodel: [unclosed\nengine:\n  kind: llamacpp\n")
    error = stoker.refuse(2, "apply", str(file))
    assert "1 problem in the deployment file" in error
    assert "line 3" in error
    assert not stoker.state.exists()


def test_all_problems_of_a_file_at_once(stoker: Stoker, small: str) -> None:
    text = Path(small).read_text().replace("parallel_requests: 1", "paralel_requests: 1")
    Path(small).write_text(text.replace("gpus: none", "gpu: none") + "  start: 3\n")
    error = stoker.refuse(2, "apply", small)
    assert "3 problems in the deployment file" in error
    assert "line 7, column 1: gpu: " in error
    assert "did you mean `gpus`?" in error
    assert "did you mean `parallel_requests`?" in error
    (document,) = [stoker.run("apply", small, "--json").document]
    assert len(document["problems"]) == 3
    assert all(problem["line"] and problem["column"] for problem in document["problems"])


def test_files_that_are_none(stoker: Stoker, tmp_path: Path) -> None:
    assert "stoker init" in stoker.refuse(2, "apply", str(tmp_path / "nothing.yaml"))
    (tmp_path / "latin").write_bytes(b"name: sm\xe4ll\n")
    assert "is not UTF-8 text" in stoker.refuse(2, "plan", str(tmp_path / "latin"))


def test_check_that_does_not_exist(stoker: Stoker, small: str) -> None:
    edit(small, {"contract.require": ["chat_anwser"]})
    assert "did you mean chat_answer?" in stoker.refuse(2, "apply", small)


def test_port_of_another_process(stoker: Stoker, small: str, port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        error = stoker.refuse(3, "apply", small)
    command = Path("/proc/self/comm").read_text().strip()
    assert f"port {port} is taken by {command}" in error
    assert f"(process {os.getpid()} of " in error
    assert "is free" in error


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("missing", "there is no model at"),
        ("truncated", "is incomplete"),
        ("magic", "is not readable (it neither begins as a GGUF"),
        ("empty", "llamacpp loads gguf"),
    ],
)
def test_weights_that_cannot_be_loaded(
    stoker: Stoker, tmp_path: Path, model_file: Path, port: int, *, name: str, phrase: str
) -> None:
    file = tmp_path / "model.gguf"
    with model_file.open("rb") as whole:
        head = whole.read(HEAD_BYTES)
    contents = {"truncated": head, "magic": b"GGML" + head[4:], "empty": b""}
    if name in contents:
        file.write_bytes(contents[name])
    error = stoker.refuse(3, "apply", write_small(tmp_path, {"model": f"path:{file}"}, port=port))
    assert phrase in error
    assert str(file) in error


def test_flag_that_does_not_exist(stoker: Stoker, small: str) -> None:
    """It blocks; whoever accepts that hears it from the engine, and nothing is left of it."""
    edit(small, {"engine.settings.ctx-sise": 1})
    error = stoker.refuse(3, "apply", small)
    assert "has no flag ctx-sise (did you mean ctx-size?) [engine.unknown-flag]" in error
    edit(small, {"accept": ["engine.unknown-flag"]})
    error = stoker.refuse(7, "apply", small)
    assert "invalid argument: --ctx-sise" in error
    assert "The host was rolled back" in error
    assert not stoker.daemons()
    assert NAME not in stoker.succeed("status").stdout


def test_words_that_make_no_sense(stoker: Stoker, small: str) -> None:
    for words in (["appply", small], ["up", "--port", "many"]):
        assert stoker.run(*words).exit_code == 2
    assert "--port is for the embedded example" in stoker.refuse(2, "up", small, "--port", "4000")
    assert "neither http:// nor https://" in stoker.refuse(2, "verify", "ftp://127.0.0.1:1")
    assert "cannot be reached" in stoker.refuse(2, "verify", "https://127.0.0.1:1")
    assert "cannot be reached" in stoker.refuse(2, "verify", "http://127.0.0.1:1")
    assert "there is no deployment" in stoker.refuse(2, "status", "nobody")
