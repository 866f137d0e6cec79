"""Health paths that tell the truth, and first samples that come in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stoker.model.contract import Exchange, Request, Verdict
from tests.contract.hand_made import REFUSALS, Serve, answer, broken, raw, reply, subject_of
from tests.contract.hand_made import try_check as lead

HEALTH, SAMPLED = "health_tells_truth", "sampled_in_time"


def server(*statuses: int, chat: Serve = answer) -> Serve:
    """Health paths that answer these statuses in turn, the last one for ever; 0 hangs."""
    left = list(statuses)

    def serve(request: Request) -> Exchange:
        if request.method == "POST":
            return chat(request)
        status = left.pop(0) if len(left) > 1 else left[0]
        return raw(request, "", status) if status else broken(request, "timeout")

    return serve


def failing(request: Request) -> Exchange:
    return reply(request, REFUSALS[0], 500)


def hanging(request: Request) -> Exchange:
    return broken(request, "timeout")


@pytest.mark.parametrize(
    ("statuses", "chat", "verdict", "symptom"),
    [
        ([200], answer, Verdict.PASSED, ""),
        ([204], answer, Verdict.PASSED, ""),
        ([503, 200], answer, Verdict.PASSED, ""),
        ([404], answer, Verdict.SKIPPED, ""),
        ([401], answer, Verdict.SKIPPED, ""),
        ([503], answer, Verdict.FAILED, "health_denies"),
        ([500], answer, Verdict.FAILED, "health_denies"),
        ([0], answer, Verdict.FAILED, "health_denies"),
        ([200], failing, Verdict.FAILED, "health_lies"),
        ([200], hanging, Verdict.FAILED, "health_lies"),
        ([200], broken, Verdict.FAILED, "health_lies"),
        ([200], lambda each: raw(each, "<html>", 200, "text/html"), Verdict.FAILED, "health_lies"),
        ([503], failing, Verdict.PASSED, ""),
        ([200], lambda each: reply(each, REFUSALS[0], 401), Verdict.SKIPPED, ""),
        ([200], lambda each: reply(each, REFUSALS[0], 404), Verdict.SKIPPED, ""),
    ],
)
def test_health(statuses: Sequence[int], chat: Serve, verdict: Verdict, symptom: str) -> None:
    judgement = lead(HEALTH, server(*statuses, chat=chat))
    assert (judgement.verdict, judgement.symptom) == (verdict, symptom), judgement


def test_one_of_several_paths_may_be_missing_but_none_may_lie() -> None:
    subject = subject_of("sglang")
    assert lead(HEALTH, server(200, 404), subject).verdict is Verdict.PASSED
    assert lead(HEALTH, server(404, 503, 503), subject).symptom == "health_denies"


def timed(greedy: Exchange | float, *sampled: Exchange | float) -> Serve:
    """Answers that take so long, the sampled ones in turn."""
    left = list(sampled)

    def serve(request: Request) -> Exchange:
        is_greedy = (request.body or {}).get("temperature") == 0
        found = greedy if is_greedy else left.pop(0)
        return found if isinstance(found, Exchange) else replace(answer(request), seconds=found)

    return serve


NOTHING = Request(method="POST", path="/")


@pytest.mark.parametrize(
    ("greedy", "sampled", "symptom"),
    [
        (0.1, [0.1], ""),
        (0.2, [4.9], ""),
        (0.2, [9.9, 5.5], ""),
        (0.2, [9.9, 0.3], "slow_first_sample"),
        (9.3, [92.0, 0.4], "slow_first_sample"),
        (9.3, [27.0], ""),
        (0.2, [9.9, broken(NOTHING, "timeout")], ""),
        (0.1, [92.0, 0.1], "slow_first_sample"),
        (0.1, [11.0, 11.0], "slow_first_sample"),
        (5.0, [45.0, 40.0], ""),
        (5.0, [51.0, 5.0], "slow_first_sample"),
        (0.1, [broken(NOTHING, "timeout"), 0.2], "slow_first_sample"),
        (0.1, [broken(NOTHING, "timeout"), broken(NOTHING, "timeout")], "slow_first_sample"),
        (broken(NOTHING, "timeout"), [], "timeout"),
        (0.1, [reply(NOTHING, REFUSALS[0], 500)] * 2, "http_status"),
        (0.1, [answer(NOTHING, text=""), 0.1], ""),
        (0.1, [answer(NOTHING, text="!!!!!!!!")] * 2, None),
    ],
)
def test_the_first_sample(
    greedy: Exchange | float, sampled: Sequence[Exchange | float], symptom: str | None
) -> None:
    judgement = lead(SAMPLED, timed(greedy, *sampled))
    if symptom is None:
        assert judgement.verdict is Verdict.FAILED
        return
    verdict = Verdict.FAILED if symptom else Verdict.PASSED
    assert (judgement.verdict, judgement.symptom) == (verdict, symptom), judgement


def test_both_figures_of_a_slow_sample_are_told() -> None:
    judgement = lead(SAMPLED, timed(0.25, 92.0, 0.3))
    assert judgement.details == {
        "greedy_seconds": 0.25,
        "sampled_seconds": 92.0,
        "second_seconds": 0.3,
    }
    assert "at the second try 0.3 s" in judgement.found


def test_a_stranger_is_asked_for_nothing_that_the_interface_lacks() -> None:
    seen: list[Request] = []

    def serve(request: Request) -> Exchange:
        seen.append(request)
        return answer(request)

    lead(SAMPLED, serve)
    assert all("top_k" not in (request.body or {}) for request in seen)
