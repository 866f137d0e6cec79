"""The guides of a public collection, all of them: read without an error, and with their commands.

They lie where STOKER_RECIPES says; without it these tests are skipped.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from stoker.model.note import Verdict
from stoker.recipes.notes.card import parse_requirements
from stoker.recipes.yaml import read_yaml
from tests.recipes.notes.notes import read_text

FOLDER = Path(os.environ.get("STOKER_RECIPES", "")) / "vllm" / "models"

pytestmark = pytest.mark.skipif(
    "STOKER_RECIPES" not in os.environ or not FOLDER.is_dir(), reason="STOKER_RECIPES names none"
)


def guides() -> dict[str, str]:
    found = {}
    for path in sorted(FOLDER.rglob("*.yaml")):
        data = read_yaml(path.read_text(encoding="utf-8"))
        if isinstance(data, dict) and isinstance(data.get("guide"), str):
            found[path.name] = data["guide"]
    return found


def test_every_guide_is_read() -> None:
    texts = guides()
    verdicts: Counter[Verdict] = Counter()
    commands = empty = 0
    for text in texts.values():
        note = read_text(text)
        commands += len(note.commands)
        empty += not note.commands
        if note.commands:
            chosen = read_text(text, number=len(note.commands))
            verdicts.update(each.verdict for each in chosen.settings)
    assert len(texts) > 150
    assert commands > 2 * len(texts)
    assert empty < len(texts) // 10
    assert verdicts[Verdict.TAKEN] > 10 * verdicts[Verdict.FOREIGN]


def test_every_guide_is_read_as_a_card() -> None:
    found = Counter(each.kind for text in guides().values() for each in parse_requirements(text))
    assert found["release"] > 50
    assert found["change"] > 10
