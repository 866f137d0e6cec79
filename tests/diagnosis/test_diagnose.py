"""The whole diagnosis: order of lines and causes, neighbours, and whatever is read."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stoker.diagnosis.diagnose import diagnose, find_events
from stoker.diagnosis.inputs import Inputs, LogLine
from stoker.diagnosis.lines import read_lines, read_log
from stoker.diagnosis.matching import MOST_EVENTS, Matcher, make_matcher
from stoker.diagnosis.phases import follow_phases
from stoker.knowledge.causes import load_causes
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.knowledge.signatures import Around, Meaning, Signature, SignatureExample
from stoker.model.diagnosis import Gravity
from stoker.model.document import render_document
from stoker.model.finding import Source
from stoker.report.diagnosis_text import render_diagnosis
from tests.conftest import PROJECT

SOURCE = Source(kind="observed", where="a test")
NO_ROOM = PROJECT / "tests" / "recorded" / "engine_logs" / "sglang-0.5.17-h200-no-room.log"


def make(name: str, needle: str, around: Around | None = None, pattern: str = "") -> Signature:
    return Signature(
        id=name,
        means=(Meaning(kind="kv-pool-no-room"),),
        needles=(needle,),
        around=around or Around(),
        source=SOURCE,
        example=(SignatureExample(text=needle),),
        pattern=pattern,
    )


def found_in(matcher: Matcher, inputs: Inputs) -> list[tuple[str, int]]:
    return [(event.signature.id, event.line.number) for event in find_events(inputs, matcher)]


def test_what_the_kernel_says_in_a_journal_is_a_neighbour_of_the_lines_around_it() -> None:
    journal = b"""Nov 30 22:22:21 h sglang[7]: engine died here
