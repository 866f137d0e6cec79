"""`stoker resolved`: the log of a file and of a deployment, and what a person sees of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.commands.resolved import read_deployment, read_log
from stoker.errors import UsageError
from stoker.model.document import parse_document, render_document
from stoker.model.resolved import Resolved
from stoker.report.resolved_text import render_resolved
from tests.commands.boxes import Box
from tests.conftest import PROJECT
from tests.laws.worlds import NAME, Machine, apply_variant, stop

RECORDED = PROJECT / "tests" / "recorded" / "engine_logs"
PATH = "/var/log/engine.log"


@pytest.fixture
def box() -> Box:
    return Box()


def put(box: Box, *names: str, padding: int = 0) -> None:
    """A log with these starts one after the other, and so many bytes of requests behind them."""
    text = "".join((RECORDED / f"{name}.log").read_text() for name in names)
    box.host.put(PATH, text + "INFO: a request was answered\n" * (padding // 29))


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.log")), ids=lambda path: path.stem)
def test_the_engine_is_told_by_its_lines(box: Box, path: Path) -> None:
    name = path.stem
    put(box, name)
    resolved = read_log(box.world(), PATH, None)
    assert name.startswith(resolved.engine)
    assert resolved == read_log(box.world(), PATH, resolved.engine)
    assert parse_document(render_document(resolved), Resolved) == resolved


def test_the_last_start_is_found_behind_many_requests(box: Box) -> None:
    put(box, "sglang-0.5.17-h200-draft", "sglang-0.5.23-processor", padding=9 << 20)
    resolved = read_log(box.world(), PATH, "sglang")
    assert resolved.values["kv_tokens"].value == 16384
    assert "draft_weight_bytes" not in resolved.values


def test_what_is_no_log(box: Box) -> None:
    with pytest.raises(UsageError, match="there is no file /nowhere"):
        read_log(box.world(), "/nowhere", None)
    box.host.put(PATH, "hello\n")
    with pytest.raises(UsageError, match="no engine that Stoker knows wrote"):
        read_log(box.world(), PATH, None)
    with pytest.raises(UsageError, match="there is no engine named nope"):
        read_log(box.world(), PATH, "nope")


def test_what_a_person_sees(box: Box) -> None:
    put(box, "sglang-0.5.17-two-h200-host-cache")
    text = render_resolved(read_log(box.world(), PATH, None))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "sglang: listening"
    assert "tokens in the KV cache 555,451 log" in lines
    assert "memory of the KV cache 33.9 GiB log" in lines
    assert "time to load the weights 0.17 s log: TP0 0.14 s, TP1 0.17 s" in lines
    assert "note: the host's cache is smaller than the GPU's, so it is hardly of use" in lines


def test_nothing_of_a_log_reaches_a_terminal_as_it_is(box: Box) -> None:
    box.host.put(PATH, "server_args={'attention_backend': '\x1b[31mred'}\n")
    assert "\x1b" not in render_resolved(read_log(box.world(), PATH, "sglang"))


@pytest.mark.parametrize("is_running", [True, False])
def test_a_deployment_says_whether_it_still_runs(is_running: bool) -> None:
    box = Machine()
    apply_variant("a")(box.world())
    log = (RECORDED / "llamacpp-b11549-verbose.log").read_text()
    box.host.put(box.supervisor.log_path(NAME), log)
    if not is_running:
        stop(box.world())
    resolved = read_deployment(box.world(), NAME)
    assert (resolved.deployment, resolved.is_running) == (NAME, is_running)
    head = render_resolved(resolved).splitlines()[0]
    stopped = " does not run; this is what its last start told, which came to: listening"
    assert head == f"{NAME} (llamacpp)" + (": listening" if is_running else stopped)
