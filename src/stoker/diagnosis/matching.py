"""Which signatures stand in which lines.

Called by :mod:`stoker.diagnosis.diagnose`. Every signature has a text that must stand in the line,
so one pass of an Aho-Corasick automaton finds the few lines that are worth a pattern, however many
signatures there are. Patterns are RE2's: no text makes them slow.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import ahocorasick_rs
import re2

from stoker.diagnosis.inputs import LogLine
from stoker.knowledge.signatures import Around, Signature, load_signatures
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in
from stoker.model.facts import Plain

#: A line that comes again and again is looked at so many times for one signature, and tried so
#: many times where it does not fit.
MOST_EVENTS = 400
MOST_TRIALS = 4000
_BLOCK_LINES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One signature in one line. ``captured`` are the figures of its pattern; ``phase`` is how far
    the start had come, empty where no line told it."""

    signature: Signature
    line: LogLine
    captured: Mapping[str, Plain] = field(default_factory=dict)
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """Signatures made ready for lines."""

    signatures: tuple[Signature, ...]
    automaton: ahocorasick_rs.AhoCorasick
    owners: tuple[int, ...]

    def find(self, lines: Sequence[LogLine], phases: Sequence[str]) -> Iterator[Event]:
        """Every signature in every line; ``phases`` go with the lines (empty: none known)."""
        nearby = _Neighbours(lines)
        seen: Counter[str] = Counter()
        tried: Counter[str] = Counter()
        for at, line in enumerate(lines):
            found = self.automaton.find_matches_as_indexes(line.text, overlapping=True)
            for number in sorted({self.owners[index] for index, _, _ in found}):
                signature = self.signatures[number]
                if seen[signature.id] >= MOST_EVENTS or tried[signature.id] >= MOST_TRIALS:
                    continue
                tried[signature.id] += 1
                phase = phases[at] if at < len(phases) else ""
                event = _try(signature, nearby, at, phase)
                if event is not None:
                    seen[signature.id] += 1
                    yield event


def make_matcher(signatures: Sequence[Signature]) -> Matcher:
    """A matcher of these signatures."""
    needles = [(n, needle) for n, each in enumerate(signatures) for needle in each.needles]
    return Matcher(
        signatures=tuple(signatures),
        automaton=ahocorasick_rs.AhoCorasick([needle for _, needle in needles]),
        owners=tuple(owner for owner, _ in needles),
    )


@cache
def load_matcher() -> Matcher:
    """A matcher of all signatures that ship with Stoker. Raises DataError."""
    return make_matcher(load_signatures())


def applies(signature: Signature, engine: str, release: str) -> bool:
    """Whether this engine's release prints it, as far as both are known."""
    if signature.engines and engine and engine not in signature.engines:
        return False
    version = parse_version(release) if release else None
    wanted = parse_version_range(signature.releases) if signature.releases else None
    return version is None or wanted is None or version_is_in(version, wanted)


def _try(signature: Signature, nearby: _Neighbours, at: int, phase: str) -> Event | None:
    captured: dict[str, Plain] = {}
    line = nearby.lines[at]
    if signature.pattern:
        found = _compile(signature.pattern).search(line.text)
        if found is None:
            return None
        captured = {
            name: _read_group(name, text) for name, text in found.groupdict().items() if text
        }
    if signature.phases and phase and phase not in signature.phases:
        return None
    if not _is_around(signature.around, nearby, at):
        return None
    return Event(signature=signature, line=line, captured=captured, phase=phase)


def _is_around(around: Around, nearby: _Neighbours, at: int) -> bool:
    return all(nearby.has(pattern, at, around.within) for pattern in around.near) and not any(
        nearby.has(pattern, at, around.within) for pattern in around.not_near
    )


class _Neighbours:
    """Where patterns stand in the lines of one search; each pattern is looked for once."""

    def __init__(self, lines: Sequence[LogLine]) -> None:
        self.lines = lines
        self._places: dict[str, list[int]] = {}
        self._blocks: list[bytes] = []

    def has(self, pattern: str, at: int, within: int) -> bool:
        """Whether a line at most ``within`` lines away has it. Lines of another log, or from
        behind a gap, stand beside this one by chance."""
        line = self.lines[at]
        places = self._find(pattern)
        for place in places[bisect_left(places, at - within) : bisect_right(places, at + within)]:
            other = self.lines[place]
            if other.origin == line.origin and abs(other.number - line.number) <= within:
                return True
        return False

    def _find(self, pattern: str) -> list[int]:
        places = self._places.get(pattern)
        if places is None:
            places = self._places[pattern] = list(self._search(pattern))
        return places

    def _search(self, pattern: str) -> Iterator[int]:
        # Whatever a line matches, the lines around it match as one text: that settles most blocks.
        whole, alone = _compile_for_blocks(pattern), _compile(pattern)
        for number, block in enumerate(self._list_blocks()):
            if whole.search(block):
                begin = number * _BLOCK_LINES
                lines = self.lines[begin : begin + _BLOCK_LINES]
                yield from (at for at, line in enumerate(lines, begin) if alone.search(line.text))

    def _list_blocks(self) -> Sequence[bytes]:
        if not self._blocks:
            self._blocks = [
                "\n".join(line.text for line in self.lines[at : at + _BLOCK_LINES]).encode(
                    "utf-8", "replace"
                )
                for at in range(0, len(self.lines), _BLOCK_LINES)
            ]
        return self._blocks


@lru_cache(maxsize=8192)
def _compile(pattern: str) -> Any:
    return re2.compile(pattern)


@lru_cache(maxsize=1024)
def _compile_for_blocks(pattern: str) -> Any:
    return re2.compile(f"(?m){pattern}".encode())


def _read_group(name: str, text: str) -> Plain:
    """A figure of a pattern; versions stay words, since 550.120 is not 550.12."""
    return text if name.endswith(("version", "release")) else _as_plain(text)


def _as_plain(text: str) -> Plain:
    """A figure as a number, so that it can be compared; a word as it is."""
    plain = text.replace(",", "")
    try:
        return int(plain)
    except ValueError:
        pass
    try:
        number = float(plain)
    except ValueError:
        return text
    return number if abs(number) < float("inf") else text
