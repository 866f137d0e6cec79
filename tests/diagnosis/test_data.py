"""Every signature and cause loads, holds its examples, and names what is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import re2

from stoker.diagnosis.deciding import find_clues
from stoker.diagnosis.diagnose import find_events
from stoker.diagnosis.inputs import Inputs
from stoker.diagnosis.lines import read_lines
from stoker.diagnosis.matching import make_matcher
from stoker.knowledge.causes import CauseRow, RepairRow, load_causes
from stoker.knowledge.conditions import list_paths
from stoker.knowledge.datafiles import list_data
from stoker.knowledge.engines import engine_kinds, load_catalogue
from stoker.knowledge.rules import load_rules
from stoker.knowledge.signatures import Signature, SignatureExample, load_signatures
from stoker.knowledge.templates import list_placeholders
from stoker.knowledge.versions import parse_version_range
from stoker.model.facts import Plain

SIGNATURES = load_signatures()
CAUSES = load_causes()
EXAMPLES = [
    pytest.param(signature, example, id=f"{signature.id}-{number}")
    for signature in SIGNATURES
    for number, example in enumerate(signature.example)
]
REPAIRS = [
    pytest.param(cause, repair, id=f"{cause.kind}-{number}")
    for cause in CAUSES.values()
    for number, repair in enumerate(cause.repair)
]
_SETTINGS = "engine.settings."
_CATALOGUES = {
    kind: [load_catalogue(kind, build) for build in list_data(f"flags/{kind}", ".json")]
    for kind in engine_kinds()
}


def _make_tree(facts: Mapping[str, Plain]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in facts.items():
        place = tree
        *folders, leaf = path.split(".")
        for folder in folders:
            place = place.setdefault(folder, {})
        place[leaf] = value
    return tree


@pytest.mark.parametrize(("signature", "example"), EXAMPLES)
def test_example(signature: Signature, example: SignatureExample) -> None:
    if not signature.needles:
        pytest.skip("told by a failed check, not by a line")
    inputs = Inputs(
        engine=signature.engines[0] if signature.engines else "",
        lines=read_lines([example.text.encode()], "an example"),
        tree=_make_tree(example.facts),
    )
    events = find_events(inputs, make_matcher([signature]))
    assert bool(events) is example.fires
    if example.kind and events:
        assert find_clues(events, inputs)[0].row.kind == example.kind


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda each: each.id)
def test_signature(signature: Signature) -> None:
    assert {meaning.kind for meaning in signature.means} <= set(CAUSES)
    assert set(signature.engines) <= set(engine_kinds())
    if signature.releases:
        assert parse_version_range(signature.releases) is not None
    around = signature.around
    for pattern in (signature.pattern, *around.near, *around.not_near):
        re2.compile(pattern)


def test_every_cause_is_told_by_something() -> None:
    told = {meaning.kind for signature in SIGNATURES for meaning in signature.means}
    told |= {cause.kind for cause in CAUSES.values() if cause.rules}
    assert set(CAUSES) - told <= {"patch-crash", "patch-partial-initialisation"}


def test_rules_of_causes_exist() -> None:
    ids = {rule.id for rule in load_rules()}
    assert {name for cause in CAUSES.values() for name in cause.rules} <= ids


@pytest.mark.parametrize(("cause", "repair"), REPAIRS)
def test_repair(cause: CauseRow, repair: RepairRow) -> None:
    assert repair.text
    assert set(repair.engines) <= set(engine_kinds())
    keys = [*repair.changes, *repair.takes_out, *(step.key for step in repair.steps)]
    flags = [key.removeprefix(_SETTINGS) for key in keys if key.startswith(_SETTINGS)]
    kinds = repair.engines or engine_kinds()
    for flag in flags:
        catalogues = [each for kind in kinds for each in _CATALOGUES[kind]]
        has_it = any(each.find(each.spell(flag)) for each in catalogues)
        assert has_it, f"{cause.kind}: no release has {flag}"
    if repair.when is not None:
        assert list_paths(repair.when)
    assert all(list_placeholders(text) is not None for text in (repair.text, *repair.commands))
