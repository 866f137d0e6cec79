"""Failures inside code that the deployment's own patches changed.

Called by :mod:`stoker.diagnosis.diagnose`. Pure. A patch is a unified diff as git writes it; the
format is a dozen rules and has not changed in decades, and of a diff only its files and the names
in its new lines are wanted, so no library is taken for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.diagnosis.deciding import Clue, show_line
from stoker.diagnosis.inputs import Inputs
from stoker.diagnosis.matching import Event
from stoker.diagnosis.tracebacks import Chain, Frame, Raised
from stoker.knowledge.causes import load_causes
from stoker.model.diagnosis import Certainty, Evidence, Gravity
from stoker.model.facts import Plain

PARTIAL = "patch-partial-initialisation"
CRASH = "patch-crash"

_HUNK = re.compile(r"@@ -\d{1,9}(?:,(?P<old>\d{1,9}))? \+\d{1,9}(?:,(?P<new>\d{1,9}))? @@")
_ATTRIBUTE = re.compile(r"\.([A-Za-z_]\w*)")
_MISSING = re.compile(r"object has no attribute ['\"](?P<attribute>\w+)['\"]")
_ESCAPE = re.compile(rb"\\(?:([0-7]{3})|.)", re.DOTALL)
_MOST_NAMES = 2000
#: So many last parts of two paths must agree: a package and a module in it.
_LEAST_PARTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """What a unified diff changes: the paths of files as they stand there, and the attributes
    that its new lines name."""

    files: tuple[str, ...]
    names: tuple[str, ...]


def parse_patch(text: str) -> Patch:
    """What a unified diff changes; empty for a text that is none."""
    files: dict[str, None] = {}
    names: dict[str, None] = {}
    old = new = 0
    for line in text.splitlines():
        if old > 0 or new > 0:
            old -= line[:1] in (" ", "-", "")
            new -= line[:1] in (" ", "+", "")
            if line.startswith("+") and len(names) < _MOST_NAMES:
                names.update(dict.fromkeys(_ATTRIBUTE.findall(line)))
        elif found := _HUNK.match(line):
            old, new = int(found["old"] or 1), int(found["new"] or 1)
        elif line.startswith(("--- ", "+++ ")):
            path = _read_path(line[4:])
            files.update({path: None} if path else {})
    return Patch(files=tuple(files), names=tuple(names))


def _read_path(text: str) -> str:
    path = text.partition("\t")[0].strip()
    if path.startswith('"'):
        path = _unquote(path)
    if path == "/dev/null":
        return ""
    return path[2:] if path[:2] in ("a/", "b/") else path


def _unquote(text: str) -> str:
    """A path that git has quoted as C does: ``"a/\\303\\244.py"`` (core.quotePath)."""
    escaped = _ESCAPE.sub(
        lambda found: bytes([int(found[1], 8) & 255]) if found[1] else found[0][1:],
        text.strip('"').encode("utf-8", "replace"),
    )
    return escaped.decode("utf-8", "replace")


def find_patch_clues(
    chains: Sequence[Chain], events: Sequence[Event], inputs: Inputs
) -> tuple[Clue, ...]:
    """What tracebacks say that end in, or pass through, code of a patch."""
    if not inputs.patched_files:
        return ()
    order = {id(line): at for at, line in enumerate(inputs.lines)}
    changed = _Changed(inputs.patched_files)
    clues: list[Clue] = []
    for chain in chains:
        for raised in chain.raised:
            touched = _find_touched(raised, changed)
            if touched is not None:
                earlier = _find_earlier(raised, chains, events, order)
                clues.extend(_accuse(raised, touched, earlier, inputs))
                break
    return tuple(clues)


@dataclass(frozen=True, slots=True)
class _Touched:
    """The patch whose code a trace meets, and where. ``is_last``: the exception came from there."""

    patch: str
    file: str
    frame: Frame
    is_last: bool


class _Changed:
    """The files of all patches. A trace names the same few files again and again, and a patch may
    hold thousands; so what each path met is kept, and only files of one name are compared."""

    def __init__(self, patched: Mapping[str, Sequence[str]]) -> None:
        self._by_name: dict[str, list[tuple[str, str]]] = {}
        self._met: dict[str, tuple[str, str] | None] = {}
        for patch, files in patched.items():
            for file in files:
                self._by_name.setdefault(_last_part(file), []).append((patch, file))

    def find(self, path: str) -> tuple[str, str] | None:
        """The patch, and its file, that a path of a traceback is; None for other files."""
        if path not in self._met:
            pairs = self._by_name.get(_last_part(path), ())
            self._met[path] = next((pair for pair in pairs if is_same_file(pair[1], path)), None)
        return self._met[path]


def _last_part(path: str) -> str:
    return next((part for part in reversed(path.split("/")) if part not in ("", ".")), "")


def _find_touched(raised: Raised, changed: _Changed) -> _Touched | None:
    """The deepest call that stands in a file of a patch."""
    for at, frame in enumerate(reversed(raised.frames)):
        met = changed.find(frame.path)
        if met is not None:
            return _Touched(*met, frame, at == 0)
    return None


def is_same_file(patched: str, path: str) -> bool:
    """Whether a path of a diff and one of a traceback end alike.

    A repository may keep its package in a folder (``python/sglang/...``) that an installed one
    lies without; so all but the first part or two must agree.
    """
    wanted = [part for part in patched.split("/") if part not in ("", ".")]
    there = [part for part in path.split("/") if part not in ("", ".")]
    shared = 0
    while shared < min(len(wanted), len(there)) and wanted[-1 - shared] == there[-1 - shared]:
        shared += 1
    return shared > 0 and (
        shared == len(wanted) or shared >= max(_LEAST_PARTS, len(wanted) - _LEAST_PARTS)
    )


def _find_earlier(
    raised: Raised, chains: Sequence[Chain], events: Sequence[Event], order: Mapping[int, int]
) -> Evidence | None:
    """What had failed before: the first exception, or the first line that tells an error."""
    begin = order.get(id(raised.line), 0)
    causes = load_causes()
    told = [
        event.line
        for event in events
        if event.signature.tells in ("cause", "symptom")
        and any(causes[each.kind].gravity is Gravity.ERROR for each in event.signature.means)
    ]
    lines = [*(chain.first.line for chain in chains), *told]
    before = [line for line in lines if order.get(id(line), begin) < begin]
    # The exception itself may be told in a line above it, and again by another process.
    others = [line for line in before if raised.text not in line.text]
    first = min(others, key=lambda line: order[id(line)], default=None)
    return None if first is None else show_line(first)


def _accuse(
    raised: Raised, touched: _Touched, earlier: Evidence | None, inputs: Inputs
) -> Iterator[Clue]:
    missing = _MISSING.search(raised.message)
    attribute = missing["attribute"] if missing else ""
    names = inputs.patched_names.get(touched.patch, ())
    is_partial = bool(attribute) and (not names or attribute in names)
    is_sure = touched.is_last and (not is_partial or attribute in names) and earlier is None
    captured: dict[str, Plain] = {
        "patch": touched.patch,
        "file": touched.file,
        "function": touched.frame.name,
        "exception": raised.text,
        **({"attribute": attribute} if attribute else {}),
        **({"earlier": earlier.text} if earlier else {}),
    }
    place = show_line(touched.frame.line)
    for at, evidence in enumerate(filter(None, (earlier, show_line(raised.line), place))):
        yield Clue(
            row=load_causes()[PARTIAL if is_partial else CRASH],
            tells="cause",
            certainty=Certainty.CERTAIN if is_sure else Certainty.LIKELY,
            evidence=evidence,
            captured=captured,
            order=at,
        )
