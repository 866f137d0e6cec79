"""What would mend the broken promises of a verification.

Called after every trial, for a deployment and for a foreign server alike. Pure.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.knowledge.contract_remedies import find_remedies
from stoker.model.contract import CheckResult, Subject, Verdict, Verification

_BROKEN = (Verdict.FAILED, Verdict.ERROR)


def with_remedies(verification: Verification, subject: Subject) -> Verification:
    """The same with what would keep each promise that was broken."""
    results = (_with_remedies(result, subject) for result in verification.results)
    return replace(verification, results=tuple(results))


def _with_remedies(result: CheckResult, subject: Subject) -> CheckResult:
    if result.verdict not in _BROKEN or result.remedies:
        return result
    remedies = find_remedies(
        result, engine=subject.manners.engine, published_name=subject.published_name
    )
    return replace(result, remedies=remedies)
