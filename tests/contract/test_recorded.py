"""What real engines really said is judged again by the checks of today."""

from __future__ import annotations

import pytest

from stoker.contract.judgement import Judgement
from stoker.contract.run import discover_checks
from tests.contract.recorded_cases import Case, load_cases

CASES = load_cases()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_recorded_exchange_is_judged_as_it_was(case: Case) -> None:
    (check,) = (check for check in discover_checks() if check.id == case.check)
    judgement = check.judge(case.published_name, case.exchanges)
    assert isinstance(judgement, Judgement)
    assert judgement.verdict == case.verdict, judgement.found


def test_every_check_has_been_kept_by_a_real_engine() -> None:
    kept = {case.check for case in CASES.values() if case.verdict == "passed"}
    assert kept == {check.id for check in discover_checks()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_requests_are_still_those_that_were_recorded(case: Case) -> None:
    (check,) = (check for check in discover_checks() if check.id == case.check)
    recorded = [exchange.request for exchange in case.exchanges]
    assert list(check.requests(case.published_name)) == recorded
