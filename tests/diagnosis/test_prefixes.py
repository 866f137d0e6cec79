"""What others put before a line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.diagnosis.prefixes import strip_prefixes, strip_terminal

TRACE = '  File "sglang/srt/managers/scheduler.py", line 7, in run'


@pytest.mark.parametrize(
    ("written", "text", "rank"),
    [
        ("[2026-11-30 22:22:22] Load weight begin", "Load weight begin", ""),
        ("[2026-11-30 22:22:22 TP3] Load weight begin", "Load weight begin", "TP3"),
        ("[2026-11-30 22:22:22.123 DP1 TP3 EP3] x", "x", "DP1 TP3 EP3"),
        ("[2026-11-30 22:22:22 PP0 TP1]   indented", "  indented", "PP0 TP1"),
        (" TP0] Load weight begin", "Load weight begin", "TP0"),
        ("(EngineCore_DP0 pid=123) ERROR boom", "ERROR boom", "EngineCore_DP0"),
        ("(EngineCore pid=123)   File", "  File", "EngineCore 123"),
        ("(VllmWorker TP1 pid=77) INFO x", "INFO x", "VllmWorker TP1"),
        ("(VllmWorker rank=3 pid=77) INFO x", "INFO x", "VllmWorker 3"),
        ("(Worker_TP0 pid=8) INFO x", "INFO x", "Worker_TP0"),
        ("(RayWorkerWrapper pid=7, ip=10.0.0.1) hi", "hi", "RayWorkerWrapper 7"),
        (
            "(EngineCore_DP0 pid=1) (RayWorkerWrapper pid=7, ip=10.0.0.1) hi",
            "hi",
            "RayWorkerWrapper 7",
        ),
        ("(pid=123, ip=10.1.1.1) hi", "hi", "process 123"),
        (
            "[rank3]: Traceback (most recent call last):",
            "Traceback (most recent call last):",
            "rank3",
        ),
        (f"[rank0]: {TRACE}", TRACE, "rank0"),
        ("[default0]:boom", "boom", "default0"),
        ("[1,3]<stderr>: boom", "boom", "3"),
        ("0.00.001.936 I srv          init: x", "srv          init: x", ""),
        ("vllm-1  | (APIServer pid=1) INFO x", "INFO x", "APIServer 1"),
        ("sglang  | boom", "boom", ""),
        ("sglang_server_1  |   indented", "  indented", ""),
        ("Nov 30 22:22:22 host sglang[12]: [2026-11-30 22:22:22 TP1] x", "x", "TP1"),
        ("2026-11-30T22:22:22+0000 host python3[12]: boom", "boom", ""),
        ("2026-11-30T22:22:22.123456+00:00 host vllm.service[12]: boom", "boom", ""),
        ("Mon 2026-11-30 22:22:22 UTC host sglang[12]: boom", "boom", ""),
        ("1764541342.123456 host sglang[12]: boom", "boom", ""),
        ("[  123.456789] host sglang[12]: boom", "boom", ""),
        ("Nov 30 22:22:22 host systemd[1]: a.service: Failed", "a.service: Failed", ""),
        ("Nov 30 22:22:22 INFO foo: bar", "INFO foo: bar", ""),
        ("2026-11-30 22:22:22,123 - x - ERROR - boom", "- x - ERROR - boom", ""),
        ("2026-11-30T22:22:22.1234567Z boom", "boom", ""),
        ("[pod/llm-0/sglang] 2026-11-30T22:22:22.1Z   x", "  x", ""),
        (f"2026-11-30T22:22:22.1Z stderr F {TRACE}", TRACE, ""),
        ("> > [2026-11-30 22:22:22 TP1] x", "x", "TP1"),
        ("&gt; boom", "boom", ""),
        ("```python", "", ""),
        ("    [2026-11-30 22:22:22 TP1] x", "x", "TP1"),
        ("\x1b[1;36m(EngineCore_DP0 pid=1)\x1b[0;0m x", "x", "EngineCore_DP0"),
        ("[0;36m(EngineCore_DP0 pid=1)[0;0m x", "x", "EngineCore_DP0"),
        ("#033[31mboom#033[0m", "boom", ""),
        ("\x1b]0;title\x07boom\x00\x07", "boom", ""),
    ],
)
def test_a_prefix_is_taken_off(written: str, text: str, rank: str) -> None:
    line = strip_prefixes(written)
    assert (line.text, line.rank, line.is_kernel) == (text, rank, False)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("[  123.456789] NVRM: Xid", "NVRM: Xid"),
        ("[  123.456789][ T1234] NVRM: Xid", "NVRM: Xid"),
        ("<4>[  123.456789] NVRM: Xid", "NVRM: Xid"),
        ("[Mon Nov 30 22:22:22 2026] NVRM: Xid", "NVRM: Xid"),
        ("2026-11-30T22:22:22,123456+00:00 NVRM: Xid", "NVRM: Xid"),
        ("kern  :err   : [  123.456789] NVRM: Xid", "NVRM: Xid"),
        ("Nov 30 22:22:22 host kernel: NVRM: Xid", "NVRM: Xid"),
        ("Nov 30 22:22:22 host kernel: [  12.345678] NVRM: Xid", "NVRM: Xid"),
        ("2026-11-30T22:22:22+0000 host kernel: NVRM: Xid", "NVRM: Xid"),
        (json.dumps({"MESSAGE": "NVRM: Xid", "_TRANSPORT": "kernel"}), "NVRM: Xid"),
    ],
)
def test_the_kernels_lines_are_known(written: str, text: str) -> None:
    line = strip_prefixes(written)
    assert (line.text, line.is_kernel) == (text, True)


@pytest.mark.parametrize(
    "text",
    [
        TRACE,
        "    raise ValueError(f'[{x}] {y}')",
        "ValueError: Loaded weights leave no GPU memory",
        "|   0  NVIDIA H200            On  |   00000000:01:00.0 Off |",
        "Loading safetensors: 50% Completed | 1/2 [00:01<00:01]",
        '{"object": "error", "message": "boom"}',
        "(a, b) = f(c)",
        "[1, 2, 3] is wrong",
        "2026 was a year",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "C:\\etc\\file",
    ],
)
def test_what_is_no_prefix_stays(text: str) -> None:
    assert strip_prefixes(text).text == text


def test_half_a_character_in_a_record_is_replaced() -> None:
    record = '{"log": "\\ud800 out of memory \\ud83d\\ude00\\n", "stream": "stderr"}'
    text = strip_prefixes(record).text
    assert text.encode().decode().endswith(" out of memory \N{GRINNING FACE}")


def test_a_record_of_docker_and_of_the_journal() -> None:
    record = {"log": "[rank1]: boom\n", "stream": "stderr", "time": "2026-11-30T22:22:22Z"}
    line = strip_prefixes(json.dumps(record))
    assert (line.text, line.rank, line.is_cut) == ("boom", "rank1", False)
    assert strip_prefixes(json.dumps({**record, "log": "half"})).is_cut
    numbers = {"MESSAGE": [*b"caf\xc3\xa9"], "PRIORITY": "6"}
    assert strip_prefixes(json.dumps(numbers)).text == "café"
    assert strip_prefixes("2026-11-30T22:22:22Z stdout P half").is_cut


@given(st.text())
def test_nothing_is_too_odd(text: str) -> None:
    line = strip_prefixes(text)
    assert len(line.text) <= len(text)
    assert "\x1b" not in strip_terminal(text)


@pytest.mark.parametrize(
    "bait",
    [
        *("[" * 50_000, "(" * 50_000, "> " * 50_000, "`" * 100_000, "<1>" * 30_000),
        *("\x1b]" * 50_000, "\x1b[" + "0;" * 50_000, "[0" + ";0" * 50_000),
        *('{"' * 50_000 + "}", "{" * 100_000 + "}", "a" * 100_000 + "|", "2026-11-30T" * 9000),
        *("(a" + " A1" * 30_000, "[2026-11-30 22:22:22" + " TP1" * 30_000),
    ],
)
def test_bait_for_patterns_is_read(bait: str) -> None:
    """What a backtracking pattern takes hours for: the time that any test has is enough."""
    assert len(strip_prefixes(bait).text) <= len(bait)
