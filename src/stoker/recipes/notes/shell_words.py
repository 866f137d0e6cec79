"""The words of a shell's text, with what the quotes around them meant. Nothing is expanded.

Called by :mod:`stoker.recipes.notes.shell`. It knows the token rules of POSIX and what Bash adds to
them, and no grammar. The standard library's reader forgets which part of a word was quoted, and
with it whether a dollar is a dollar. Each character is looked at a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

OPERATORS = (
    *("<<<", "<<-", "&>>", "<<", ">>", ">|", ">&", "<&", "<>", "&>", "||", "&&", ";;", "|&"),
    *(";", "|", "&", "(", ")", "<", ">"),
)
#: Operators whose next word is a file, or a copy of a file descriptor.
REDIRECTIONS = frozenset({"<<<", "<<-", "&>>", "<<", ">>", ">|", ">&", "<&", "<>", "&>", "<", ">"})
_HERE = ("<<", "<<-")

_OPERATOR = re.compile("|".join(map(re.escape, OPERATORS)))
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_RUN = re.compile(r"[^\s'\"$`~*?\[{;|&()<>\\]+")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_PLACEHOLDER = re.compile(r"<[A-Za-z_](?:[^<>\n|&;]{0,58}[^<>\s|&;])?>")
_BRACES = re.compile(r"\{[^{}\s]{0,400}\}")
_TEMPLATE = re.compile(r"\{\{[^\n]{0,200}?\}\}")
_VARIABLE = re.compile(_NAME)
_SPECIAL = re.compile(r"[0-9@*#?$!-]")
_BRACED = re.compile(rf"({_NAME})(\[[@*]\])?(?::?-(.*))?", re.DOTALL)
_ARRAY = re.compile(rf"({_NAME})(\+?)=")
_NOT_RUN = "the output of a command, which is not run"
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}


class PieceKind(StrEnum):
    """What a piece of a word is."""

    TEXT = "text"
    VARIABLE = "variable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One piece of a word.

    ``text`` is what stands there, or a variable's name. ``raw`` is how it was written and
    ``reason`` why it is not known. ``is_list``: all items of an array.
    """

    kind: PieceKind
    text: str = ""
    raw: str = ""
    reason: str = ""
    is_quoted: bool = False
    is_list: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A word, an operator (a line feed is one), or an assignment of an array.

    ``operator`` is empty for a word. ``array`` is the name of an array, whose items are ``items``;
    ``appends``: to those that it has.
    """

    line: int
    operator: str = ""
    pieces: tuple[Piece, ...] = ()
    array: str = ""
    appends: bool = False
    items: tuple[Token, ...] = ()

    @property
    def literal(self) -> str | None:
        """The word if it is plain text throughout, else None."""
        if self.operator or self.array or any(p.kind is not PieceKind.TEXT for p in self.pieces):
            return None
        return "".join(piece.text for piece in self.pieces)

    @property
    def is_quoted(self) -> bool:
        """Whether any part of it was quoted, so that it is no keyword."""
        return any(piece.is_quoted for piece in self.pieces)


@dataclass(slots=True)
class _Reader:
    text: str
    place: int = 0
    line: int = 1
    here: list[tuple[str, bool]] = field(default_factory=list)

    def take(self, pattern: re.Pattern[str]) -> str:
        """What matches here, and go behind it; empty where nothing does."""
        found = pattern.match(self.text, self.place)
        return self.advance(found.end()) if found else ""

    def advance(self, end: int) -> str:
        """The text from here to there, and go there."""
        taken = self.text[self.place : end]
        self.line += taken.count("\n")
        self.place = end
        return taken

    def at(self, beginning: str) -> bool:
        return self.text.startswith(beginning, self.place)

    @property
    def is_done(self) -> bool:
        return self.place >= len(self.text)


def read_tokens(text: str, first_line: int = 1) -> tuple[Token, ...]:
    """All tokens of a text in their order; comments and here-documents are left out.

    A quote that nobody closes makes the rest of the text one unknown. Never raises.
    """
    return tuple(_tokens(_Reader(text=text, line=first_line)))


def _tokens(reader: _Reader) -> Iterator[Token]:
    before = ""
    while not reader.is_done:
        if reader.take(_BLANKS) or reader.take(_COMMENT):
            continue
        line = reader.line
        if reader.at("\n"):
            yield Token(line=line, operator=reader.advance(reader.place + 1))
            _skip_here(reader)
            continue
        operator = _find_operator(reader)
        if operator:
            reader.advance(reader.place + len(operator))
            yield Token(line=line, operator=operator)
        else:
            token = _read_word(reader)
            if before in _HERE:
                reader.here.append((token.literal or "", before.endswith("-")))
            if not _is_descriptor(token, reader):
                yield token
        before = operator


def _find_operator(reader: _Reader) -> str:
    found = _OPERATOR.match(reader.text, reader.place)
    if found is None or found[0][0] not in "<>":
        return found[0] if found else ""
    opens = reader.text[reader.place + 1 : reader.place + 2] == "("
    return "" if opens or _PLACEHOLDER.match(reader.text, reader.place) else found[0]


def _is_descriptor(token: Token, reader: _Reader) -> bool:
    """Whether a word is the number in front of a redirection: ``2>file``."""
    follows = reader.at("<") or reader.at(">")
    return follows and (token.literal or "").isdecimal() and not token.is_quoted


def _skip_here(reader: _Reader) -> None:
    """Go behind the here-documents that the line above began."""
    for delimiter, is_indented in reader.here:
        while not reader.is_done:
            end = reader.text.find("\n", reader.place)
            line = reader.advance(len(reader.text) if end < 0 else end + 1).rstrip("\n")
            if (line.lstrip("\t") if is_indented else line) == delimiter:
                break
    reader.here.clear()


def _read_word(reader: _Reader) -> Token:
    line, pieces = reader.line, list[Piece]()
    began = reader.place
    while not reader.is_done:
        found = _read_piece(reader, is_first=reader.place == began, before=pieces)
        if found is None:
            break
        pieces += found
        head = _ARRAY.fullmatch(reader.text, began, reader.place) if reader.at("(") else None
        if head is not None:
            return _read_array(reader, head, line)
    if reader.place == began:  # a character that begins nothing
        pieces.append(_text(reader.advance(began + 1)))
    return Token(line=line, pieces=tuple(pieces))


def _read_array(reader: _Reader, head: re.Match[str], line: int) -> Token:
    items: list[Token] = []
    reader.advance(reader.place + 1)
    while not reader.is_done and not reader.at(")"):
        if reader.take(_BLANKS) or reader.take(_COMMENT):
            continue
        if reader.at("\n"):
            reader.advance(reader.place + 1)
        else:
            items.append(_read_word(reader))
    reader.advance(min(reader.place + 1, len(reader.text)))
    return Token(line=line, array=head[1], appends=bool(head[2]), items=tuple(items))


def _read_piece(reader: _Reader, *, is_first: bool, before: list[Piece]) -> list[Piece] | None:
    """What begins here; None where the word ends."""
    if plain := reader.take(_RUN):
        return [_text(plain)]
    match reader.text[reader.place]:
        case "\\":
            return _read_escape(reader)
        case "'":
            return [_read_single(reader)]
        case '"':
            return _read_double(reader)
        case "$":
            return _read_dollar(reader, is_quoted=False)
        case "`":
            return [_read_backquotes(reader, is_quoted=False)]
        case "~":
            return [_read_tilde(reader, is_first=is_first, before=before)]
        case "*" | "?" | "[":
            raw = reader.advance(reader.place + 1)
            return [_unknown(raw, "a pattern that a shell compares with the names of files")]
        case "{":
            return [_read_braces(reader)]
        case "<" | ">":
            return _read_angle(reader)
    return None


def _read_escape(reader: _Reader) -> list[Piece]:
    escaped = reader.advance(min(reader.place + 2, len(reader.text)))[1:]
    return [] if escaped == "\n" else [_text(escaped or "\\", is_quoted=True)]


def _read_single(reader: _Reader) -> Piece:
    end = reader.text.find("'", reader.place + 1)
    if end < 0:
        return _unclosed(reader)
    return _text(reader.advance(end + 1)[1:-1], is_quoted=True)


def _read_double(reader: _Reader) -> list[Piece]:
    began = reader.place
    pieces = [_text("", is_quoted=True)]
    reader.advance(began + 1)
    plain = re.compile(r"[^\"\\$`]+")
    while not reader.is_done:
        if text := reader.take(plain):
            pieces.append(_text(text, is_quoted=True))
        elif reader.at('"'):
            reader.advance(reader.place + 1)
            return pieces
        elif reader.at("\\"):
            pieces.append(_text(_unescape(reader), is_quoted=True))
        elif reader.at("`"):
            pieces.append(_read_backquotes(reader, is_quoted=True))
        else:
            pieces += _read_dollar(reader, is_quoted=True)
    return [_unknown(reader.text[began:], "a quote that is never closed")]


def _unescape(reader: _Reader) -> str:
    """Inside of double quotes a backslash is itself but before these."""
    pair = reader.advance(min(reader.place + 2, len(reader.text)))
    if pair[1:] == "\n":
        return ""
    return pair[1:] if pair[1:] in tuple('"\\$`') else pair


def _read_dollar(reader: _Reader, *, is_quoted: bool) -> list[Piece]:
    if reader.at("$(("):
        return [
            _skip(
                reader,
                _end_of(reader, "(", ")"),
                "a sum that a shell computes",
                is_quoted=is_quoted,
            )
        ]
    if reader.at("$("):
        end = _end_of(reader, "(", ")")
        return [_skip(reader, end, _NOT_RUN, is_quoted=is_quoted)]
    if reader.at("${"):
        return [_read_braced(reader, is_quoted=is_quoted)]
    if not is_quoted and reader.at("$'"):
        return [_read_ansi(reader)]
    if not is_quoted and reader.at('$"'):
        reader.advance(reader.place + 1)
        return _read_double(reader)
    began = reader.place
    reader.advance(began + 1)
    if name := reader.take(_VARIABLE):
        return [_variable(name, f"${name}", is_quoted=is_quoted)]
    if special := reader.take(_SPECIAL):
        return [
            _unknown(f"${special}", "an argument or a state of the script", is_quoted=is_quoted)
        ]
    return [_text("$", is_quoted=is_quoted)]


def _read_braced(reader: _Reader, *, is_quoted: bool) -> Piece:
    raw = reader.advance(_end_of(reader, "{", "}"))
    found = _BRACED.fullmatch(raw[2:-1]) if raw.endswith("}") else None
    if found is None:
        return _unknown(raw, "a variable that a shell computes with", is_quoted=is_quoted)
    return _variable(found[1], raw, is_quoted=is_quoted, is_list=bool(found[2]))


def _end_of(reader: _Reader, opening: str, closing: str) -> int:
    """Where the bracket behind the dollar is closed: quotes and what is escaped are skipped."""
    depth = 0
    signs = re.compile(rf"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*+\"|[{opening}{closing}]", re.DOTALL)
    for found in signs.finditer(reader.text, reader.place + 1):
        depth += (found[0] == opening) - (found[0] == closing)
        if depth == 0 and found[0] == closing:
            return found.end()
    return len(reader.text)


def _read_ansi(reader: _Reader) -> Piece:
    found = re.compile(r"\$'((?:[^'\\]|\\.)*+)'", re.DOTALL).match(reader.text, reader.place)
    if found is None:
        return _unclosed(reader)
    raw = reader.advance(found.end())
    escapes = re.findall(r"\\(.)", found[1], re.DOTALL)
    if any(each not in _ESCAPES for each in escapes):
        return _unknown(raw, "a character that is written as a number")
    text = re.sub(r"\\(.)", lambda each: _ESCAPES[each[1]], found[1], flags=re.DOTALL)
    return _text(text, is_quoted=True)


def _read_backquotes(reader: _Reader, *, is_quoted: bool) -> Piece:
    found = re.compile(r"`(?:[^`\\]|\\.)*+`", re.DOTALL).match(reader.text, reader.place)
    end = found.end() if found else len(reader.text)
    return _skip(reader, end, _NOT_RUN, is_quoted=is_quoted)


def _read_tilde(reader: _Reader, *, is_first: bool, before: list[Piece]) -> Piece:
    begins = is_first or (bool(before) and before[-1].text.endswith(("=", ":")))
    found = re.compile(r"~[A-Za-z0-9._-]*(?=[/\s:;|&()<>]|$)").match(reader.text, reader.place)
    if begins and found:
        return _unknown(reader.advance(found.end()), "the home folder of whoever runs it")
    return _text(reader.advance(reader.place + 1))


def _read_braces(reader: _Reader) -> Piece:
    if template := reader.take(_TEMPLATE):
        return _unknown(template, "a template's gap")
    found = _BRACES.match(reader.text, reader.place)
    if found and ("," in found[0] or ".." in found[0]):
        reason = "several words in braces, which a shell takes apart"
        return _unknown(reader.advance(found.end()), reason)
    return _text(reader.advance(reader.place + 1))


def _read_angle(reader: _Reader) -> list[Piece] | None:
    if gap := reader.take(_PLACEHOLDER):
        return [_unknown(gap, "a gap that the note leaves to the reader")]
    if reader.at("<(") or reader.at(">("):
        end = _end_of(reader, "(", ")")
        return [_skip(reader, end, _NOT_RUN, is_quoted=False)]
    return None


def _skip(reader: _Reader, end: int, reason: str, *, is_quoted: bool) -> Piece:
    return _unknown(reader.advance(end), reason, is_quoted=is_quoted)


def _unclosed(reader: _Reader) -> Piece:
    return _unknown(reader.advance(len(reader.text)), "a quote that is never closed")


def _text(text: str, *, is_quoted: bool = False) -> Piece:
    return Piece(kind=PieceKind.TEXT, text=text, is_quoted=is_quoted)


def _unknown(raw: str, reason: str, *, is_quoted: bool = False) -> Piece:
    return Piece(kind=PieceKind.UNKNOWN, raw=raw, reason=reason, is_quoted=is_quoted)


def _variable(name: str, raw: str, *, is_quoted: bool, is_list: bool = False) -> Piece:
    return Piece(kind=PieceKind.VARIABLE, text=name, raw=raw, is_quoted=is_quoted, is_list=is_list)
