"""`stoker dev fake-engine`: what it prints, how it ends, what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from stoker.commands.fake_engine import FakeOrders, choose_faults, make_script, running
from stoker.errors import DataError, UsageError


def test_it_says_where_it_is_and_ends_well() -> None:
    command = [sys.executable, "-m", "stoker", "dev", "fake-engine", "--model", "m"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert process.stdout.readline() == "ready\n"
        with urllib.request.urlopen(f"{url}/v1/models", timeout=30) as reply:
            assert json.load(reply)["data"][0]["id"] == "m"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def test_orders_become_a_script(tmp_path: Path) -> None:
    key, table = tmp_path / "key", tmp_path / "more.toml"
    key.write_text("sk-a\n")
    table.write_text("[[rules]]\npattern = 'who'\nreply = 'me'\n")
    orders = FakeOrders(
        manners="vllm",
        model="m",
        key_path=str(key),
        script_path=str(table),
        tokens_per_second=20,
        with_features=("vision",),
    )
    script = make_script(orders)
    assert (script.names, script.manners, script.api_key) == (("m",), "vllm", "sk-a")
    assert script.timing.seconds_per_token == 0.05
    assert script.has("vision")
    assert script.wits.rules[0].replies == ("me",)


@pytest.mark.parametrize(
    ("orders", "words"),
    [
        (FakeOrders(manners="vlm"), "did you mean vllm"),
        (FakeOrders(with_features=("eyes",)), "no feature eyes"),
        (FakeOrders(tokens_per_second=-1), "less than nothing"),
        (FakeOrders(context_tokens=0), "holds nothing"),
        (FakeOrders(port=70000), "not a port"),
        (FakeOrders(key_path="/nowhere/key"), "cannot be read"),
    ],
)
def test_what_there_is_not_is_refused(orders: FakeOrders, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_script(orders)
    assert words in f"{caught.value.summary} {caught.value.hint}"


def test_a_fault_that_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        choose_faults(["no_don"])
    assert "did you mean no_done" in caught.value.hint


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "more.toml"
    table.write_text("[[rules]]\nreply = 'no pattern'\n")
    with pytest.raises(DataError):
        make_script(FakeOrders(script_path=str(table)))


def test_a_port_that_is_taken_is_refused() -> None:
    with running(FakeOrders()) as server, pytest.raises(UsageError, match="cannot be had"):
        running(FakeOrders(port=server.port)).__enter__()
