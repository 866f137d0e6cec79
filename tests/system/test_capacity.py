"""What a real engine found is kept by its start, and the next prediction has it."""

from __future__ import annotations

import json
from typing import Any

from tests.system.runner import NAME, Stoker, edit

#: At this verbosity llama.cpp tells the buffers that it made.
TELLS = {"engine.settings.verbosity": 4}
MIB = 1 << 20


def workspace(capacity: dict[str, Any]) -> tuple[float, float, float]:
    """What a step needs, as it is predicted: at least, likely, at most, in bytes."""
    (size,) = [
        part["predicted_bytes"]
        for each in capacity["maps"]
        for part in each["parts"]
        if part["part"] == "workspace"
    ]
    return size["low"], size["likely"], size["high"]


def test_a_start_corrects_the_next_prediction(stoker: Stoker, small: str) -> None:
    edit(small, TELLS)
    before = stoker.succeed("capacity", small, "--json").document
    assert before["corrected_by"] is None
    least, _, most = workspace(before)
    planned = stoker.succeed("plan", small, "--json").document["served"]["forecast"]["capacity"]
    assert planned["kv_tokens"] == before["kv_tokens"]
    assert planned["corrected_by"] is None

    stoker.succeed("up", small)
    (kept,) = (stoker.state / "capacity-starts").iterdir()
    (start,) = json.loads(kept.read_text())["starts"]
    figures = start["figures"]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert start["deployment"] == NAME
    assert figures["told_tokens"] == before["kv_tokens"]["likely"] == 256
    # The engine rounds what it tells to two decimals of a MiB.
    assert abs(figures["predicted_pool_bytes"] - figures["resolved_pool_bytes"]) < 0.01 * MIB

    after = stoker.succeed("capacity", small, "--json").document
    assert after["corrected_by"]["deployment"] == NAME
    told = figures["parts"]["workspace"]
    low, likely, high = workspace(after)
    assert least <= told <= most
    assert likely == told
    assert high - low < (most - least) / 4
    text = stoker.succeed("plan", small).stdout
    assert f"corrected by the start of {NAME} (" in text
    assert "Nothing to do" in text

    # Of other batches what a step needs is another.
    edit(small, {"engine.settings.ubatch-size": 64})
    other = stoker.succeed("capacity", small, "--json").document
    assert "workspace" not in other["corrected_by"]["carried"]
    assert workspace(other)[1] != told


def test_a_document_that_somebody_edited_stops_nothing(stoker: Stoker, small: str) -> None:
    edit(small, TELLS)
    stoker.succeed("up", small)
    (kept,) = (stoker.state / "capacity-starts").iterdir()
    kept.write_text("{")
    planned = stoker.succeed("plan", small)
    assert "what earlier starts found is not used: " in planned.stdout
    assert "Nothing to do" in planned.stdout
    # Looking at the deployment that runs makes it anew.
    stoker.succeed("capacity", "--running", NAME)
    assert "corrected by the start of" in stoker.succeed("plan", small).stdout
