"""What counts as the URL of a server, and where it leads."""

from __future__ import annotations

import pytest

from stoker.commands.addresses_of import Place, find_addresses, is_open_road, parse_url
from stoker.errors import UsageError


def place(scheme: str, host: str, port: int, base_path: str = "") -> Place:
    return Place(scheme=scheme, host=host, port=port, base_path=base_path)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:30000", place("http", "127.0.0.1", 30000)),
        ("http://127.0.0.1:30000/v1/", place("http", "127.0.0.1", 30000)),
        ("http://[::1]:8000", place("http", "::1", 8000)),
        ("http://localhost:8000", place("http", "localhost", 8000)),
        ("http://10.0.0.1", place("http", "10.0.0.1", 80)),
        ("https://api.example.org", place("https", "api.example.org", 443)),
        ("HTTPS://API.example.org./v1", place("https", "api.example.org", 443)),
        ("https://example.org/openai/v1", place("https", "example.org", 443, "/openai")),
        ("http://example.org:1/a/b/", place("http", "example.org", 1, "/a/b")),
        ("http://h/v1/chat/completions", place("http", "h", 80)),
        ("http://h/base/v1/models", place("http", "h", 80, "/base")),
    ],
)
def test_urls(url: str, expected: Place) -> None:
    assert parse_url(url) == expected


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("ftp://127.0.0.1", "neither http"),
        ("http://127.0.0.1:99999", "not a URL"),
        ("http://127.0.0.1:x", "not a URL"),
        ("http://127.0.0.1:0", "not a port"),
        ("http://", "names no server"),
        ("http://[::1", "not a URL"),
        ("http://a/?key=x", "question mark"),
        ("http://a/#x", "question mark"),
        ("http://-a", "no name"),
        ("http://a b", "no URL has"),
        ("http://a\x1b[31m", "no URL has"),
        ("http://b\u00fccher.example", "no URL has"),
    ],
)
def test_what_is_no_url_of_a_server(url: str, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(url)
    assert word in caught.value.summary


@pytest.mark.parametrize(
    "url",
    [
        "http://ann:pa55word@h",
        "https://pa55word@h/v1",
        "http://a:pa55word/x@h",
        "http://:pa55word@h",
    ],
)
def test_a_login_is_refused_and_never_shown(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(url)
    assert "pa55word" not in f"{caught.value.summary} {caught.value.hint}"


def test_a_url_is_written_as_clients_write_it() -> None:
    assert place("http", "::1", 8000, "/a").url == "http://[::1]:8000/a"


def test_a_name_is_looked_up_once() -> None:
    asked: list[str] = []

    def resolve(name: str, port: int) -> list[str]:
        asked.append(name)
        return [f"192.0.2.{number}" for number in range(9)]

    found = find_addresses(place("http", "example.org", 80), resolve)
    assert asked == ["example.org"]
    assert found == ("192.0.2.0", "192.0.2.1", "192.0.2.2", "192.0.2.3")


def test_what_needs_no_look_up_gets_none() -> None:
    def resolve(name: str, port: int) -> list[str]:
        raise AssertionError(name)

    assert find_addresses(place("http", "::1", 80), resolve) == ("::1",)
    assert find_addresses(place("http", "localhost", 80), resolve) == ("127.0.0.1", "::1")


def test_a_name_that_nobody_knows() -> None:
    def resolve(name: str, port: int) -> list[str]:
        raise OSError("Name or service not known")

    with pytest.raises(UsageError, match=r"the name example.org is not known"):
        find_addresses(place("http", "example.org", 80), resolve)


@pytest.mark.parametrize(
    ("scheme", "address", "is_open"),
    [
        ("http", "127.0.0.1", False),
        ("http", "10.1.2.3", False),
        ("http", "::1", False),
        ("http", "fd00::1", False),
        ("http", "8.8.8.8", True),
        ("https", "8.8.8.8", False),
    ],
)
def test_which_way_is_open_to_others(scheme: str, address: str, is_open: bool) -> None:
    assert is_open_road(place(scheme, "h", 80), [address]) is is_open
