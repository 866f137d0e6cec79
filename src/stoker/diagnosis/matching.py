"""Which signatures stand in which lines.

Called by :mod:`stoker.diagnosis.diagnose`. Every signature has a text that must stand in the line,
so one pass of an Aho-Corasick automaton finds the few lines that are worth a pattern, however many
signatures there are. Patterns are RE2's: no text makes them slow.
"""

from __future__ import annotations

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

#: A line that comes again and again is looked at so many times for one signature.
MOST_EVENTS = 400


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
        seen: dict[str, int] = {}
        for at, line in enumerate(lines):
            found = self.automaton.find_matches_as_indexes(line.text, overlapping=True)
            for number in sorted({self.owners[index] for index, _, _ in found}):
                signature = self.signatures[number]
                if seen.get(signature.id, 0) >= MOST_EVENTS:
                    continue
                phase = phases[at] if at < len(phases) else ""
                event = _try(signature, lines, at, phase)
                if event is not None:
                    seen[signature.id] = seen.get(signature.id, 0) + 1
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


def _try(signature: Signature, lines: Sequence[LogLine], at: int, phase: str) -> Event | None:
    captured: dict[str, Plain] = {}
    if signature.pattern:
        found = _compile(signature.pattern).search(lines[at].text)
        if found is None:
            return None
        captured = {name: _as_plain(text) for name, text in found.groupdict().items() if text}
    if signature.phases and phase and phase not in signature.phases:
        return None
    if not _is_around(signature.around, lines, at):
        return None
    return Event(signature=signature, line=lines[at], captured=captured, phase=phase)


def _is_around(around: Around, lines: Sequence[LogLine], at: int) -> bool:
    if not around.near and not around.not_near:
        return True
    window = lines[max(0, at - around.within) : at + around.within + 1]
    return all(_is_in(pattern, window) for pattern in around.near) and not any(
        _is_in(pattern, window) for pattern in around.not_near
    )


def _is_in(pattern: str, window: Sequence[LogLine]) -> bool:
    compiled = _compile(pattern)
    return any(compiled.search(line.text) for line in window)


@lru_cache(maxsize=8192)
def _compile(pattern: str) -> Any:
    return re2.compile(pattern)


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
