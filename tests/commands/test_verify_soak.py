"""The soak as a part of a verification, and what may settle at a start."""

from __future__ import annotations

import pytest

from stoker.commands.ready import find_unsettled
from stoker.commands.recording import Recorder
from stoker.commands.soaking import add_soak, keep_history, parse_duration
from stoker.commands.trial import FULL_SECONDS, Tried, bound_seconds
from stoker.commands.verify import Wish, verify_target
from stoker.contract.selection import discover_checks
from stoker.endpoints.http import HttpEndpoint
from stoker.errors import UsageError
from stoker.fake_engine.server import EngineServer
from stoker.model.contract import CheckResult, Subject, Verdict, Verification
from stoker.model.document import parse_document
from stoker.model.layout import soak_path
from tests.laws.worlds import FOLDERS, Machine

pytestmark = pytest.mark.timeout(60)


def result(check: str, verdict: Verdict) -> CheckResult:
    return CheckResult(check=check, title="", verdict=verdict, expected="", found="")


def tried(*results: CheckResult) -> Tried:
    found = Verification(name="law", url="http://h", level="soak", results=results)
    return Tried(verification=found, subject=Subject(published_name="smollm2"), recorder=Recorder())


# --- the soak ---


def test_a_soak_stands_behind_the_checks_with_its_history() -> None:
    machine = Machine()
    with EngineServer() as server:
        endpoint = HttpEndpoint(server.host, server.port)
        before = tried(result("chat_answer", Verdict.PASSED))
        after = add_soak(machine.world(), endpoint, before, seconds=10.0, parallel=2)
    assert [each.check for each in after.verification.results] == ["chat_answer", "soak"]
    assert after.verification.history
    assert not after.was_interrupted
    keep_history(machine.world(), after.verification)
    path = soak_path(FOLDERS, "law")
    stat = machine.host.stat(path)
    assert stat is not None
    assert stat.mode == 0o600
    kept = parse_document(machine.host.read_text(path, 1 << 24), Verification)
    assert kept.history == after.verification.history


def test_an_interrupted_trial_is_not_soaked() -> None:
    before = Tried(
        verification=tried().verification,
        subject=Subject(published_name="a"),
        recorder=Recorder(),
        was_interrupted=True,
    )
    endpoint = HttpEndpoint("127.0.0.1", 1)
    assert add_soak(Machine().world(), endpoint, before, seconds=10, parallel=1) is before


def test_a_time_without_a_soak_is_refused() -> None:
    with pytest.raises(UsageError, match="how long a soak takes"):
        verify_target(Machine().world(), Wish(seconds=10.0))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), ("1d", 86400)]
)
def test_times(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "0", "-1", "9d9", "1e9", "999999d", "10 m"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text)


def test_every_trial_has_a_bound() -> None:
    assert bound_seconds("quick", timeout_seconds=7.0) == 7.0
    assert bound_seconds("full", timeout_seconds=7.0) == FULL_SECONDS
    assert bound_seconds("full", timeout_seconds=9999.0) == 9999.0
    assert bound_seconds("soak", soak_seconds=1000.0) > FULL_SECONDS + 1000.0


# --- what settles ---

SETTLING = next(check.id for check in discover_checks() if check.is_settling)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ({SETTLING: Verdict.FAILED, "chat_answer": Verdict.PASSED}, (SETTLING,)),
        ({SETTLING: Verdict.FAILED, "chat_answer": Verdict.FAILED}, ()),
        ({SETTLING: Verdict.PASSED}, ()),
        ({"chat_answer": Verdict.FAILED}, ()),
    ],
)
def test_only_what_may_settle_is_tried_again(
    verdicts: dict[str, Verdict], expected: tuple[str, ...]
) -> None:
    found = tried(*(result(check, verdict) for check, verdict in verdicts.items()))
    assert find_unsettled(found.verification) == expected
