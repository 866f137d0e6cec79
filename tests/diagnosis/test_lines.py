"""A log as lines, whatever it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.diagnosis.lines import read_lines, read_log


def texts(content: bytes) -> list[tuple[int, str]]:
    return [(line.number, line.text) for line in read_lines([content], "log")]


def test_numbers_count_the_lines_of_the_file() -> None:
    assert texts(b"a\n\nb\r\n```\nc") == [(1, "a"), (3, "b"), (5, "c")]


def test_of_a_progress_bar_the_last_state_and_what_is_no_progress_is_kept() -> None:
    bar = b"load: 10%|# | 1/9 [00:01]\rload: 50%|# | 5/9 [00:02]\rload: 100%|# | 9/9 [00:03]"
    assert texts(bar + b"\nnext") == [(1, "load: 100%|# | 9/9 [00:03]"), (2, "next")]
    glued = b"load: 10%|# | 1/9 [00:01]\rload: 50%|# | 5/9 [00:02]\rRuntimeError: boom\rload: 90%|#"
    assert (1, "RuntimeError: boom") in texts(glued)


def test_text_that_is_none() -> None:
    assert texts(b"caf\xc3\xa9 \xff\x00end") == [(1, "café \ufffdend")]
    assert texts("\ufeffé\r\nboom".encode("utf-16-le")) == [(1, "é"), (2, "boom")]
    assert texts(b"\xef\xbb\xbfa") == [(1, "a")]
    assert texts(b"") == []


def test_lines_that_a_carrier_had_cut_are_whole_again() -> None:
    time = b"2026-11-30T22:22:22Z stderr "
    assert texts(time + b"P one \n" + time + b"F two\n" + time + b"F three") == [
        (1, "one two"),
        (3, "three"),
    ]
    record = {"stream": "stderr", "time": "x"}
    docker = [json.dumps({**record, "log": text}) for text in ("a ", "b\n", "c\n")]
    assert texts("\n".join(docker).encode()) == [(1, "a b"), (3, "c")]
    assert texts(time + b"P alone") == [(1, "alone")]


def test_the_journals_export_format() -> None:
    content = b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1\n_PID=7\nMESSAGE=[rank1]: boom\nPRIORITY=3\n\n"
    (line,) = read_lines([content], "log")
    assert (line.number, line.text, line.rank) == (4, "boom", "rank1")


def test_a_trace_stays_with_the_process_that_began_it() -> None:
    content = b"""[2026-11-30 22:22:22 TP1] it hit an exception: Traceback (most recent call last):
  File "a.py", line 1, in f
    g()
ValueError: boom

Loading weights
[2026-11-30 22:22:23 TP0] fine
[2026-11-30 22:22:23] nobody's
  indented
"""
    ranks = [line.rank for line in read_lines([content], "log")]
    assert ranks == ["TP1", "TP1", "TP1", "TP1", "", "TP0", "", ""]


def test_the_kernels_lines_are_told_apart() -> None:
    journal = b"""2026-11-30T22:22:21+0000 host sglang[7]: [2026-11-30 22:22:21 TP1] fine
2026-11-30T22:22:22+0000 host kernel: NVRM: Xid (PCI:0000:01:00): 79
2026-11-30T22:22:23+0000 host sglang[7]: boom
"""
    log = read_log([journal], "journal")
    assert [line.text for line in log.kernel] == ["NVRM: Xid (PCI:0000:01:00): 79"]
    assert [line.number for line in log.lines] == [1, 3]
    assert (log.read.kind, log.read.lines, log.read.size_bytes) == ("log", 3, len(journal))
    dmesg = read_log([b"[    1.000000] a\n[    2.000000] b\n"], "dmesg")
    assert (dmesg.read.kind, dmesg.lines) == ("kernel", ())
    assert [line.text for line in dmesg.kernel] == ["a", "b"]
    bare = read_log([b"NVRM: Xid\n"], "said", is_kernel=True)
    assert [line.text for line in bare.kernel] == ["NVRM: Xid"]


def test_of_a_large_log_the_note_says_what_was_read() -> None:
    chunks = (b"%d requests are fine\n" % number * 100 for number in range(20_000))
    log = read_log(chunks, "log")
    assert log.read.lines == 2_000_000
    assert "of its lines were looked at" in log.read.note
    assert len(log.lines) < 50_000


@given(st.binary(max_size=4000))
def test_any_bytes_are_read(content: bytes) -> None:
    lines = read_lines([content], "log")
    assert all(1 <= line.number <= content.count(b"\n") + 1 for line in lines)
    numbers = [line.number for line in lines]
    assert numbers == sorted(numbers)


_PIECES = st.sampled_from(
    [
        *(
            "[2026-11-30 22:22:22 TP1] ",
            "(EngineCore pid=1) ",
            "\x1b[31m",
            "\r",
            "> ",
            "```",
            " | ",
        ),
        *('{"log":"', '\\n","stream":"x"}', "Nov 30 22:22:22 h k[1]: ", "[   1.000000] ", "\x00"),
        *("Traceback (most recent call last):", '  File "a", line 1, in f', "\n", "x: y", "é"),
        *(
            "2026-11-30T22:22:22Z stdout P ",
            "__CURSOR=1",
            "MESSAGE",
            "sglang-1  | ",
            "\ud83d\ude00",
        ),
    ]
)


@given(st.lists(_PIECES, max_size=40), st.integers(1, 9))
def test_prefixes_in_any_order_are_read_alike_in_any_chunks(pieces: list[str], size: int) -> None:
    content = "".join(pieces).encode("utf-8", "replace")
    chunks = [content[at : at + size] for at in range(0, len(content), size)]
    # The first bytes tell the encoding; a reader of files hands over more than two of them.
    chunks = [content[:16], *(content[16:][at : at + size] for at in range(0, len(content), size))]
    assert read_lines(chunks, "log") == read_lines([content], "log")


@pytest.mark.parametrize("count", [1, 5])
def test_a_line_of_megabytes_stays_small(count: int) -> None:
    content = (b"a" * (2 << 20) + b"Traceback (most recent call last)" + b"\r" * (1 << 20)) * count
    lines = read_lines([content], "log")
    assert sum(len(line.text) for line in lines) < 1 << 20
    assert any("Traceback" in line.text for line in lines)
