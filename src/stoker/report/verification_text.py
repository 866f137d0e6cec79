"""A verification as a person reads it."""

from __future__ import annotations

from stoker.model.contract import CheckResult, Verdict, Verification

_MARKS = {
    Verdict.PASSED: "ok  ",
    Verdict.FAILED: "FAIL",
    Verdict.SKIPPED: "skip",
    Verdict.ERROR: "ERR ",
}


def render_verification(verification: Verification) -> str:
    """One line a promise, with expected and found."""
    lines = [f"{verification.name} at {verification.url}, level {verification.level}:"]
    for result in verification.results:
        lines += _result(result)
    passed = sum(result.verdict is Verdict.PASSED for result in verification.results)
    verdict = "verified" if verification.has_passed else "NOT verified"
    lines.append(f"{verdict}: {passed} of {len(verification.results)} promises kept")
    return "\n".join(lines) + "\n"


def _result(result: CheckResult) -> list[str]:
    return [
        f"  {_MARKS[result.verdict]} {result.check}: {result.title}",
        f"         expected {result.expected}",
        f"         found    {result.found}",
    ]
