"""What is kept of a log that may be larger than the memory of this machine.

Called by :mod:`stoker.diagnosis.lines`. Pure: chunks of bytes in, raw lines with their numbers out.
A log of some MB is kept whole. Of a larger one its beginning, its end, and every line that some
signature looks for, with what stands around it; what comes again and again is kept a few times.
One pass of an Aho-Corasick automaton over the bytes finds them, so lines that nobody looks for
cost next to nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ahocorasick_rs import BytesAhoCorasick

#: Blocks end with a line. A line without an end is cut into pieces of the greater size.
_BLOCK_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20
#: So many bytes stand in two pieces, so that no needle is cut in two.
_OVERLAP_BYTES = 512
#: Of a longer line its beginning is kept, and what stands around needles.
MOST_LINE_BYTES = 16 << 10
_LINE_HEAD_BYTES = 4 << 10
_AROUND_BYTES = 1 << 10
_MOST_WINDOWS = 8
_GAP = b" [...] "
#: A shape is a line without its figures. So often it is kept, and so often with its neighbours.
_MOST_REPEATS = 50
_MOST_CONTEXTS = 8
_SHAPE_BYTES = 160
_MOST_SHAPES = 20_000
#: A text that was found so often says nothing new where it is found again.
_MOST_FINDINGS = 20_000
_DIGITS = b"0123456789"
_LINES_BEFORE, _LINES_BEHIND = 12, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How much is kept: of the beginning, of the end, and of what is found between them."""

    head_bytes: int = 3 << 19
    head_lines: int = 10_000
    tail_bytes: int = 3 << 20
    tail_lines: int = 20_000
    found_bytes: int = 4 << 20
    found_lines: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Raw lines without their ends, by their number from 1; a line that has no end for very long
    comes in pieces of one number. ``line_count`` and ``size_bytes`` are of the whole log."""

    lines: tuple[tuple[int, bytes], ...]
    line_count: int
    size_bytes: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Block:
    """Whole lines, or a piece of one; ``first`` is the number of its first line."""

    first: int
    content: bytes
    line_count: int

    def list_lines(self) -> Iterator[tuple[int, bytes]]:
        content = self.content.removesuffix(b"\n")
        return enumerate(content.split(b"\n"), self.first)


@dataclass(slots=True)
class _Pile:
    """Blocks that are kept whole."""

    blocks: deque[_Block] = field(default_factory=deque)
    size_bytes: int = 0
    line_count: int = 0

    def add(self, block: _Block) -> None:
        self.blocks.append(block)
        self.size_bytes += len(block.content)
        self.line_count += block.line_count

    def pop(self) -> _Block:
        block = self.blocks.popleft()
        self.size_bytes -= len(block.content)
        self.line_count -= block.line_count
        return block


def keep_lines(
    chunks: Iterable[bytes], needles: BytesAhoCorasick, room: Room | None = None
) -> Kept:
    """The lines of a log, or what is worth keeping of them. Never fails for what is read."""
    sieve = _Sieve(room or Room(), needles)
    number, size_bytes, is_ended = 1, 0, True
    for content, is_new in _cut(chunks):
        block = _Block(number, content, content.count(b"\n"))
        number += block.line_count
        size_bytes += is_new
        is_ended = content.endswith(b"\n")
        sieve.take(block)
    return Kept(
        lines=tuple(sieve.list_kept()),
        line_count=number - is_ended,
        size_bytes=size_bytes,
        is_whole=sieve.is_whole,
    )


def _cut(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Blocks of about one size, each with the count of its bytes that no block before had."""
    buffer, old = bytearray(), 0
    for chunk in chunks:
        for at in range(0, len(chunk), _BLOCK_BYTES):
            buffer += chunk[at : at + _BLOCK_BYTES]
            if len(buffer) < _BLOCK_BYTES:
                continue
            end = buffer.rfind(b"\n") + 1
            if end:
                yield bytes(buffer[:end]), end - old
                del buffer[:end]
                old = 0
            elif len(buffer) >= _PIECE_BYTES:
                yield bytes(buffer), len(buffer) - old
                del buffer[:-_OVERLAP_BYTES]
                old = len(buffer)
    if len(buffer) > old:
        yield bytes(buffer), len(buffer) - old


