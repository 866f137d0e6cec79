"""A prefix cache as engines have it: blocks of tokens on the device, and a second tier behind it.

:mod:`stoker.fake_engine.core` asks it for each prompt. It keeps no content: a block is known by the
tokens of the prompt up to its end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How much of a prompt was there already; ``is_restored``: some of it from host memory.

    ``keys`` spare :meth:`PrefixCache.keep` from computing those of the prompt again.
    """

    cached_tokens: int = 0
    is_restored: bool = False
    keys: tuple[int, ...] = field(default=(), repr=False)


class PrefixCache:
    """Least recently used blocks go first: from the device to the host, from there for good."""

    def __init__(self, *, device_tokens: int, host_tokens: int, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._device_blocks = max(1, device_tokens // block_tokens)
        self._host_blocks = host_tokens // block_tokens
        self._device: OrderedDict[int, None] = OrderedDict()
        self._host: OrderedDict[int, None] = OrderedDict()
        self._lock = Lock()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._device.clear()
            self._host.clear()

    def look_up(self, tokens: Sequence[bytes]) -> Match:
        """What is there of this prompt; the last token is always computed anew."""
        all_keys = self._keys(tokens)
        keys = all_keys[: max(0, len(tokens) - 1) // self._block_tokens]
        with self._lock:
            found, restored = 0, False
            for key in keys:
                if key not in self._device and key not in self._host:
                    break
                restored = restored or key not in self._device
                found += 1
            cached = found * self._block_tokens
            return Match(cached_tokens=cached, is_restored=restored, keys=tuple(all_keys))

    def keep(self, tokens: Sequence[bytes], match: Match | None = None) -> None:
        """Take in a prompt with its answer; ``match`` is what was found of the prompt."""
        keys = self._keys(tokens, known=match.keys if match else ())
        with self._lock:
            # From the end, so that the beginning, which others may share, is the youngest.
            for key in reversed(keys):
                self._host.pop(key, None)
                self._device[key] = None
                self._device.move_to_end(key)
            self._evict()

    def _evict(self) -> None:
        while len(self._device) > self._device_blocks:
            key, _ = self._device.popitem(last=False)
            if self._host_blocks:
                self._host[key] = None
        while len(self._host) > self._host_blocks:
            self._host.popitem(last=False)

    def _keys(self, tokens: Sequence[bytes], *, known: Sequence[int] = ()) -> list[int]:
        """One for each whole block, of all tokens up to its end; the first are ``known``."""
        size, found = self._block_tokens, list(known)
        key = found[-1] if found else 0
        for place in range(len(found) * size, len(tokens) - size + 1, size):
            key = hash((key, *tokens[place : place + size]))
            found.append(key)
        return found
