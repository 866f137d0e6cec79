"""Every probe's parser against recorded texts: a case is a folder with two files.

``input.json`` is what ``read`` collected, ``expected.json`` either the ``value`` or a part of the
``error``. Adding a case is adding a folder.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.probes.observe import find_probes
from stoker.probes.process import PROCESS

RECORDED = Path(__file__).parent.parent / "recorded"
PROBES = {probe.id: probe for probe in (*find_probes(), PROCESS)}
CASES = sorted(path.parent for path in RECORDED.glob("*/*/input.json"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_recorded_case(case: Path) -> None:
    probe = PROBES[case.parent.name]
    raw = json.loads((case / "input.json").read_text(encoding="utf-8"))
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    if "error" in expected:
        with pytest.raises(ValueError, match=r".") as caught:
            probe.parse(raw)
        assert expected["error"] in str(caught.value)
    else:
        value = probe.parse(raw)
        assert json.loads(json.dumps(value)) == value, "facts are stored as JSON"
        assert value == expected["value"]


def test_every_probe_has_a_case_and_every_case_a_probe() -> None:
    assert {case.parent.name for case in CASES} == set(PROBES)


def test_no_case_is_half() -> None:
    folders = [folder for folder in RECORDED.glob("*/*") if folder.is_dir()]
    assert sorted(folders) == CASES
    for folder in folders:
        assert sorted(path.name for path in folder.iterdir()) == ["expected.json", "input.json"]


#: Texts that the kernel or another program wrote; the others are our own JSON.
FOREIGN = {
    case: sorted(
        name
        for name in json.loads((case / "input.json").read_text(encoding="utf-8"))
        if name not in ("owners", "exit_status")
    )
    for case in CASES
    if case.parent.name in ("cpu", "memory", "listeners", "service_manager", "engine", "process")
}


@settings(max_examples=300)
@given(st.data())
def test_damaged_text_is_a_value_or_a_value_error(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(sorted(FOREIGN)))
    raw = json.loads((case / "input.json").read_text(encoding="utf-8"))
    name = data.draw(st.sampled_from(FOREIGN[case]))
    place = data.draw(st.integers(0, len(raw[name])))
    raw[name] = raw[name][:place] + data.draw(st.sampled_from(["", "\0", "-", " : 1 2", "9" * 50]))
    with suppress(ValueError):
        PROBES[case.parent.name].parse(raw)
