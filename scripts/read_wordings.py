"""Write since when, and until when, an engine prints what a signature knows.

    python -m scripts.read_wordings .cache/wheels/sources/sglang-* --out wordings/

Each folder holds one unpacked package and is named KIND-RELEASE; nothing of it is run. A signature
that names the engine gets a span where one of its texts is a failure in these sources
(:mod:`scripts.list_failures`, every file). The span is wide on purpose: a release in which a needle
stands anywhere counts too, for a pattern may want more than a figure. Needles that stand in no
release are listed as ``beside``: another program prints them, and for how long nobody read.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import ahocorasick_rs

from scripts.list_failures import Failure, find_signatures, read_failures
from stoker.diagnosis.matching import make_matcher
from stoker.knowledge.lifetimes import order_releases
from stoker.knowledge.signatures import Signature, load_signatures
from stoker.model.facts import Plain

#: One text in several pieces, as formatters break it.
_BREAK = re.compile(r"""["']\s*\n\s*[fFrRbBuU]{0,2}["']""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one release has: the failures that fit, by signature, and the needles that stand in it
    anywhere."""

    fitting: frozenset[str]
    needles: frozenset[str]


def signatures_of(engine: str, signatures: Iterable[Signature]) -> tuple[Signature, ...]:
    """Those that name the engine; what any engine may print is a library's word."""
    return tuple(each for each in signatures if engine in each.engines and each.needles)


class Reader:
    """Reads releases of one engine. What two releases share, most files and texts, is read once."""

    def __init__(self, engine: str, signatures: Iterable[Signature]) -> None:
        self._engine = engine
        self._matcher = make_matcher(signatures_of(engine, signatures))
        each_once = dict.fromkeys(n for each in self._matcher.signatures for n in each.needles)
        self._needles = tuple(each_once)
        self._automaton = ahocorasick_rs.AhoCorasick(self._needles)
        self._files: dict[str, Reading] = {}
        self._texts: dict[str, Reading] = {}

    def read_release(self, folder: Path) -> Reading:
        """One unpacked package."""
        files = (path.read_text("utf-8", "replace") for path in sorted(folder.rglob("*.py")))
        return _join(self._read_file(text) for text in files)

    def _read_file(self, text: str) -> Reading:
        known = self._files.get(text)
        if known is None:
            found = self._find_needles(_BREAK.sub("", text))
            # Most files hold no needle, and to take them apart is what lasts.
            failures = read_failures(text, "") if found else ()
            here = Reading(fitting=frozenset(), needles=found)
            known = _join((here, *(self._read_failure(each) for each in failures)))
            self._files[text] = known
        return known

    def _read_failure(self, failure: Failure) -> Reading:
        known = self._texts.get(failure.printed)
        if known is None:
            fitting = frozenset(find_signatures(self._matcher, self._engine, failure))
            needles = self._find_needles(failure.printed) if fitting else frozenset[str]()
            known = self._texts[failure.printed] = Reading(fitting=fitting, needles=needles)
        return known

    def _find_needles(self, text: str) -> frozenset[str]:
        found = self._automaton.find_matches_as_indexes(text, overlapping=True)
        return frozenset(self._needles[index] for index, _, _ in found)


def _join(readings: Iterable[Reading]) -> Reading:
    fitting: set[str] = set()
    needles: set[str] = set()
    for each in readings:
        fitting |= each.fitting
        needles |= each.needles
    return Reading(fitting=frozenset(fitting), needles=frozenset(needles))


def find_span(signature: Signature, readings: Mapping[str, Reading]) -> dict[str, Plain] | None:
    """The span of a signature over releases in their order; None where the sources tell none."""
    if not any(signature.id in reading.fitting for reading in readings.values()):
        return None
    seen = frozenset[str]().union(*(reading.needles for reading in readings.values()))
    beside = [needle for needle in signature.needles if needle not in seen]
    has = [
        release
        for release, reading in readings.items()
        if signature.id in reading.fitting or reading.needles.intersection(signature.needles)
    ]
    releases = list(readings)
    last = None if has[-1] == releases[-1] else has[-1]
    inside = releases[releases.index(has[0]) : releases.index(has[-1])]
    gaps = [release for release in inside if release not in has]
    lists = {"gaps": gaps, "beside": beside}
    return {"first": has[0], "last": last} | {name: each for name, each in lists.items() if each}


def make_wordings(
    engine: str, readings: Mapping[str, Reading], signatures: Iterable[Signature], *, today: str
) -> str:
    """The data file of one engine, one signature a line."""
    ordered = {release: readings[release] for release in order_releases(readings)}
    spans = {each.id: find_span(each, ordered) for each in signatures_of(engine, signatures)}
    rows = [
        f"  {json.dumps(name)}: {json.dumps(spans[name])}" for name in sorted(spans) if spans[name]
    ]
    source = {
        "kind": "documented",
        "where": f"the texts in the sources of {engine}, read as syntax trees",
        "version": f"{next(iter(ordered))} to {list(ordered)[-1]}",
        "date": today,
    }
    body = ",\n".join(rows)
    return (
        f'{{\n "engine": {json.dumps(engine)},\n "source": {json.dumps(source)},\n'
        f' "releases": {json.dumps(list(ordered))},\n'
        f' "signatures": {{\n{body}\n }}\n}}\n'
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the packages, write a file for each engine, and say what has a span."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="PACKAGE_FOLDER")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER")
    chosen = parser.parse_args(arguments)
    readings: dict[str, dict[str, Reading]] = {}
    readers: dict[str, Reader] = {}
    for folder in (each.resolve() for each in chosen.folders):
        engine, dash, release = folder.name.partition("-")
        if not dash or not folder.is_dir():
            parser.error(f"{folder}: name unpacked packages, each in a folder KIND-RELEASE")
        reader = readers.setdefault(engine, Reader(engine, load_signatures()))
        readings.setdefault(engine, {})[release] = reader.read_release(folder)
    today = datetime.now(UTC).date().isoformat()
    for engine, found in readings.items():
        text = make_wordings(engine, found, load_signatures(), today=today)
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / f"{engine}.json").write_text(text, encoding="utf-8")
        every = len(signatures_of(engine, load_signatures()))
        told = len(json.loads(text)["signatures"])
        sys.stdout.write(f"{engine}: {told} of {every} signatures have a span\n")


if __name__ == "__main__":
    main()
