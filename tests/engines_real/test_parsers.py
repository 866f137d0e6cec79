"""The parsers of installed engines take every flag that Stoker writes, and no value it calls wrong.

Without STOKER_ENGINES, a folder with environments named KIND-BUILD, there is nothing to ask.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.evaluate.flags import Place, evaluate_place, find_places, render_scores

FOLDER = os.environ.get("STOKER_ENGINES", "")
PLACES = find_places(Path(FOLDER), Path(FOLDER) / "no-sources") if FOLDER else []


@pytest.mark.engine
@pytest.mark.skipif(not PLACES, reason="STOKER_ENGINES names no folder with engines")
@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.kind}-{place.build}")
def test_every_flag_makes_its_round(place: Place) -> None:
    score = evaluate_place(place)
    assert score.is_right, render_scores([score])
    assert score.names > 300
