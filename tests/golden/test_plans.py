"""Golden plans: what Stoker chooses and finds for pairs of a model and a machine.

Each folder of `pairs` has a deployment file, the names of its facts, and the plan that it must
become. After a change of knowledge look at what changed in them: `GOLDEN=write` writes them anew.
"""

from __future__ import annotations

import json
import os

import pytest

from tests.golden.plans import PAIRS, list_pairs, make_plan, summarise


@pytest.mark.parametrize("name", list_pairs())
def test_the_plan_is_as_it_was(name: str) -> None:
    path = PAIRS / name / "expected.json"
    made = json.dumps(summarise(make_plan(name)), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(made)
    assert made == path.read_text()


def test_there_are_enough() -> None:
    assert len(list_pairs()) >= 16
