"""Server-sent events as the standard says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.endpoints.events import read_events


@pytest.mark.parametrize(
    ("content", "events"),
    [
        (b"", ()),
        (b"data: 1\n\ndata: 2\n\n", ("1", "2")),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", ("1", "2")),
        (b"data: 1\r\rdata: 2\r\r", ("1", "2")),
        (b"data:1\n\n", ("1",)),
        (b"data:  1\n\n", (" 1",)),
        (b"data: {\ndata: }\n\n", ("{\n}",)),
        (b": ping\n\ndata: 1\n: pong\n\n", ("1",)),
        (b"event: start\nid: 7\nretry: 3\ndata: 1\n\n", ("1",)),
        (b"event: ping\n\ndata: 1\n\n", ("1",)),
        (b"other: 1\n\n", ()),
        (b"data\n\ndata:\n\n", ()),
        (b"data: 1\n\ndata: cut off", ("1",)),
        (b"data: 1\n\ndata: cut off\n", ("1",)),
        ("data: a\u2028b\u0085c\n\n".encode(), ("a\u2028b\u0085c",)),
        (b"data: \xff\n\n", ("\ufffd",)),
    ],
)
def test_events_are_the_data_of_whole_events(content: bytes, events: tuple[str, ...]) -> None:
    assert read_events(content) == events


LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1)


@given(st.lists(LINE), st.sampled_from(["\n", "\r\n", "\r"]))
def test_what_is_written_is_read(events: list[str], newline: str) -> None:
    content = "".join(f"data: {event}{newline}{newline}" for event in events)
    assert read_events(content.encode()) == tuple(events)


@given(st.binary())
def test_no_bytes_raise(content: bytes) -> None:
    assert all(read_events(content))
