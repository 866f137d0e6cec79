"""A log as lines: without colours, progress bars, and the prefixes of whoever carried it.

Called by the commands and by whoever scores diagnoses. Pure: chunks of bytes in, lines out.
Whatever is read, it is read: text that is no text, lines without an end, a log of any size.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from stoker.diagnosis.inputs import LogLine
from stoker.diagnosis.needles import load_needles
from stoker.diagnosis.prefixes import Bare, strip_prefixes
from stoker.diagnosis.sifting import Kept, Room, keep_lines
from stoker.model.diagnosis import ReadInput

#: A line that its carrier had cut is put together up to this size.
_MOST_JOINED_CHARACTERS = 64 << 10
#: So many parts of one line that a terminal would have written over are kept at each end.
_MOST_OVERWRITTEN = 50
_PROGRESS = re.compile(r"\d{1,3}%\||\d+(?:/\d+|it|ex) \[[\d:?]+|\r?[^\w]*\d{1,3}%[^\w]*$")
#: What goes on with a trace of the process that began it, though it has no prefix of its own.
_GOES_ON = re.compile(
    r"\s|$|Traceback \(most recent|The above exception was|During handling of the above"
    r"|(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Exit|Interrupt|Warning)\b"
)
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
#: Of a log whose lines are mostly the kernel's, all are.
_MOSTLY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """A log that was read: lines of engine and service, and those of the kernel among them."""

    lines: tuple[LogLine, ...]
    kernel: tuple[LogLine, ...]
    read: ReadInput


def read_lines(chunks: Iterable[bytes], origin: str) -> tuple[LogLine, ...]:
    """All lines of a log, the kernel's too, in their order; text that is no UTF-8 is shown so."""
    kept = keep_lines(_as_utf8(chunks), load_needles())
    return tuple(line for line, _ in _list_lines(kept, origin))


def read_log(
    chunks: Iterable[bytes], origin: str, *, is_kernel: bool = False, room: Room | None = None
) -> ReadLog:
    """A log with the kernel's lines apart. ``is_kernel``: it is the kernel's own log."""
    kept = keep_lines(_as_utf8(chunks), load_needles(), room)
    lines = list(_list_lines(kept, origin))
    told = sum(is_theirs for _, is_theirs in lines)
    is_kernel = is_kernel or told > _MOSTLY * len(lines)
    return ReadLog(
        lines=() if is_kernel else tuple(line for line, is_theirs in lines if not is_theirs),
        kernel=tuple(line for line, is_theirs in lines if is_kernel or is_theirs),
        read=ReadInput(
            origin=origin,
            kind="kernel" if is_kernel else "log",
            lines=kept.line_count,
            size_bytes=kept.size_bytes,
            note="" if kept.is_whole else _tell_kept(kept),
        ),
    )


def _tell_kept(kept: Kept) -> str:
    numbers = len({number for number, _ in kept.lines})
    return (
        f"{numbers} of its lines were looked at: the beginning, the end, and of the rest those"
        " that a signature looks for, a few times each"
    )


def _as_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes; a log in UTF-16, as shells of Windows write it, as UTF-8."""
    decoder: codecs.IncrementalDecoder | None = None
    is_first = True
    for chunk in chunks:
        content = chunk
        if is_first and chunk:
            is_first = False
            name = _UTF16.get(chunk[:2])
            decoder = codecs.getincrementaldecoder(name)("replace") if name else None
            content = chunk[2:] if name else chunk.removeprefix(codecs.BOM_UTF8)
        yield content if decoder is None else decoder.decode(content).encode("utf-8", "replace")


def _list_lines(kept: Kept, origin: str) -> Iterator[tuple[LogLine, bool]]:
    """Each line, and whether the kernel wrote it."""
    rank, is_export = "", False
    for number, stripped in _join(_strip_all(kept.lines)):
        bare = stripped
        is_export = is_export or bare.text.startswith("__CURSOR=")
        if is_export:
            message = _read_export(bare.text)
            bare = strip_prefixes(message or "")
        if not bare.text.strip():
            continue
        if bare.rank or bare.is_begun or not _GOES_ON.match(bare.text):
            rank = bare.rank
        line = LogLine(number=number, text=bare.text, origin=origin, rank=bare.rank or rank)
        yield line, bare.is_kernel


def _read_export(text: str) -> str | None:
    """The text of a record of the journal's export format; None for its other fields."""
    name, is_field, value = text.partition("=")
    if name == "MESSAGE" and is_field:
        return value
    is_other = bool(is_field) and name.isupper() and " " not in name
    # A text of several lines stands alone, behind eight bytes that count it.
    return None if is_other or name == "MESSAGE" else text.lstrip("\x00\ufffd")


def _strip_all(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, Bare]]:
    for number, raw in lines:
        text = raw.decode("utf-8", "replace")
        if "\r" not in text:
            yield number, strip_prefixes(text)
            continue
        for part in _list_parts(text):
            yield number, strip_prefixes(part)


def _list_parts(text: str) -> Sequence[str]:
    """What a terminal would have written one over the other: of a progress bar the last state."""
    parts = [part for part in text.split("\r") if part]
    last = len(parts) - 1
    kept = [
        part
        for at, part in enumerate(parts)
        if at == last or not (_is_progress(part) and _is_progress(parts[at + 1]))
    ]
    if len(kept) > 2 * _MOST_OVERWRITTEN:
        kept = [*kept[:_MOST_OVERWRITTEN], *kept[-_MOST_OVERWRITTEN:]]
    return kept


def _is_progress(part: str) -> bool:
    return _PROGRESS.search(part[:400]) is not None


def _join(lines: Iterable[tuple[int, Bare]]) -> Iterator[tuple[int, Bare]]:
    """Lines that their carrier had cut, whole again, under the number of their first part."""
    begun: tuple[int, Bare] | None = None
    for part in lines:
        whole = part if begun is None else (begun[0], _append(begun[1], part[1]))
        is_open = whole[1].is_cut and len(whole[1].text) < _MOST_JOINED_CHARACTERS
        begun = whole if is_open else None
        if not is_open:
            yield whole
    if begun is not None:
        yield begun


def _append(first: Bare, second: Bare) -> Bare:
    return replace(first, text=first.text + second.text, is_cut=second.is_cut)
