"""How servers are recognised by their command lines."""

from __future__ import annotations

import pytest

from stoker.knowledge.engines import engine_kinds
from stoker.knowledge.servers import (
    find_grammar,
    is_keeper,
    load_servers,
    recognise_server,
    take_apart,
)


@pytest.mark.parametrize(
    ("argv", "kind", "flags"),
    [
        ("llama-server -m x", "llamacpp", "-m x"),
        ("/a/b/llama-server", "llamacpp", ""),
        ("/e/bin/python /e/bin/llama-server -m x", "llamacpp", "-m x"),
        ("/e/bin/python3.12 /e/bin/llama-server.py -m x", "llamacpp", "-m x"),
        ("python3 -m sglang.launch_server --port 1", "sglang", "--port 1"),
        ("python3 -u -W ignore -Xdev -msglang.launch_server -m x", "sglang", "-m x"),
        ("python -um sglang.launch_server", "sglang", ""),
        ("python -IX dev --check-hash-based-pycs never -m sglang.launch_server", "sglang", ""),
        ("/v/bin/python /v/bin/sglang serve --port 1", "sglang", "--port 1"),
        ("/v/bin/vllm serve a/b --port 1", "vllm", "a/b --port 1"),
        ("pypy3 -m vllm.entrypoints.openai.api_server", "vllm", ""),
        ("python -m vllm.entrypoints.cli.main serve x", "vllm", "x"),
    ],
)
def test_servers(argv: str, kind: str, flags: str) -> None:
    found = recognise_server(argv.split())
    assert found is not None
    assert (found.kind, found.flags) == (kind, tuple(flags.split()))


@pytest.mark.parametrize(
    "argv",
    [
        "",
        "llama-cli -m x",
        "llama-server.py",  # no interpreter runs it
        "xllama-server",
        "bash llama-server",
        "vllm bench serve",
        "vllm",
        "python -c llama-server",
        "python -c x /e/bin/llama-server",
        "python - llama-server",
        "python -m",
        "python -m sglang.bench_serving",
        "python tool.py llama-server",
        "sglang::scheduler_TP0",
    ],
)
def test_what_is_none(argv: str) -> None:
    assert recognise_server(argv.split()) is None


def test_odd_words_are_taken_apart() -> None:
    assert take_apart(["python", "-X"]).program == ""
    assert take_apart(["python", "-m", ""]).module == ""
    assert take_apart([""]).program == ""
    assert take_apart(["python", "-W", "x", "a", "-m", "b"]).words == ("-m", "b")


def test_a_guard_keeps_its_child() -> None:
    assert is_keeper(["/g/python", "-I", "-m", "stoker.guard", "x.json"])
    assert not is_keeper(["/g/python", "/g/stoker.guard"])
    assert not is_keeper(["llama-server"])


def test_every_engine_with_a_table_can_be_recognised() -> None:
    assert set(engine_kinds()) <= {form.kind for form in load_servers().form}
    assert set(load_servers().grammar) <= {form.kind for form in load_servers().form}


def test_an_engine_that_nobody_described_reads_as_python_does() -> None:
    assert find_grammar("new").words == "argparse"