Nov 30 22:22:22 h kernel: kernel killed it
Nov 30 22:22:23 h sglang[7]: engine ended here
"""
    log = read_log([journal], "journal")
    matcher = make_matcher(
        (
            make("near", "engine died", Around(near=("kernel killed",), within=1)),
            make("not-near", "engine ended", Around(not_near=("kernel killed",), within=1)),
            make("kernel", "kernel killed"),
        )
    )
    inputs = Inputs(lines=log.lines, kernel=log.kernel)
    assert found_in(matcher, inputs) == [("near", 1), ("kernel", 2)]


def test_lines_of_another_log_or_behind_a_gap_are_no_neighbours() -> None:
    matcher = make_matcher((make("near", "engine died", Around(near=("killed",), within=2)),))
    lines = (
        LogLine(number=1, text="killed", origin="a"),
        LogLine(number=9, text="engine died", origin="a"),
        LogLine(number=9, text="killed", origin="b"),
    )
    assert found_in(matcher, Inputs(lines=lines)) == []
    near = (lines[0], replace(lines[1], number=3))
    assert found_in(matcher, Inputs(lines=near)) == [("near", 3)]


def test_neighbours_are_found_as_line_by_line() -> None:
    """However blocks of lines fall, the answer is that of looking at each line alone."""
    lines = tuple(
        LogLine(number=at, text="mark^" if at % 97 == 0 else "engine died", origin="a")
        for at in range(1, 1000)
    )
    around = Around(near=(r"^mark\^$",), within=3)
    found = found_in(make_matcher((make("near", "engine died", around),)), Inputs(lines=lines))
    wanted = [
        line.number
        for line in lines
        if line.text == "engine died" and min(line.number % 97, -line.number % 97) <= 3
    ]
    assert [number for _, number in found if number > 3] == [each for each in wanted if each > 3]


def test_what_comes_without_end_is_looked_at_a_few_times() -> None:
    lines = tuple(LogLine(number=at, text="engine died") for at in range(1, 20_000))
    matcher = make_matcher((make("a", "engine died"), make("b", "engine died", pattern="never")))
    assert len(found_in(matcher, Inputs(lines=lines))) == MOST_EVENTS


def test_phases_are_those_of_each_row_alone() -> None:
    for kind in engine_kinds():
        rows = load_engine_table(kind).log.phases
        for row in rows:
            line = LogLine(number=1, text=row.example)
            (phase,) = follow_phases((line,), rows)
            assert phase or row.phase == "failed", row.pattern
    assert follow_phases((LogLine(number=1, text="x"),), ()) == ("",)


def test_the_same_failure_of_all_ranks_is_one_cause() -> None:
    text = NO_ROOM.read_text()
    last = next(line for line in text.splitlines() if line.startswith("ValueError"))
    many = "\n".join(f"[2026-11-30 22:22:2{rank} TP{rank}] {last}" for rank in range(8))
    found = diagnose(Inputs(engine="sglang", lines=read_lines([many.encode()], "log")))
    first = found.causes[0]
    assert first.kind == "kv-pool-no-room"
    assert (first.count, first.ranks) == (8, tuple(f"TP{rank}" for rank in range(8)))
    assert len(first.evidence) == 1


def test_a_line_that_two_signatures_know_is_told_once() -> None:
    matcher = make_matcher((make("a", "engine died"), make("b", "engine died of it")))
    found = diagnose(Inputs(lines=(LogLine(number=1, text="engine died of it"),)), matcher)
    assert found.causes[0].count == 1


def test_a_symptom_in_the_line_of_a_cause_is_not_told() -> None:
    cause = make("a", "engine died")
    symptom = replace(
        make("b", "engine died of it"), means=(Meaning(kind="oom-runtime"),), tells="symptom"
    )
    matcher = make_matcher((cause, symptom))
    lines = (LogLine(number=1, text="engine died of it"),)
    assert [each.kind for each in diagnose(Inputs(lines=lines), matcher).causes] == [
        "kv-pool-no-room"
    ]
    alone = diagnose(Inputs(lines=lines), make_matcher((symptom,)))
    assert [each.kind for each in alone.causes] == ["oom-runtime"]


def test_what_ended_an_earlier_start_is_told_as_over() -> None:
    lines = read_log([NO_ROOM.read_bytes()], "log").lines
    found = diagnose(Inputs(engine="sglang", history=lines))
    assert found.causes == ()
    assert [each.kind for each in found.earlier] == ["kv-pool-no-room"]
    again = diagnose(Inputs(engine="sglang", lines=lines, history=lines))
    assert [each.kind for each in again.causes] == ["kv-pool-no-room"]
    assert again.earlier == ()


def test_what_only_costs_something_hides_no_exception() -> None:
    warning = next(row.kind for row in load_causes().values() if row.gravity is Gravity.WARNING)
    matcher = make_matcher((replace(make("a", "engine is slow"), means=(Meaning(kind=warning),)),))
    text = 'engine is slow\nTraceback (most recent call last):\n  File "/x/a.py", line 1, in f\n'
    lines = read_lines([f"{text}OddError: never seen\n".encode()], "log")
    found = diagnose(Inputs(lines=lines), matcher)
    assert [each.kind for each in found.causes] == [warning]
    assert found.unexplained[-1].text == "OddError: never seen"
    assert "none of the causes" in found.unknown
    assert "\nFound: " in render_diagnosis(found)


def test_a_word_that_the_log_did_not_tell_is_left_to_a_person() -> None:
    signature = replace(make("a", "engine died"), means=(Meaning(kind="flag-value-invalid"),))
    lines = (LogLine(number=1, text="engine died"),)
    cause = diagnose(Inputs(lines=lines), make_matcher((signature,))).causes[0]
    assert "unknown" not in f"{cause.meaning} {cause.repairs[0].text}"
    assert cause.meaning == f"{cause.title}."


_WORDS = st.sampled_from(
    [*NO_ROOM.read_text().splitlines()[-30:], "", "Killed", "\x1b[0m", "é\x00"]
)


@given(st.lists(_WORDS, max_size=40), st.sampled_from(["", *engine_kinds()]))
def test_any_lines_have_an_answer(lines: list[str], engine: str) -> None:
    log = read_log(["\n".join(lines).encode()], "log")
    found = diagnose(Inputs(engine=engine, lines=log.lines, kernel=log.kernel))
    assert bool(found.causes) != bool(found.unknown)
    render_document(found)


@given(st.binary(max_size=2000))
def test_any_bytes_have_an_answer(content: bytes) -> None:
    log = read_log([content], "log")
    found = diagnose(Inputs(lines=log.lines, kernel=log.kernel, read=(log.read,)))
    assert bool(found.causes) != bool(found.unknown)
    render_document(found)
