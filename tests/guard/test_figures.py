"""The figures of docs/guard.md are those of the code and of the engines' tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.guard.config import HEARTBEAT_SECONDS, Canary, Limits
from stoker.guard.values import Rules
from stoker.guard.vigil import (
    BATCH_TIMEOUTS,
    idle_pause_seconds,
    longest_doubt_seconds,
    mute_seconds,
)
from stoker.knowledge.engines import load_engine_table
from stoker.model.contract import Request
from tests.conftest import PROJECT
from tests.guard.simulation import CONFIG, SILENT, At, Scene, Simulation, Wire, well

TEXT = (PROJECT / "docs" / "guard.md").read_text("utf-8")
BREAKS_AT = 3600.0


def rules_of(kind: str) -> Rules:
    """What a guard goes by when an engine of this kind is ready."""
    liveness = load_engine_table(kind).liveness
    canary = Canary(
        interval_seconds=liveness.interval_seconds,
        timeout_seconds=liveness.timeout_seconds,
        metrics_path=liveness.metrics_path,
        counters=("fake:generation_tokens_total",),
    )
    limits = Limits(start_timeout_seconds=900, stall_seconds=300, stop_timeout_seconds=30)
    return Rules(limits=limits, canary=canary)


LLAMACPP = rules_of("llamacpp")


@pytest.mark.parametrize(
    ("row", "seconds"),
    [
        ("dead scheduler, live HTTP", idle_pause_seconds(LLAMACPP)),
        ("nothing answers, counters neither", mute_seconds(LLAMACPP)),
        ("at most:", longest_doubt_seconds(LLAMACPP)),
        ("the guard stands still", HEARTBEAT_SECONDS),
    ],
)
def test_a_row_tells_the_time(row: str, seconds: float) -> None:
    (line,) = (line for line in TEXT.splitlines() if line.startswith(f"| {row}"))
    assert f"{seconds:,.0f} s" in line


def test_the_longest_batch() -> None:
    batch = BATCH_TIMEOUTS * LLAMACPP.canary.timeout_seconds
    assert f"(llama.cpp: {batch:.0f} s)" in TEXT


@pytest.mark.parametrize("is_mute", [False, True], ids=["live HTTP", "mute"])
def test_it_takes_so_long(is_mute: bool) -> None:
    """A simulated engine that breaks right after a look is given up when the row says so."""

    def http(at: At, request: Request) -> Wire:
        is_broken = at > BREAKS_AT and (is_mute or request.method == "POST")
        return SILENT if is_broken else well(request)

    config = replace(CONFIG, canary=LLAMACPP.canary)
    story = Simulation(scene=Scene(http=http), config=config).run(until=BREAKS_AT + 3600)
    ((stops_at, _),) = story.told("STOPPING")
    assert story.state is not None
    told = mute_seconds(LLAMACPP) if is_mute else idle_pause_seconds(LLAMACPP)
    # Every request of the simulation takes up to a second longer.
    assert told <= stops_at - story.state.vigil.alive_at_seconds <= told + 15
    assert stops_at - BREAKS_AT <= longest_doubt_seconds(LLAMACPP)
