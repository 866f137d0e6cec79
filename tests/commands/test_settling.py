"""What a second try mends stays known: whoever asked first had to wait."""

from __future__ import annotations

from dataclasses import replace

from stoker.commands.ready import _with_results
from stoker.model.contract import CheckResult, Verdict, Verification

FIRST = CheckResult(
    check="sampled_in_time",
    title="The first sampled answer comes promptly",
    verdict=Verdict.FAILED,
    expected="within 10 s",
    found="92.0 s, greedy 0.2 s; at the second try 0.4 s",
)
OTHER = replace(FIRST, check="chat_answer", verdict=Verdict.PASSED)


def test_the_first_failure_is_kept_as_a_note() -> None:
    tried = Verification(name="a", url="", level="quick", results=(OTHER, FIRST), notes=("one",))
    second = replace(FIRST, verdict=Verdict.PASSED, found="0.4 s, greedy 0.2 s")
    settled = _with_results(tried, [second])
    assert settled.results == (OTHER, second)
    assert settled.has_passed
    one, note = settled.notes
    assert one == "one"
    for part in ("sampled_in_time", "92.0 s", "within 10 s", "passed", "0.4 s, greedy"):
        assert part in note
