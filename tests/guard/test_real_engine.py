"""A guard around a real engine with a real model, where both are on this machine already."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.guard.values import ExitCode
from tests.guard.running import Guarded, free_port, is_alive, wait_for, write_config
from tests.guard.test_processes import memory_kib

pytestmark = pytest.mark.engine

PHASES = [
    {"pattern": "load_tensors: loading", "phase": "loading-weights", "title": "loading"},
    {"pattern": "KV buffer size =", "phase": "allocating", "title": "making room"},
    {"pattern": "warming up the model", "phase": "warming-up", "title": "warming up"},
]


def find(pattern: str) -> Path:
    """The first match below the data folder; skips without one."""
    data = Path(os.environ["STOKER_DATA"])
    found = sorted(data.glob(pattern))
    if not found:
        pytest.skip(f"there is no {pattern} below STOKER_DATA ({data})")
    return found[0]


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guarded]:
    """A guard that has just started the engine."""
    port = free_port()
    model = find("models/**/*.gguf")
    argv = [str(find("environments/llamacpp-*/bin/llama-server")), "--model", str(model)]
    argv += ["--host", "127.0.0.1", "--port", str(port), "--alias", "smollm2"]
    argv += ["--ctx-size", "512", "--parallel", "1", "--threads", "1", "--metrics"]
    canary = {"metrics_path": "/metrics", "counters": ["llamacpp:tokens_predicted_total"]}
    changes = {"canary": canary, "phases": PHASES, "weights": {"paths": [str(model)]}}
    with Guarded(write_config(tmp_path, argv, port, **changes)) as running:
        yield running


def test_it_becomes_ready_and_stays_so_and_stops(guard: Guarded) -> None:
    guard.wait_told("READY=1")
    guard.wait_told("WATCHDOG=1", times=2)
    assert guard.status()["text"] == "ready"
    assert memory_kib(guard.process.pid) < 50 << 10
    engine = guard.engine()
    assert guard.terminate() == ExitCode.DONE
    assert not is_alive(engine)
    assert b"srv" in guard.output()


def test_a_kill_of_the_guard_leaves_no_engine(guard: Guarded) -> None:
    guard.wait_told("READY=1")
    engine = guard.engine()
    guard.process.kill()
    wait_for(lambda: not is_alive(engine))
