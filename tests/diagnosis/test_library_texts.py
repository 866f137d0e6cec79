"""What libraries say under an engine, as people paste it: the right cause first, with a repair."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.diagnosis.diagnose import diagnose
from stoker.diagnosis.inputs import Inputs
from stoker.diagnosis.lines import read_lines
from stoker.model.diagnosis import Diagnosis, Gravity

#: ``texts``: cause, engine (empty: not known) and what was pasted; ``harmless``: lines of starts
#: that are well.
PASTED = json.loads((Path(__file__).parent / "library_texts.json").read_text(encoding="utf-8"))


def _read(text: str, engine: str) -> Diagnosis:
    return diagnose(Inputs(engine=engine, lines=read_lines([text.encode()], "log")))


@pytest.mark.parametrize("case", PASTED["texts"], ids=lambda case: case["kind"])
def test_first_cause(case: dict[str, str]) -> None:
    found = _read(case["text"], case["engine"])
    first = (*found.causes, *found.consequences)[0]
    assert first.kind == case["kind"]
    assert first.repairs
    assert "unknown" not in first.meaning


@pytest.mark.parametrize("text", PASTED["harmless"])
def test_healthy_line(text: str) -> None:
    found = _read(text, "")
    told = [cause.kind for cause in found.causes if cause.gravity is Gravity.ERROR]
    assert told == []
