"""What nobody wrote is noticed, and nothing that somebody may write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.contract.nonsense import (
    Kind,
    find_loop,
    find_nonsense,
    is_nan_note,
    measure_entropy_bits,
    mixes_scripts,
)

ORDINARY = [
    "",
    "4",
    "4.",
    "...",
    "!!!",
    "ha ha ha",
    "ha " * 30,
    "four " * 40,
    "The answer is 4. " * 20,
    " ".join(map(str, range(1, 31))),
    "\n".join(f"{number}. item" for number in range(60)),
    "| a | b |\n|---|---|\n| 1 | 2 |\n" * 20,
    "def f(x):\n    return x\n" * 5,
    "    *\n   ***\n  *****\n" * 6,
    "    /\\_/\\\n   ( o.o )\n    > ^ <\n",
    "\u250c" + "\u2500" * 60 + "\u2510",
    "Title\n" + "=" * 80 + "\ntext",
    "1" + "0" * 100,
    "3." + "142857" * 12,
    "0 1 0 1 1 0 " * 30,
    "".join("ACGT"[number * number // 7 % 4] for number in range(240)),
    "Ahhhhhhhhhhhh!!!!!!!!!!!!",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u4f7f\u7528Python\u7f16\u7a0b\uff0c\u8ba1\u7b97\u0394x",
    "Python\uc740 \uc5b8\uc5b4\uc785\ub2c8\ub2e4. \u65e5\u672c\u8a9e\u3067Python\u3092\u4f7f\u3046",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "Hello: \u4f60\u597d, \u0e2a\u0e27\u0e31\u0e2a, \u043f\u0440\u0438, \u05e9\u05dc\u05d5",
    "\u0645\u0631\u062d - \u0928\u092e\u0938\u094d\u0924\u0947 - \u043f\u0440 - \u05e9\u05dc",
    "\u0e43\u0e0a\u0e49Python\u0e43\u0e19\u0e01\u0e32\u0e23",
    "\x1b[31mred\x1b[0m \x1b[1mbold\x1b[0m \x1b[4mline\x1b[0m",
    "e\u0301 \U0001f468\u200d\U0001f469\u200d\U0001f467 2\ufe0f\u20e3",
]

NONSENSE = [
    ("!!!!", Kind.ONE_CHARACTER),
    ("\n!!\n!!\n", Kind.ONE_CHARACTER),
    ("The answer is !" + "!" * 60, Kind.ONE_CHARACTER),
    ("Sure, " + "G" * 100, Kind.ONE_CHARACTER),
    ("the " * 60, Kind.REPETITION),
    ("\u6211\u4eec" * 60, Kind.REPETITION),
    ("I am a model, I am " * 50, Kind.REPETITION),
    ("aabab" * 9 + "abbaa" * 20 + "babab" * 20, Kind.COLLAPSE),
    ("a\x00b\x01c\x02", Kind.CONTROL_CHARACTERS),
    (
        "\u7684\u0e27\u0e48\u0e32\u0441\u043b\u0435\u0434assistant\u05d4\u05e9\u043b\u0e2b\u0e19",
        Kind.MIXED_SCRIPTS,
    ),
    ("fo\ufffdur", Kind.BROKEN_CHARACTERS),
    ("four \ud83d", Kind.BROKEN_CHARACTERS),
]


@pytest.mark.parametrize("text", ORDINARY, ids=lambda text: ascii(text[:20]))
def test_what_somebody_may_write_is_no_nonsense(text: str) -> None:
    assert find_nonsense(text) is None


@pytest.mark.parametrize(("text", "kind"), NONSENSE, ids=lambda value: ascii(str(value)[:20]))
def test_what_nobody_writes_is_named(text: str, kind: Kind) -> None:
    found = find_nonsense(text)
    assert found is not None
    assert found.kind is kind
    assert found.found


def test_only_a_cut_end_may_be_broken() -> None:
    assert find_nonsense("four \ufffd\ufffd", was_cut=True) is None
    assert find_nonsense("four \ufffd") is not None
    assert find_nonsense("fo\ufffdur", was_cut=True) is not None


@given(st.text(max_size=200))
def test_any_text_is_judged(text: str) -> None:
    find_nonsense(text)
    find_loop(text)


@given(
    st.text("abcdefg ", min_size=1, max_size=12).filter(lambda text: text.strip()),
    st.integers(4, 30),
)
def test_a_loop_is_found_and_is_short(unit: str, count: int) -> None:
    loop = find_loop(f"{unit} " * count)
    assert loop is not None
    assert loop.is_whole
    assert loop.count >= count
    assert len(loop.unit) <= len(unit)


def test_a_loop_at_the_end_is_told_from_a_whole_one() -> None:
    loop = find_loop("It began well, then went went went went")
    assert loop is not None
    assert (loop.unit, loop.count, loop.is_whole) == ("went", 4, False)
    assert find_loop("It began well and ended well") is None


def test_entropy_is_counted_in_bits() -> None:
    assert measure_entropy_bits([]) == 0
    assert measure_entropy_bits(["a"] * 9) == 0
    assert measure_entropy_bits(["a", "b"] * 9) == 1


def test_marks_belong_to_their_letters() -> None:
    assert not mixes_scripts("\u0928\u092e\u0938\u094d\u0924\u0947 " * 9)


@pytest.mark.parametrize("note", ["NaN happened", "nan", "logits: NaN"])
def test_a_note_that_says_nan(note: str) -> None:
    assert is_nan_note(note)


@pytest.mark.parametrize("note", ["<|im_end|>", "banana", 151645, None])
def test_an_ordinary_note(note: object) -> None:
    assert not is_nan_note(note)
