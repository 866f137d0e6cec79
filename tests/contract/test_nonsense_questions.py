"""The simple questions: what counts as right, and that nothing in a prompt answers another."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.contract.documents import Place, write_document
from stoker.contract.filler import make_seed, write_filler
from stoker.contract.questions import (
    QUESTIONS,
    Fact,
    Sort,
    find_first,
    holds_word,
    make_facts,
)

FACT = Fact(name="Alice", word="WALRUS")


def question_of(text: str) -> object:
    return next(each for each in QUESTIONS if text in each.text)


@pytest.mark.parametrize(
    ("text", "answer", "is_right"),
    [
        ("2 + 3", "5", True),
        ("2 + 3", "2 + 3 = 5.", True),
        ("2 + 3", "The answer is **Five**!", True),
        ("2 + 3", "15", False),
        ("2 + 3", "5.5", False),
        ("2 + 3", "50", False),
        ("2 + 3", "", False),
        ("opposite of hot", "The opposite of hot is cold.", True),
        ("opposite of hot", "Hot", False),
        ("lantern", "Lantern.", True),
        ("lantern", "lanterns", False),
        ("Alice", 'The code word of Alice is "WALRUS".', True),
        ("Alice", "walrus", True),
        ("snow black", "No, snow is white.", True),
        ("snow black", "Yes. No.", False),
        ("snow black", "It is white.", False),
        ("10 + 10", "twenty", True),
    ],
)
def test_what_counts_as_right(text: str, answer: str, is_right: bool) -> None:
    assert question_of(text).is_right(answer) is is_right  # type: ignore[attr-defined]


def test_there_are_two_dozen_of_several_sorts() -> None:
    assert len(QUESTIONS) == 24
    assert len({each.text for each in QUESTIONS}) == 24
    assert {each.sort for each in QUESTIONS} == set(Sort)
    assert len({each.sort for each in QUESTIONS[:8]}) >= 5


def test_no_mark_stands_in_another_question() -> None:
    facts = make_facts(3, 40)
    marks = [each.mark for each in QUESTIONS if each.mark] + [fact.word for fact in facts]
    assert max(Counter(mark.lower() for mark in marks).values()) == 1
    for each in QUESTIONS:
        others = [mark for mark in marks if mark != each.mark]
        assert not [mark for mark in others if holds_word(each.text, mark)]
        # What answers one must not be the mark of another.
        assert not {answer.lower() for answer in each.answers} & {mark.lower() for mark in others}


def test_filler_holds_no_answer_name_or_code_word() -> None:
    words = set(re.findall(r"\w+", write_filler(5, 20_000).lower()))
    facts = make_facts(0, 40)
    taken = {fact.word.lower() for fact in facts} | {fact.name.lower() for fact in facts}
    answers = {answer.lower() for each in QUESTIONS for answer in each.answers if len(answer) > 1}
    assert not words & taken
    assert not words & (answers - {"yes", "no"})
    assert not re.search(r"\d", write_filler(5, 20_000))


def test_filler_is_varied_and_the_same_for_a_seed() -> None:
    assert write_filler(7, 500) == write_filler.__wrapped__(7, 500)
    assert write_filler(7, 100) != write_filler(8, 100)
    assert write_filler(7, 900).startswith(write_filler(7, 300))
    sentences = write_filler(7, 3000).split(". ")
    assert len(set(sentences)) > 0.9 * len(sentences)


def test_what_a_seed_makes_never_changes() -> None:
    """A recorded trial holds it; another generator would make it worthless."""
    assert write_filler(1, 1) == (
        "In the old town, some students described a map of the valley as the season changed."
    )
    assert make_seed("a", 1) == 493195445
    assert make_facts(1, 1) == (Fact(name="Sofia", word="ZEBRA"),)


@given(st.integers(0, 1 << 32), st.integers(0, 900))
def test_filler_has_as_many_words_as_wanted(seed: int, count: int) -> None:
    words = len(write_filler(seed, count).split())
    assert count <= words < count + 25


@given(st.integers(0, 1 << 40), st.integers(0, 20))
def test_facts_differ_from_each_other(seed: int, count: int) -> None:
    facts = make_facts(seed, count)
    assert len(facts) == count
    assert len({fact.name for fact in facts}) == len({fact.word for fact in facts}) == count
    assert facts == make_facts(seed, count)


@pytest.mark.parametrize("place", Place)
def test_a_document_tells_its_fact_at_its_place(place: Place) -> None:
    text = write_document(FACT, seed=1, word_count=400, place=place).text
    where = text.index(FACT.sentence) / text.index("\n\nWhat is the code word")
    assert {Place.BEGINNING: where < 0.1, Place.MIDDLE: 0.4 < where < 0.6}.get(place, where > 0.9)
    assert text.count("WALRUS") == 1
    assert text.endswith("? Answer with the code word only.")


def test_the_same_filler_stands_before_the_middle_and_before_the_end() -> None:
    texts = [
        write_document(FACT, seed=1, word_count=400, place=place).text
        for place in (Place.MIDDLE, Place.END)
    ]
    half = texts[0].index(FACT.sentence)
    assert texts[0][:half] == texts[1][:half]


def test_the_first_word_wins() -> None:
    assert find_first(("yes", "no"), "Nobody knows. Yes? No!") == "yes"
    assert find_first(("yes", "no"), "nothing") == ""
