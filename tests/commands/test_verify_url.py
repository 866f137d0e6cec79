"""What counts as the URL of a server."""

from __future__ import annotations

import pytest

from stoker.commands.verify import parse_url
from stoker.errors import UsageError


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://127.0.0.1:30000", ("127.0.0.1", 30000)),
        ("http://127.0.0.1:30000/v1/", ("127.0.0.1", 30000)),
        ("http://[::1]:8000", ("::1", 8000)),
        ("http://localhost:8000", ("127.0.0.1", 8000)),
        ("http://10.0.0.1", ("10.0.0.1", 80)),
    ],
)
def test_urls(url: str, place: tuple[str, int]) -> None:
    assert parse_url(url) == place


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:1",
        "ftp://127.0.0.1",
        "http://example.org:80",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:x",
        "http://",
        "http://127.0.0.1/admin",
        "http://[::1",
    ],
)
def test_what_is_no_url_of_a_server(url: str) -> None:
    with pytest.raises(UsageError):
        parse_url(url)
