"""Reading JSON-shaped data strictly: every key is taken once, every value has its shape.

The guard's orders are read with it. It is small on purpose: the guard's environment has no library
for this, since it must be light and stay as it is for years.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from stoker.errors import UsageError
from stoker.model.facts import Plain

Value = TypeVar("Value")

_NOTHING = object()

#: As the kernel writes it: domain, bus, device and function.
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class Part:
    """One object of the document, from which every key is taken once."""

    def __init__(self, data: Plain, place: str) -> None:
        if not isinstance(data, dict):
            raise UsageError(f"`{place or 'the document'}` is no JSON object")
        self._left = dict(data)
        self._place = place

    def take(
        self, key: str, read: Callable[[Plain, str], Value], default: object = _NOTHING
    ) -> Value:
        """The value of a key, read; the default where it has one and is not there."""
        place = f"{self._place}.{key}" if self._place else key
        if key in self._left:
            return read(self._left.pop(key), place)
        if default is _NOTHING:
            raise UsageError(f"`{place}` is missing")
        return default  # type: ignore[return-value]  # each caller's default is of its kind

    def finish(self) -> None:
        """Refuse what nobody took."""
        for key in self._left:
            place = f"{self._place}.{key}" if self._place else key
            raise UsageError(f"`{place}` is unknown to this guard")


def read_text(data: Plain, place: str) -> str:
    """A text."""
    if not isinstance(data, str):
        raise UsageError(f"`{place}` is no text")
    return data


def read_address(data: Plain, place: str) -> str:
    """An address on the PCI bus."""
    text = read_text(data, place)
    if not _PCI_ADDRESS.fullmatch(text):
        raise UsageError(f"`{place}` is no address on the PCI bus, like 0000:41:00.0")
    return text


def read_pattern(data: Plain, place: str) -> str:
    """A regular expression."""
    text = read_text(data, place)
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(f"`{place}` is no regular expression: {error}") from error
    return text


def read_whole_number(data: Plain, place: str) -> int:
    """A whole number."""
    if not isinstance(data, int) or isinstance(data, bool):
        raise UsageError(f"`{place}` is no whole number")
    return data


def read_share(data: Plain, place: str) -> float:
    """A share between 0 and 1."""
    if not isinstance(data, int | float) or isinstance(data, bool) or not 0 <= data <= 1:
        raise UsageError(f"`{place}` is no share between 0 and 1")
    return float(data)


def read_seconds(data: Plain, place: str) -> float:
    """Seconds, above zero and finite."""
    # Infinity and not-a-number, which Python's JSON knows, are refused by the comparison.
    if not isinstance(data, int | float) or isinstance(data, bool) or not 0 < data < 1e9:
        raise UsageError(f"`{place}` is no number of seconds above zero")
    return float(data)


def read_texts_by_name(data: Plain, place: str) -> Mapping[str, str]:
    """An object whose values are texts."""
    if not isinstance(data, dict):
        raise UsageError(f"`{place}` is no JSON object")
    return {name: read_text(value, f"{place}.{name}") for name, value in data.items()}


def read_many(read: Callable[[Plain, str], Value]) -> Callable[[Plain, str], tuple[Value, ...]]:
    """A list of what ``read`` reads."""

    def read_each(data: Plain, place: str) -> tuple[Value, ...]:
        if not isinstance(data, list):
            raise UsageError(f"`{place}` is no list")
        return tuple(read(item, f"{place}.{number}") for number, item in enumerate(data))

    return read_each


def read_perhaps(read: Callable[[Plain, str], Value]) -> Callable[[Plain, str], Value | None]:
    """What ``read`` reads, or nothing."""

    def read_one(data: Plain, place: str) -> Value | None:
        return None if data is None else read(data, place)

    return read_one


def read_truth(data: Plain, place: str) -> bool:
    """True or false."""
    if not isinstance(data, bool):
        raise UsageError(f"`{place}` is neither true nor false")
    return data


def read_object(data: Plain, place: str) -> Mapping[str, Plain]:
    """An object, whatever it holds."""
    if not isinstance(data, dict):
        raise UsageError(f"`{place}` is no JSON object")
    return data
