"""Names are looked up under a deadline."""

from __future__ import annotations

import threading

import pytest

from stoker.endpoints.names import NameTooSlow, NameUnknown, look_up, look_up_in_time


def test_a_numeric_address_is_its_own() -> None:
    assert look_up("127.0.0.1", 80) == ["127.0.0.1"]


def test_the_order_of_the_system_is_kept() -> None:
    found = look_up_in_time("a", 1, seconds=5, resolve=lambda *_: ["::1", "127.0.0.1"])
    assert found == ("::1", "127.0.0.1")


def test_a_resolver_that_hangs_is_left_behind() -> None:
    ended = threading.Event()

    def hang(name: str, port: int) -> list[str]:
        ended.wait(60)
        return []

    with pytest.raises(NameTooSlow, match="in time"):
        look_up_in_time("a", 1, seconds=0.05, resolve=hang)
    ended.set()


@pytest.mark.parametrize("error", [OSError("no such name"), UnicodeError("label too long")])
def test_a_name_that_is_not_known(error: Exception) -> None:
    def fail(name: str, port: int) -> list[str]:
        raise error

    with pytest.raises(NameUnknown, match="is not known"):
        look_up_in_time("a", 1, seconds=5, resolve=fail)


def test_a_name_without_addresses_is_not_known() -> None:
    with pytest.raises(NameUnknown):
        look_up_in_time("a", 1, seconds=5, resolve=lambda *_: [])
