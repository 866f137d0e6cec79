"""What docs/contract.md says of the checks is what they are."""

from __future__ import annotations

from tests.report.contract_page import BEGIN, END, PAGE, replace_checks


def test_the_page_lists_todays_checks() -> None:
    page = PAGE.read_text("utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    assert page == replace_checks(page), "run: python -m tests.report.contract_page"
