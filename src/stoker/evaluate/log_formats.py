"""Which releases still write the lines that the tables read: ``python -m
stoker.evaluate.log_formats FOLDER``.

FOLDER holds unpacked packages, one folder each, named ``KIND-RELEASE``. Their texts are read as
syntax trees, never run: every string that a release could write is filled in with a figure and held
against each pattern. A cross means that no string fits: the line is new, gone, or put together in
a way that cannot be seen so. Called by hand; reads files and nothing else.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from stoker.evaluate.source_texts import fill_joined, fill_text
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.report.table import render_table

#: What is no plain text in a pattern; only files that hold some of its plain text are parsed.
_SPECIAL = re.compile(r"\\[.()\[\]]|\\.|[\[(|?*+{}^$)\]]|\.")
_LIST = re.compile(r"=12(?=[,\]]|$)")
_LEAST_ANCHOR = 10
_MOST_BYTES = 4 << 20


def find_releases(folder: Path) -> tuple[tuple[str, str, Path], ...]:
    """Kind, release and folder of each package, the oldest release of each kind first."""
    found = []
    for path in sorted(folder.iterdir()):
        kind, dash, release = path.name.partition("-")
        if path.is_dir() and dash and kind in engine_kinds():
            found.append((kind, release, path))
    return tuple(sorted(found, key=lambda each: (each[0], _numbers(each[1]))))


def fits(pattern: str, texts: Sequence[str]) -> bool:
    """Whether any of these lines has the pattern."""
    compiled = re.compile(pattern)
    return any(compiled.search(text) or compiled.search(_as_list(text)) for text in texts)


def read_texts(folder: Path, patterns: Sequence[str]) -> tuple[str, ...]:
    """Every string of the files that could hold one of the patterns, filled in."""
    anchors = {anchor for pattern in patterns for anchor in find_anchors(pattern)}
    found: dict[str, None] = {}
    for path in sorted(folder.rglob("*.py")):
        if path.stat().st_size > _MOST_BYTES:
            continue
        text = path.read_text("utf-8", "replace")
        if any(anchor in text for anchor in anchors):
            found.update(dict.fromkeys(_strings(text)))
    return tuple(found)


def find_anchors(pattern: str) -> tuple[str, ...]:
    """Texts that stand in a pattern as they are: the longest, or all where it has alternatives."""
    plain = re.sub(r"\(\?P?[^)]*?>", "(", pattern)
    parts = (part.strip() for part in _SPECIAL.split(plain))
    found = sorted((part for part in parts if len(part) >= _LEAST_ANCHOR), key=len)
    return tuple(found) if "|" in pattern else tuple(found[-1:])


def render_formats(folder: Path) -> str:
    """One table for each engine: a row for each pattern, a column for each release."""
    blocks = []
    releases = find_releases(folder)
    for kind in dict.fromkeys(kind for kind, _, _ in releases):
        log = load_engine_table(kind).log
        rows = [(_name(row.pattern), row.pattern) for row in log.resolved]
        rows += [(phase.title, phase.pattern) for phase in log.phases]
        rows += [(note.title[:40], note.pattern) for note in log.notes]
        own = [(release, path) for each, release, path in releases if each == kind]
        texts = [read_texts(path, [pattern for _, pattern in rows]) for _, path in own]
        cells = [
            (name, *("+" if fits(pattern, each) else "x" for each in texts))
            for name, pattern in rows
        ]
        blocks.append(render_table((kind.upper(), *(release for release, _ in own)), cells))
    return "\n".join(blocks)


def _strings(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield fill_joined(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield fill_text(node.value)


def _as_list(text: str) -> str:
    """The same where a list is filled in: ``bs=[12]``."""
    return _LIST.sub("=[12]", text)


def _name(pattern: str) -> str:
    names = dict.fromkeys(name.partition("__")[0] for name in re.compile(pattern).groupindex)
    return " ".join(names)[:44]


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release))


def main() -> None:
    """Print the tables of the folder that the command line names."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    if len(sys.argv) != 2 or not folder.is_dir():
        sys.exit("name the folder with the unpacked packages, each in a folder KIND-RELEASE")
    sys.stdout.write(render_formats(folder))


if __name__ == "__main__":
    main()
