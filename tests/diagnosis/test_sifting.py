"""What is kept of a large log."""

from __future__ import annotations

import random

from ahocorasick_rs import BytesAhoCorasick
from hypothesis import given
from hypothesis import strategies as st

from stoker.diagnosis.sifting import MOST_LINE_BYTES, Room, keep_lines

NEEDLES = BytesAhoCorasick([b"NEEDLE", b"Traceback"])
SMALL = Room(
    head_bytes=1 << 19,
    head_lines=10_000,
    tail_bytes=1 << 19,
    tail_lines=10_000,
    found_bytes=1 << 19,
    found_lines=10_000,
)
TINY = Room(head_bytes=1, head_lines=1, tail_bytes=1, tail_lines=1)


def _make(count: int, special: dict[int, bytes]) -> list[bytes]:
    return [special.get(number, b"line %d of many" % number) for number in range(1, count + 1)]


def test_a_small_log_is_kept_whole() -> None:
    lines = [b"a", b"", b"NEEDLE", b"last"]
    for end, count in ((b"", 4), (b"\n", 4)):
        kept = keep_lines([b"\n".join(lines) + end], NEEDLES)
        assert kept.lines == tuple(enumerate(lines, 1))
        assert (kept.line_count, kept.is_whole) == (count, True)
        assert kept.size_bytes == len(b"\n".join(lines) + end)
    assert keep_lines([], NEEDLES).lines == ()


def test_of_a_large_log_the_ends_and_needles_are_kept_with_their_numbers() -> None:
    count = 400_000
    lines = _make(count, {200_000: b"a NEEDLE in the middle", 200_001: b"behind it"})
    content = b"\n".join(lines) + b"\n"
    kept = keep_lines(
        [content[at : at + 7777] for at in range(0, len(content), 7777)], NEEDLES, SMALL
    )
    assert not kept.is_whole
    assert (kept.line_count, kept.size_bytes) == (count, len(content))
    assert all(lines[number - 1] == line for number, line in kept.lines)
    numbers = [number for number, _ in kept.lines]
    assert numbers == sorted(set(numbers))
    missing = {1, 2, 199_990, 200_000, 200_001, 200_030, count} - set(numbers)
    assert not missing
    assert len(numbers) < 60_000


def test_what_stands_around_a_needle_is_kept_over_the_ends_of_blocks() -> None:
    """Blocks end anywhere: for each place of a needle its neighbours are there."""
    count = 60_000
    for place in range(30_000, 30_050):
        lines = _make(count, {})
        lines[place - 1] = b"a NEEDLE " + b"x" * random.Random(place).randrange(9000)
        kept = dict(keep_lines([b"\n".join(lines)], NEEDLES, TINY).lines)
        missing = {place - 5, place - 1, place, place + 1, place + 20} - set(kept)
        assert not missing, place
        assert all(kept[number] == lines[number - 1] for number in (place - 1, place, place + 1))


def test_what_comes_again_and_again_is_kept_a_few_times() -> None:
    lines = [b"step %d NEEDLE %d" % (number, number * 7) for number in range(300_000)]
    kept = keep_lines([b"\n".join(lines)], NEEDLES, TINY)
    assert len(kept.lines) < 30_000
    assert kept.lines[0] == (1, lines[0])


def test_new_shapes_without_end_do_not_fill_the_memory() -> None:
    chance = random.Random(1)
    letters = "abcdefghij"
    lines = [b"NEEDLE " + "".join(chance.choices(letters, k=30)).encode() for _ in range(200_000)]
    kept = keep_lines([b"\n".join(lines)], NEEDLES, SMALL)
    assert sum(len(line) for _, line in kept.lines) < 4 << 20


def test_of_a_line_of_megabytes_what_stands_around_needles_is_kept() -> None:
    line = b"begin " + b"x" * (3 << 20) + b" NEEDLE " + b"y" * (3 << 20) + b" end"
    kept = keep_lines([b"before\n" + line + b"\nbehind\n"], NEEDLES)
    assert kept.line_count == 3
    assert kept.lines[0] == (1, b"before")
    assert kept.lines[-1][1].endswith((b"behind", b"end"))
    pieces = [piece for number, piece in kept.lines if number == 2]
    assert all(len(piece) <= 2 * MOST_LINE_BYTES for piece in pieces)
    assert any(b"NEEDLE" in piece for piece in pieces)


def test_a_log_without_any_end_of_a_line() -> None:
    kept = keep_lines((b"x" * 999_999 for _ in range(50)), NEEDLES, TINY)
    assert kept.line_count == 1
    assert sum(len(line) for _, line in kept.lines) < 4 << 20


@given(
    st.lists(st.sampled_from([b"", b"a", b"NEEDLE", b"b" * 40, b"\r", b"\xff\x00"]), max_size=60),
    st.lists(st.integers(1, 50), min_size=1, max_size=20),
)
def test_how_a_log_is_cut_into_chunks_is_no_matter(lines: list[bytes], sizes: list[int]) -> None:
    content = b"\n".join(lines)
    at = 0
    chunks: list[bytes] = []
    while at < len(content):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(content[at : at + size])
        at += size
    assert keep_lines(chunks, NEEDLES) == keep_lines([content], NEEDLES)
    assert [line for _, line in keep_lines([content], NEEDLES).lines] == (
        content.removesuffix(b"\n").split(b"\n") if content else []
    )