class _Sieve:
    """What is kept so far: blocks of the beginning and of the end, and lines between them."""

    def __init__(self, room: Room, needles: BytesAhoCorasick) -> None:
        self._room = room
        self._needles = needles
        self._head, self._tail = _Pile(), _Pile()
        self._before = b""
        self._found: dict[tuple[int, int], bytes] = {}
        self._found_bytes = 0
        self._shapes: dict[bytes, int] = {}
        self._counts: Counter[int] = Counter()
        self.is_whole = True

    def take(self, block: _Block) -> None:
        """What comes next. What the end has no room for any more goes to the beginning while
        there is some, and is sifted then."""
        room, tail, head = self._room, self._tail, self._head
        tail.add(block)
        while len(tail.blocks) > 1 and (
            tail.size_bytes > room.tail_bytes or tail.line_count > room.tail_lines
        ):
            oldest = tail.pop()
            fits = (
                head.size_bytes + len(oldest.content) <= room.head_bytes
                and head.line_count + oldest.line_count <= room.head_lines
            )
            if self.is_whole and fits:
                head.add(oldest)
            else:
                self.is_whole = False
                self._sift(oldest, behind=tail.blocks[0].content)

    def list_kept(self) -> Iterator[tuple[int, bytes]]:
        """All of it in order, each line short enough to be looked at."""
        yield from self._list_pile(self._head)
        for (number, _), line in sorted(self._found.items()):
            yield number, line
        yield from self._list_pile(self._tail)

    def _list_pile(self, pile: _Pile) -> Iterator[tuple[int, bytes]]:
        for block in pile.blocks:
            for number, line in block.list_lines():
                yield number, shorten_line(line, self._needles)

    def _sift(self, block: _Block, *, behind: bytes) -> None:
        content = block.content
        if self._is_full():
            return
        end, counted, number = -1, 0, block.first
        counts = self._counts
        for needle, start, _ in self._needles.find_matches_as_indexes(content):
            # Or a line that was looked at for an earlier needle.
            if counts[needle] >= _MOST_FINDINGS or start < end:
                continue
            counts[needle] += 1
            begin = content.rfind(b"\n", 0, start) + 1
            end = content.find(b"\n", start)
            end = len(content) if end < 0 else end
            number += content.count(b"\n", counted, begin)
            counted = begin
            self._find(block, number, slice(begin, end), behind)
            if self._is_full():
                break
        self._before = content[-_AROUND_BYTES * 4 :]

    def _find(self, block: _Block, number: int, place: slice, behind: bytes) -> None:
        line = block.content[place]
        shape = line[: _SHAPE_BYTES * 2].translate(None, _DIGITS)[:_SHAPE_BYTES]
        seen = self._shapes.get(shape, 0)
        if seen >= _MOST_REPEATS or (not seen and len(self._shapes) >= _MOST_SHAPES):
            return
        self._shapes[shape] = seen + 1
        self._keep(number, place.start, line)
        if seen < _MOST_CONTEXTS:
            self._keep_before(block, number, place.start)
            self._keep_behind(block, number, place.stop, behind)

    def _keep_before(self, block: _Block, number: int, begin: int) -> None:
        near = block.content[max(0, begin - _AROUND_BYTES * 8) : begin].removesuffix(b"\n")
        lines = near.split(b"\n") if near else []
        place = begin
        for line in reversed(lines[-_LINES_BEFORE:]):
            number, place = number - 1, place - len(line) - 1
            self._keep(number, place, line)
        if len(lines) < _LINES_BEFORE and begin <= len(near) + 1 and self._before:
            wanted = self._before.removesuffix(b"\n").split(b"\n")[1:]
            for line in reversed(wanted[-(_LINES_BEFORE - len(lines)) :]):
                number, place = number - 1, place - len(line) - 1
                self._keep(number, place, line)

    def _keep_behind(self, block: _Block, number: int, end: int, behind: bytes) -> None:
        most = _AROUND_BYTES * 16
        near = block.content[end + 1 : end + 1 + most]
        if len(near) < most:
            near += behind[: most - len(near)]
        place = end + 1
        # The last one may be cut.
        for line in near.split(b"\n")[:-1][:_LINES_BEHIND]:
            number += 1
            self._keep(number, place, line)
            place += len(line) + 1

    def _keep(self, number: int, place: int, line: bytes) -> None:
        # Pieces of one line lie side by side, each known by where it stands.
        key = (number, 0 if len(line) < MOST_LINE_BYTES else place)
        if key in self._found or self._is_full():
            return
        kept = shorten_line(line, self._needles)
        self._found[key] = kept
        self._found_bytes += len(kept)

    def _is_full(self) -> bool:
        room = self._room
        return self._found_bytes >= room.found_bytes or len(self._found) >= room.found_lines


def shorten_line(line: bytes, needles: BytesAhoCorasick) -> bytes:
    """The line; of one that is too long its beginning and what stands around needles."""
    if len(line) <= MOST_LINE_BYTES:
        return line
    parts, end = [line[:_LINE_HEAD_BYTES]], _LINE_HEAD_BYTES
    for _, start, behind in needles.find_matches_as_indexes(line[_LINE_HEAD_BYTES:]):
        begin = max(end, start + _LINE_HEAD_BYTES - _AROUND_BYTES)
        stop = behind + _LINE_HEAD_BYTES + _AROUND_BYTES
        if stop <= end:
            continue
        parts.append(line[begin:stop])
        end = stop
        if len(parts) > _MOST_WINDOWS:
            break
    return _GAP.join((*parts, line[-_AROUND_BYTES // 4 :]))
