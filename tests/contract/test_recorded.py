"""Every check gives real engines' exchanges the verdict that it gave when they were recorded."""

from __future__ import annotations

import pytest

from stoker.contract.run import judge_check
from stoker.contract.selection import discover_checks
from stoker.model.contract import RecordedCheck, Subject
from tests.contract.recorded_cases import load_cases

CHECKS = {check.id: check for check in discover_checks()}
CASES = {
    f"{name}-{recorded.check}": (case.subject, recorded)
    for name, case in load_cases().items()
    for recorded in case.checks
}


@pytest.mark.parametrize(("subject", "recorded"), CASES.values(), ids=CASES)
def test_a_recorded_exchange_has_its_verdict(subject: Subject, recorded: RecordedCheck) -> None:
    judgement = judge_check(CHECKS[recorded.check], subject, recorded.exchanges)
    assert judgement.verdict == recorded.verdict, judgement.found
    assert judgement.symptom == recorded.symptom or not recorded.symptom


@pytest.mark.parametrize(("subject", "recorded"), CASES.values(), ids=CASES)
def test_the_plan_asks_today_what_was_recorded(subject: Subject, recorded: RecordedCheck) -> None:
    """A plan that has changed since makes its recordings worth nothing: record them again."""
    check, done = CHECKS[recorded.check], 0
    while batch := check.plan(subject, recorded.exchanges[:done]):
        asked = [exchange.request for exchange in recorded.exchanges[done : done + len(batch)]]
        assert asked == list(batch)
        done += len(batch)
    assert done == len(recorded.exchanges)
