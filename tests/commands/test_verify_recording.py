"""A recorded trial: what stands in it, and that it is judged again the same way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.commands.recording import (
    REDACTED,
    Recorder,
    check_target,
    judge_recording,
    read_recording,
    redact,
    redact_text,
    write_recording,
)
from stoker.commands.trial import redact_results
from stoker.commands.verify import Wish, replay, verify_target
from stoker.errors import UsageError
from stoker.fake_engine.server import EngineServer
from stoker.model.contract import Exchange, RecordedCheck, Recording, Request, Verdict, Verification
from stoker.model.document import parse_document, render_document
from tests.laws.worlds import Machine

PATH = "/root/recording.json"
SECRET = "s3cr3t-value-0123456789"
SECRET_NOTE = f"found Bearer {SECRET}"
ONLY = ("chat_answer", "key_required", "stream_ends_done")


def record(machine: Machine, fault: str | None = None) -> Recording:
    with EngineServer(fault=fault) as server:
        url = f"http://127.0.0.1:{server.port}"
        verify_target(machine.world(), Wish(target=url, only=ONLY, record=PATH))
    return read_recording(machine.host, PATH)


@pytest.mark.parametrize("fault", [None, "no_done", "one_character"])
def test_it_is_judged_again_the_same_way(fault: str | None) -> None:
    machine = Machine()
    with EngineServer(fault=fault) as server:
        wish = Wish(target=f"http://127.0.0.1:{server.port}", only=ONLY, record=PATH)
        first = verify_target(machine.world(), wish).verification
    again = replay(machine.world(), PATH, only=("chat_answer", "stream_ends_done")).verification
    kept = [result for result in first.results if result.check != "key_required"]
    assert [replace(each, seconds=0) for each in again.results] == [
        replace(each, seconds=0) for each in kept
    ]
    assert (again.name, again.url, again.level) == (first.name, first.url, first.level)


def test_a_promise_that_was_none_is_skipped_again() -> None:
    again = judge_recording(record(Machine()))
    skipped = {each.check: each.found for each in again.results if each.verdict is Verdict.SKIPPED}
    assert "no key was given" in skipped["key_required"]


def test_only_its_owner_may_read_it() -> None:
    machine = Machine()
    record(machine)
    stat = machine.host.stat(PATH)
    assert stat is not None
    assert stat.mode == 0o600


def test_a_recording_is_replaced_and_that_is_told() -> None:
    machine = Machine()
    record(machine)
    with EngineServer() as server:
        wish = Wish(target=f"http://127.0.0.1:{server.port}", only=ONLY, record=PATH)
        notes = verify_target(machine.world(), wish).verification.notes
    assert any("replaced" in note for note in notes)


@pytest.mark.parametrize("content", ["mine", "{}", '{"schema": "facts/1"}'])
def test_another_file_is_not(content: str) -> None:
    machine = Machine()
    machine.host.put(PATH, content)
    with pytest.raises(UsageError, match="no recording"):
        check_target(machine.host, PATH)


@pytest.mark.parametrize("content", ["", "text", "{}", '{"schema": "contract-recording/9"}'])
def test_what_is_no_recording(content: str) -> None:
    machine = Machine()
    machine.host.put(PATH, content)
    with pytest.raises(UsageError):
        replay(machine.world(), PATH)


def test_a_check_that_was_not_recorded() -> None:
    with pytest.raises(UsageError, match="holds no check usage_adds_up"):
        judge_recording(record(Machine()), only=["usage_adds_up"])


def test_a_check_that_nobody_knows_any_more_is_told() -> None:
    recording = record(Machine())
    stranger = replace(recording.checks[0], check="gone")
    again = judge_recording(replace(recording, checks=(*recording.checks, stranger)))
    assert any("gone" in note for note in again.notes)


def test_a_check_that_asks_other_questions_today_is_not_judged() -> None:
    recording = record(Machine())
    first = recording.checks[0]
    other = replace(first.exchanges[0], request=Request(method="GET", path="/other"))
    changed = replace(first, exchanges=(other, *first.exchanges[1:]))
    again = judge_recording(replace(recording, checks=(changed, *recording.checks[1:])))
    result = next(each for each in again.results if each.check == first.check)
    assert result.verdict is Verdict.SKIPPED
    assert "other questions" in result.found


def test_a_check_that_was_cut_has_not_passed() -> None:
    recording = record(Machine())
    first = recording.checks[0]
    for kept in (first.exchanges[:-1], ()):
        cut = replace(recording, checks=(replace(first, exchanges=kept), *recording.checks[1:]))
        again = judge_recording(cut)
        result = next(each for each in again.results if each.check == first.check)
        assert (result.verdict, result.symptom) == (Verdict.ERROR, "recording_cut")
        assert not again.has_passed


def test_a_whole_trial_is_judged_again_check_by_check() -> None:
    machine = Machine()
    with EngineServer() as server:
        wish = Wish(target=f"http://127.0.0.1:{server.port}", record=PATH)
        first = verify_target(machine.world(), wish).verification
    again = judge_recording(read_recording(machine.host, PATH))
    assert [(each.check, each.verdict) for each in again.results] == [
        (each.check, each.verdict) for each in first.results
    ]


def test_a_check_that_was_not_reached_is_skipped_again() -> None:
    recording = record(Machine())
    first = replace(recording.checks[0], exchanges=(), verdict=Verdict.SKIPPED)
    again = judge_recording(replace(recording, checks=(first, *recording.checks[1:])))
    result = next(each for each in again.results if each.check == first.check)
    assert (result.verdict, result.found) == (Verdict.SKIPPED, "it was not reached")


def test_results_show_no_secret() -> None:
    machine = Machine()
    result = replace(
        judge_recording(record(machine)).results[0],
        expected=f"Bearer {SECRET}",
        found=f"Bearer {SECRET}",
        details={"message": [f"Bearer {SECRET}"]},
    )
    verification = Verification(
        name="a", url="http://127.0.0.1:9", level="quick", results=(result,), notes=(SECRET_NOTE,)
    )
    assert SECRET not in repr(redact_results(verification))


def test_what_would_be_too_large_is_left_out_and_named() -> None:
    recorder = Recorder(limit_bytes=100)
    request = Request(method="GET", path="/")
    for name, size in (("small", 50), ("large", 500)):
        exchange = Exchange(request=request, body="a" * size)
        recorder.keep(RecordedCheck(check=name, verdict=Verdict.PASSED, exchanges=(exchange,)))
    assert [each.check for each in recorder.checks] == ["small"]
    assert recorder.left_out == ["large"]


# --- secrets ---


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f'{{"api_key": "{SECRET}"}}',
        f'{{"admin_api_key":"{SECRET}"}}',
        f'"{{\\"api_key\\": \\"{SECRET}\\"}}"',
        f"your key sk-{SECRET} is wrong",
        f"hf_{SECRET.replace('-', 'x')}",
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text: str) -> None:
    assert SECRET not in redact_text(text)
    assert SECRET.replace("-", "x") not in redact_text(text)
    assert REDACTED in redact_text(text)


@pytest.mark.parametrize(
    "text", ["the bearer of news", '{"max_tokens": 32, "key": "C major"}', "sk-short", "task-force"]
)
def test_what_does_not_stays(text: str) -> None:
    assert redact_text(text) in (text, text.replace("of", REDACTED))


def test_requests_and_events_are_searched_too() -> None:
    exchange = Exchange(
        request=Request(
            method="POST", path="/", body={"a": [f"Bearer {SECRET}"]}, text=f"Bearer {SECRET}"
        ),
        events=(f"Bearer {SECRET}",),
        error=f"Bearer {SECRET}",
    )
    assert SECRET not in repr(redact(exchange))


def test_a_recording_reads_back_as_itself() -> None:
    machine = Machine()
    recording = record(machine)
    assert parse_document(render_document(recording), Recording) == recording
    write_recording(machine.host, "/root/copy.json", recording)
    assert machine.host.read_text("/root/copy.json", 1 << 24) == render_document(recording)
