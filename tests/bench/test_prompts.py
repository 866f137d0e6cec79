"""Prompts: as long as was wanted, the same again for the same chance, and never the same twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.bench.prompts import (
    Calibration,
    calibrate,
    count_words,
    count_words_of,
    draw_length,
    load_text,
    longest,
    write_nonsense,
    write_prompt,
    write_text,
)
from stoker.errors import DataError
from stoker.model.benchmark import Lengths

TEXTS = ("prose", "code")
WRITERS = (write_text, write_prompt, write_nonsense)
seeds = st.integers(0, 2**32)


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_varied(name: str) -> None:
    text = load_text(name)
    assert len(text.passages) >= 20
    assert len(text.vocabulary) >= 200
    assert len({passage.text for passage in text.passages}) == len(text.passages)
    for passage in text.passages:
        assert "".join(passage.words) == passage.text.rstrip()


def test_a_text_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match="there is no text poems"):
        load_text("poems")


@given(
    name=st.sampled_from(TEXTS),
    writer=st.sampled_from(WRITERS),
    words=st.integers(1, 3000),
    seed=seeds,
    number=st.integers(0, 2**60),
)
def test_a_prompt_has_the_wanted_words_and_comes_again(
    name: str, writer: Callable[..., str], words: int, seed: int, number: int
) -> None:
    text = load_text(name)
    first = writer(text, words, chance=random.Random(seed), number=number)
    assert count_words(first) == words
    assert writer(text, words, chance=random.Random(seed), number=number) == first


@given(name=st.sampled_from(TEXTS), writer=st.sampled_from(WRITERS), seed=seeds, start=seeds)
def test_texts_of_different_numbers_begin_differently(
    name: str, writer: Callable[..., str], seed: int, start: int
) -> None:
    chance = random.Random(seed)
    made = [
        writer(load_text(name), 12, chance=chance, number=number)
        for number in range(start, start + 300)
    ]
    assert len({tuple(each.split()[:3]) for each in made}) == len(made)


def test_no_passage_follows_itself() -> None:
    text = load_text("prose")
    made = write_text(text, 50_000, chance=random.Random(1), number=0)
    parts = made.split("\n\n")
    assert all(one != next_ for one, next_ in pairwise(parts))
    assert {passage.text.strip() for passage in text.passages} <= set(parts)


def test_only_a_prompt_with_room_for_it_says_what_is_wanted() -> None:
    text = load_text("code")
    short = write_prompt(text, 59, chance=random.Random(1), number=0)
    long = write_prompt(text, 60, chance=random.Random(1), number=0)
    assert text.ask not in short
    assert long.endswith(text.ask)


spreads = st.builds(
    lambda spread, steps, sigma: Lengths(
        spread=spread,
        least=steps[0],
        median=steps[0] + steps[1],
        most=steps[0] + steps[1] + steps[2],
        sigma=sigma,
    ),
    st.sampled_from(("fixed", "uniform", "lognormal")),
    st.tuples(st.integers(1, 500), st.integers(0, 5000), st.integers(0, 5000)),
    st.floats(0, 4),
)


@given(lengths=spreads, seed=seeds)
def test_lengths_stay_within_their_bounds(lengths: Lengths, seed: int) -> None:
    chance = random.Random(seed)
    drawn = [draw_length(lengths, chance) for _ in range(50)]
    assert all(lengths.least <= each <= longest(lengths) for each in drawn)
    if lengths.spread == "fixed":
        assert set(drawn) == {lengths.median}


def test_lengths_are_spread_around_their_median() -> None:
    chance = random.Random(3)
    wide = Lengths(spread="lognormal", median=100, sigma=1.0, least=1, most=100_000)
    drawn = sorted(draw_length(wide, chance) for _ in range(4001))
    assert 90 < drawn[2000] < 110
    # Of a lognormal spread the mean is the median times exp(sigma squared / 2).
    assert 150 < sum(drawn) / len(drawn) < 180
    even = Lengths(spread="uniform", median=15, least=10, most=20)
    assert {draw_length(even, chance) for _ in range(1000)} == set(range(10, 21))


def test_a_spread_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="there is no spread 'zipf'"):
        draw_length(Lengths(spread="zipf", median=1), random.Random(1))


@given(
    slope=st.floats(0.6, 5.0),
    overhead=st.integers(0, 900),
    words=st.lists(st.integers(1, 2000), min_size=2, max_size=6, unique=True),
)
def test_a_template_is_told_apart_from_words(slope: float, overhead: int, words: list[int]) -> None:
    told = [round(each * slope) + overhead for each in words]
    found = calibrate(words, told)
    # Rounding to whole tokens is all that is lost, over the width of the lengths.
    width = max(words) - min(words)
    if found is None:
        assert width < 20
        return
    assert abs(found.tokens_per_word - slope) <= 1.5 / width
    assert abs(found.overhead_tokens - overhead) <= 1.0 + 1.5 * max(words) / width


def test_one_length_is_enough_where_the_overhead_is_known() -> None:
    assert calibrate([100, 100], [132, 132], overhead_tokens=12) == Calibration(
        tokens_per_word=1.2, overhead_tokens=12
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [([], []), ([32, 512], [40, 40]), ([32, 512], [512, 32]), ([32, 512], [40, 90_000])],
    ids=["nothing", "does not grow", "falls", "absurd"],
)
def test_figures_that_are_not_of_our_words_are_not_believed(
    words: list[int], told: list[int]
) -> None:
    assert calibrate(words, told) is None


@given(tokens=st.integers(1, 10**6), tokens_per_word=st.floats(0.5, 6.0))
def test_words_come_back_to_tokens(tokens: int, tokens_per_word: float) -> None:
    words = count_words_of(tokens, tokens_per_word)
    assert words >= 1
    assert abs(words * tokens_per_word - tokens) <= max(tokens_per_word, tokens_per_word / 2 + 1)
