"""The small parts: the configuration, the lines of a log, the counters, the notifications."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.contract.metrics import sum_counters
from stoker.errors import UsageError
from stoker.guard.asking import judge_reply
from stoker.guard.child import parse_io
from stoker.guard.config import GuardConfig, parse_config, read_config, sum_weights
from stoker.guard.notify import connect_manager
from stoker.guard.output import LINE_BYTES, cut_lines, hide_secrets, pump, spell_secrets
from stoker.guard.values import Reply
from stoker.model.contract import Exchange, Request
from stoker.model.document import render_document
from tests.guard.simulation import CONFIG

#: As SGLang 0.5.17 writes them.
METRICS = """\
# HELP sglang:generation_tokens_total Number of generation tokens processed.
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{engine_type="unified",is_streaming="false",model_name="a } b"} 67.0
sglang:generation_tokens_total{engine_type="unified",is_streaming="true",model_name="b"} 6.176e+03
sglang:generation_tokens_total_created{engine_type="unified"} 1.7e+09
sglang:cached_tokens_total{cache_source="device"} 14473.0 1395066363000
llamacpp:tokens_predicted_total 120
odd_total NaN
"""


def test_a_configuration_reads_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "guard.json"
    path.write_text(render_document(CONFIG), "utf-8")
    assert read_config(str(path)) == CONFIG


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "`the document` is no JSON object"),
        ("{}", "`schema` is missing"),
        ('{"schema": "guard/2"}', "the schema is guard/2, this guard knows guard/1"),
        ("[" * 100000, "cannot be read as JSON"),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "guard.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=str(path)) as caught:
        read_config(str(path))
    assert says in caught.value.summary


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("engine", "argv", []),
        ("engine", "argv", "llama-server"),
        ("engine", "env", {"PATH": None}),
        ("server", "port", "8000"),
        ("server", "port", True),
        ("limits", "stall_seconds", 0),
        ("limits", "stall_seconds", float("inf")),
        ("limits", "stall_seconds", float("nan")),
        ("limits", "stall_seconds", True),
        ("canary", "counters", [1]),
    ],
)
def test_a_value_of_the_wrong_shape(part: str, key: str, value: object) -> None:
    data = json.loads(render_document(CONFIG))
    data[part][key] = value
    with pytest.raises(UsageError, match=rf"{part}\.{key}"):
        parse_config(data)


def test_every_key_is_known() -> None:
    data = json.loads(render_document(CONFIG))
    assert set(data) == {"schema", *(field.name for field in fields(GuardConfig))}


def test_the_size_of_weights(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a").write_bytes(b"12345")
    (tmp_path / "b").write_bytes(b"123")
    assert sum_weights((str(tmp_path), str(tmp_path / "b"), "/no/such/file")) == 11


def test_counters_are_summed_by_their_exact_names() -> None:
    assert sum_counters(METRICS, ("sglang:generation_tokens_total",)) == 6243.0
    names = ("sglang:cached_tokens_total", "llamacpp:tokens_predicted_total", "absent")
    assert sum_counters(METRICS, names) == 14593.0
    assert sum_counters(METRICS, ("odd_total",)) is None
    assert sum_counters(METRICS, ()) is None


@given(st.text())
def test_any_metrics_can_be_read(text: str) -> None:
    sum_counters(text, ("sglang:generation_tokens_total",))


def test_the_figures_of_a_process() -> None:
    text = "rchar: 32\nwchar: 1\nread_bytes: 4096\ncancelled_write_bytes: -1\nodd\n"
    assert parse_io(text) == {"rchar": 32, "wchar": 1, "read_bytes": 4096}


@given(st.lists(st.binary(max_size=20), max_size=20), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_lines_do_not_depend_on_how_the_bytes_come(pieces: list[bytes], end: bytes) -> None:
    whole = end.join(pieces)
    lines, rest = list[str](), b""
    for piece in (whole[n : n + 3] for n in range(0, len(whole), 3)):
        found, rest = cut_lines(rest + piece)
        lines += found
    expected, expected_rest = cut_lines(whole)
    assert (tuple(lines), rest) == (expected, expected_rest)


def test_a_line_without_end_is_bounded() -> None:
    rest = b""
    for _ in range(100):
        lines, rest = cut_lines(rest + b"x" * 1000)
        assert lines == ()
    assert len(rest) == LINE_BYTES


@given(st.binary(max_size=500))
def test_every_byte_is_passed_on(data: bytes) -> None:
    source, entry = os.pipe()
    outlet, target = os.pipe()
    heard: list[str] = []
    thread = threading.Thread(target=pump, args=(source, target, heard.extend))
    thread.start()
    os.write(entry, data)
    os.close(entry)
    thread.join()
    os.close(target)
    with open(outlet, "rb") as file:
        assert file.read() == data
    os.close(source)
    assert all("\n" not in line for line in heard)


@pytest.mark.parametrize("address", ["", "relative", "/no/such/socket", "@no-such-socket"])
def test_a_manager_that_is_not_there_is_no_trouble(address: str) -> None:
    connect_manager(address)("READY=1")


@pytest.mark.parametrize(
    ("status", "error", "kind", "reply"),
    [
        (200, "", "", Reply.GOOD),
        (400, "", "", Reply.GOOD),
        (404, "", "", Reply.GOOD),
        (429, "", "", Reply.BUSY),
        (500, "", "", Reply.ERROR),
        (501, "", "", Reply.ERROR),
        (503, "", "", Reply.BUSY),
        (0, "nobody listens", "refused", Reply.REFUSED),
        (0, "no answer within 5 s", "timeout", Reply.TIMEOUT),
        (200, "the reply broke off", "broken", Reply.ERROR),
    ],
)
def test_an_answer_of_a_server_without_chats(
    status: int, error: str, kind: str, reply: Reply
) -> None:
    request = Request(method="POST", path="/v1/chat/completions")
    seen = Exchange(request=request, status=status, error=error, error_kind=kind)
    judged = judge_reply(seen)
    assert judged.reply is reply
    assert bool(judged.sentence) is (reply is not Reply.GOOD)


@given(
    data=st.binary(max_size=60),
    cuts=st.lists(st.integers(0, 80), max_size=4),
    places=st.lists(st.integers(0, 60), max_size=3),
)
def test_a_secret_is_hidden_however_the_bytes_come(
    data: bytes, cuts: list[int], places: list[int]
) -> None:
    secret = "s3cret-s3c"
    for place in places:
        data = data[:place] + secret.encode() + data[place:]
    out, held = b"", b""
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for begin, end in pairwise(edges):
        clean, held = hide_secrets(held + data[begin:end], spell_secrets([secret]))
        out += clean
    out += held
    assert secret.encode() not in out
    assert out == data.replace(secret.encode(), b"[hidden]")


def test_a_secret_is_hidden_as_programs_quote_it() -> None:
    secret = "a'b\\c\"d"
    words = spell_secrets([secret, "abc"])
    for text in (repr({"api_key": secret}), json.dumps({"api_key": secret}), secret):
        clean, held = hide_secrets(f"{text}\n".encode(), words)
        assert secret.encode() not in clean + held
        assert b"[hidden]" in clean
    assert hide_secrets(b"abc\n", words) == (b"abc\n", b""), "too short to be told from a word"


@pytest.mark.parametrize("value", ["1e999", "NaN", "-1"])
def test_what_is_no_figure_adds_nothing(value: str) -> None:
    assert sum_counters(f"made_total 3\nmade_total {value}\n", ("made_total",)) == 3.0
    assert sum_counters("made_total 1e308\n" * 20, ("made_total",)) is None
