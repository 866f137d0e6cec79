"""Sizes, digests, the one JSON text of a value, and who a process is."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.model.units import (
    canonical_json,
    digest_bytes,
    digest_text,
    format_bytes,
    parse_process_identity,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("count_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (98_351_000, "93.8 MiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (150_754_820_096, "140.4 GiB"),
        (1 << 62, "4.0 EiB"),
        (1 << 80, "1048576.0 EiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_sizes_for_a_person(count_bytes: int, text: str) -> None:
    assert format_bytes(count_bytes) == text


def test_digests_are_sha256_in_hexadecimal() -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest_bytes(b"") == digest_text("") == empty
    assert digest_text("ü") == digest_bytes("ü".encode())
    assert digest_text("\udcff"), "a file name that is no UTF-8"


@given(JSON)
def test_canonical_json_is_json_and_the_same_for_the_same_value(value: object) -> None:
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text


def test_canonical_json_does_not_depend_on_the_order_of_keys() -> None:
    assert canonical_json({"b": [1, "ü"], "a": None}) == '{"a":null,"b":[1,"ü"]}'
    assert canonical_json({"a": None, "b": [1, "ü"]}) == canonical_json({"b": [1, "ü"], "a": None})


def test_canonical_json_refuses_what_json_does_not_know() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json([math.inf])


@pytest.mark.parametrize("name", ["sh", "a b", "a) R 1 (b", "((", "new\nline"])
def test_a_process_is_its_pid_and_start_time(name: str) -> None:
    after_name = ["S", *(str(number) for number in range(4, 53))]
    text = f"42 ({name}) {' '.join(after_name)}\n"
    assert parse_process_identity(text, 42) == "42:22"


def test_reads_its_own_identity() -> None:
    text = Path("/proc/1/stat").read_text()
    pid, ticks = parse_process_identity(text, 1).split(":")
    assert pid == "1"
    assert int(ticks) >= 0


@pytest.mark.parametrize("text", ["", "42 (sh", "42 (sh) S 1 2", "42 (sh) " + "x " * 50])
def test_other_text_is_no_process(text: str) -> None:
    with pytest.raises(ValueError, match="process"):
        parse_process_identity(text, 42)
