"""The simple commands of a shell's text, with the variables that the very same text gives them.

Called by the readers of notes. No command is run and no file is read. A variable has a value only
where the text assigns it plainly; one that is assigned under a condition, computed, or changed by
something that is not read is unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stoker.recipes.notes.budget import SPENT, Budget, current_budget
from stoker.recipes.notes.shell_words import REDIRECTIONS, Piece, PieceKind, Token, read_tokens
from stoker.recipes.notes.text import has_mark, mark, split_blanks

#: What one word may grow to, a list that a variable holds, and a command.
MAX_WORD_CHARACTERS = 1 << 16
MAX_MARKED_CHARACTERS = 1 << 12
MAX_ITEMS = 512
MAX_WORDS = 4096
#: So many variables are named as those that a word is made of.
_MAX_NAMES = 64

_SEPARATORS = frozenset({"\n", ";", ";;", "&", "&&", "||", "|", "|&", "(", ")"})
_OPENING = frozenset({"if", "while", "until", "for", "case", "select", "{"})
_CLOSING = frozenset({"fi", "done", "esac", "}"})
_BETWEEN = frozenset({"then", "do", "!", "time", "else", "elif", "function"})
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_READING = frozenset({"read", "mapfile", "readarray", "getopts"})
_FOREIGN = frozenset({"source", ".", "eval"})
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Characters are copied faster than anything else is done.
_CHARACTERS_OF_A_STEP = 256
_PATTERN = re.compile(r"[*?\[]")
#: A template's gap that stands inside of quotes, and what people write for "and so on".
_GAP = re.compile(r"\{\{.*\}\}", re.DOTALL)
_LEFT_OUT = ("...", "…")

Reader = Callable[[str, int], Sequence["Command"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word as the program would get it. ``variables``: those whose values were put in."""

    text: str
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A simple command: its words, the variables that it gets, and the line that it begins in.

    What is not known stands in marks (see :mod:`stoker.recipes.notes.text`).
    """

    words: tuple[Word, ...]
    env: Mapping[str, Word] = field(default_factory=dict)
    line: int = 0

    @property
    def argv(self) -> tuple[str, ...]:
        """The texts of its words."""
        return tuple(word.text for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """What a variable holds: the items of an array, or one text."""

    items: tuple[Word, ...]
    is_list: bool = False


@dataclass(slots=True)
class _Block:
    """Commands between two keywords, and what is assigned among them."""

    opened_by: str
    is_function: bool = False
    values: dict[str, _Value] = field(default_factory=dict)


@dataclass(slots=True)
class _State:
    counts: Mapping[str, int]
    blocks: list[_Block]
    exported: set[str] = field(default_factory=set)
    exports_all: bool = False
    budget: Budget = field(default_factory=current_budget)

    def find(self, name: str) -> _Value | None:
        self.budget.spend(len(self.blocks))
        for block in reversed(self.blocks):
            if name in block.values:
                return block.values[name]
            if block.is_function and self.counts[name] > 1:
                return _unknown_value(f"${name}", "it is assigned in several places")
        return None

    def assign(self, name: str, value: _Value) -> None:
        self.blocks[-1].values[name] = value

    def close(self, line: int) -> None:
        """Leave a block: nobody knows whether it ran."""
        if len(self.blocks) == 1:
            return
        for name in self.blocks.pop().values:
            reason = f"it is assigned in a block that ends in line {line} and may not run"
            self.assign(name, _unknown_value(f"${name}", reason))

    def names(self) -> set[str]:
        """The variables that have a value here."""
        self.budget.spend(len(self.blocks) + sum(len(block.values) for block in self.blocks))
        return {name for block in self.blocks for name in block.values}

    def forget(self, word: str, line: int) -> None:
        """Something ran that is not read: every variable may have another value now."""
        names = self.names()
        for name in names:
            self.assign(name, _unknown_value(f"${name}", f"`{word}` in line {line} may change it"))


def read_commands(text: str, first_line: int = 1) -> tuple[Command, ...]:
    """All simple commands in their order. Never raises; see the module for what is unknown."""
    if current_budget().is_spent:
        return ()
    tokens = read_tokens(text, first_line)
    state = _State(counts=_count_assignments(tokens), blocks=[_Block(opened_by="")])
    state.budget.spend(len(tokens))
    commands: list[Command] = []
    for simple in _split(tokens, state):
        if not state.budget.spend(1):
            break
        command = _run(simple, state)
        if command is not None:
            commands.append(command)
    return tuple(commands)


def exported_variables(text: str, first_line: int = 1) -> dict[str, tuple[Word, int]]:
    """The variables that a text exports for whatever follows it, with their lines."""
    found: dict[str, tuple[Word, int]] = {}
    for command in read_commands(f"{text}\n: {_END}", first_line):
        if command.argv[-1:] == (_END,):
            found = {name: (word, command.line) for name, word in command.env.items()}
    return found


_END = "end-of-the-text"


def is_assignment(text: str) -> bool:
    """Whether a word is ``NAME=value``, as programs like env(1) take it."""
    return _ASSIGNMENT.match(text) is not None and "+=" not in text.split("=")[0] + "="


def _count_assignments(tokens: Sequence[Token]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for token in tokens:
        name = token.array or _assigned_name(token)
        counts[name] += bool(name)
    return counts


def _assigned_name(token: Token) -> str:
    first = token.pieces[0] if token.pieces else None
    if first is None or first.is_quoted or first.kind is not PieceKind.TEXT:
        return ""
    found = _ASSIGNMENT.match(first.text)
    return found[1] if found else ""


def _split(tokens: Sequence[Token], state: _State) -> Iterator[list[Token]]:
    """The words of each simple command; keywords open and close the state's blocks."""
    words: list[Token] = []
    skips = False
    for token in tokens:
        if skips and not token.operator:
            skips = False
        elif token.operator in REDIRECTIONS:
            skips = True
        elif token.operator in _SEPARATORS:
            if words:
                yield words
            is_function = token.operator == "(" and len(words) == 1
            words = []
            _bracket(token, state, is_function=is_function)
        elif words or not _keyword(token, state):
            words.append(token)
    if words:
        yield words


def _bracket(token: Token, state: _State, *, is_function: bool) -> None:
    if token.operator == "(":
        state.blocks.append(_Block(opened_by="f(" if is_function else "("))
    elif token.operator == ")" and state.blocks[-1].opened_by in ("(", "f("):
        was_function = state.blocks[-1].opened_by == "f("
        state.close(token.line)
        if was_function:
            state.blocks[-1].opened_by += " function"


def _keyword(token: Token, state: _State) -> bool:
    """Take a keyword at the place of a command; False for any other word."""
    word = token.literal
    if word is None or token.is_quoted:
        return False
    if word in _OPENING:
        block = state.blocks[-1]
        is_function = word == "{" and block.opened_by.endswith(" function")
        block.opened_by = block.opened_by.removesuffix(" function")
        state.blocks.append(_Block(opened_by=word, is_function=is_function))
        return word not in ("for", "case", "select")
    if word in _CLOSING:
        state.close(token.line)
        return True
    if word in ("else", "elif") and len(state.blocks) > 1:
        state.close(token.line)
        state.blocks.append(_Block(opened_by=word))
    return word in _BETWEEN


def _run(tokens: Sequence[Token], state: _State) -> Command | None:
    """The command of some words; assignments change the state instead."""
    before: dict[str, Word] = {}
    place = 0
    for token in tokens:
        name = token.array or _assigned_name(token)
        if not name:
            break
        value = _value_of(token, name, state)
        if place == len(tokens) - 1 or token.array:
            for each, word in before.items():
                state.assign(each, _Value(items=(word,)))
            before.clear()
            state.assign(name, value)
        else:
            before[name] = _joined(value)
        place += 1
    rest = tokens[place:]
    first = rest[0].literal if rest else None
    if not rest:
        for name, word in before.items():
            state.assign(name, _Value(items=(word,)))
        return None
    if first is not None and _builtin(first, rest, state):
        return None
    words = _expand_all(rest, state, limit=MAX_WORDS, what=f"the command in line {rest[0].line}")
    exported = {name: state.find(name) for name in sorted(_exported(state))}
    env = {name: _joined(value) for name, value in exported.items() if value is not None}
    return Command(words=words, env={**env, **before}, line=rest[0].line)


def _exported(state: _State) -> set[str]:
    if not state.exports_all:
        return state.exported
    return state.names()


def _builtin(first: str, tokens: Sequence[Token], state: _State) -> bool:
    """Take a command of the shell itself that changes variables; False for any other."""
    rest = tokens[1:]
    if first in _DECLARING:
        is_exported = first == "export" or any("x" in (t.literal or "")[:3] for t in rest[:1])
        for token in rest:
            _declare(token, state, is_exported=is_exported)
    elif first in ("for", "select", *_READING):
        for token in rest if first in _READING else rest[:1]:
            name = token.literal or ""
            if _NAME.fullmatch(name):
                reason = f"`{first}` in line {token.line} sets it"
                state.assign(name, _unknown_value(f"${name}", reason))
    elif first in _FOREIGN:
        state.forget(first, tokens[0].line)
    elif first == "unset":
        for token in rest:
            name = token.literal or ""
            state.assign(name, _unknown_value(f"${name}", "it is removed before"))
            state.exported.discard(name)
    elif first == "set" and [token.literal for token in rest] in (["-a"], ["-o", "allexport"]):
        state.exports_all = True
    else:
        return first == "case"
    return True


def _declare(token: Token, state: _State, *, is_exported: bool) -> None:
    name = token.array or _assigned_name(token)
    if name:
        state.assign(name, _value_of(token, name, state))
    else:
        name = token.literal or ""
    if is_exported and _NAME.fullmatch(name):
        state.exported.add(name)


# Values.


def _value_of(token: Token, name: str, state: _State) -> _Value:
    if token.array:
        items = _expand_all(token.items, state, limit=MAX_ITEMS, what=f"the list {name}")
        value = _Value(items=items, is_list=True)
        return _append(value, name, state) if token.appends else value
    head = _ASSIGNMENT.match(token.pieces[0].text)
    length = head.end() if head else 0
    first = Piece(kind=PieceKind.TEXT, text=token.pieces[0].text[length:])
    pieces = [_quoted(piece) for piece in (first, *token.pieces[1:])]
    (word,) = _expand_pieces(pieces, state) or [Word(text="")]
    value = _Value(items=(word,))
    return _append(value, name, state) if head and head[2] else value


def _quoted(piece: Piece) -> Piece:
    """A variable on the right of an assignment is not taken apart."""
    if piece.kind is not PieceKind.VARIABLE or piece.is_list:
        return piece
    return Piece(kind=piece.kind, text=piece.text, raw=piece.raw, is_quoted=True)


def _append(value: _Value, name: str, state: _State) -> _Value:
    """The value behind what the variable has; unknown where that is not known."""
    known = state.find(name)
    if known is None:
        return _unknown_value(f"${name}", "something is added to it, and what it held is not known")
    if value.is_list or known.is_list:
        items = (*known.items, *value.items)
        state.budget.spend(len(items))
        return _Value(
            items=_cut(items, state, limit=MAX_ITEMS, what=f"the list {name}"), is_list=True
        )
    one, other = known.items[0], value.items[0]
    text = one.text + other.text
    if len(text) > MAX_WORD_CHARACTERS:
        return _unknown_value(f"${name}", "it is too long")
    state.budget.spend(1 + len(text) // _CHARACTERS_OF_A_STEP)
    names = tuple(dict.fromkeys((*one.variables, *other.variables)))[:_MAX_NAMES]
    return _Value(items=(Word(text=text, variables=names),))


def _unknown_value(raw: str, reason: str) -> _Value:
    return _Value(items=(Word(text=mark(raw, reason)),))


def _joined(value: _Value) -> Word:
    if len(value.items) == 1:
        return value.items[0]
    return Word(text=mark("(...)", "a list, of which a variable would get the first item"))


# Words.


def _expand_all(
    tokens: Sequence[Token], state: _State, *, limit: int, what: str
) -> tuple[Word, ...]:
    """The words that all these become; behind the limit one stands for the rest."""
    words: list[Word] = []
    for token in tokens:
        words += _expand(token, state)
        if len(words) > limit or state.budget.is_spent:
            break
    if state.budget.is_spent:
        return (*words[:limit], Word(text=mark("...", SPENT)))
    return _cut(words, state, limit=limit, what=what)


def _cut(words: Sequence[Word], state: _State, *, limit: int, what: str) -> tuple[Word, ...]:
    if len(words) <= limit:
        return tuple(words)
    state.budget.complain(f"{what} has more than {limit} words, and the rest is not known")
    return (*words[: limit - 1], Word(text=mark("...", f"there are more than {limit} words")))


def _expand(token: Token, state: _State) -> list[Word]:
    if token.array:
        return [Word(text=mark(f"{token.array}=(...)", "a list where a word belongs"))]
    return _expand_pieces(token.pieces, state)


def _expand_pieces(pieces: Sequence[Piece], state: _State) -> list[Word]:
    """The words that one word becomes: several where a variable is taken apart, or none."""
    done: list[Word] = []
    current: list[str] = []
    names: dict[str, None] = {}
    has_any = False
    for piece in pieces:
        if len(done) > MAX_WORDS:
            break
        parts = _parts_of(piece, state, names)
        for place, part in enumerate(parts):
            if place:
                done.append(_word(current, names))
                current = []
            current.append(part)
        has_any = has_any or bool(parts)
    if has_any:
        done.append(_word(current, names))
    return done


def _parts_of(piece: Piece, state: _State, names: dict[str, None]) -> list[str]:
    """What a piece adds: to the word that is there its first part, each other begins a word."""
    if piece.kind is PieceKind.UNKNOWN:
        return [mark(piece.raw, piece.reason)]
    if piece.kind is PieceKind.TEXT:
        return [_literal(piece.text)]
    value = state.find(piece.text)
    if value is None:
        return [mark(piece.raw, "a variable that is not set in this text")]
    if value.is_list and not piece.is_list:
        return [mark(piece.raw, "a list, of which a shell takes the first item")]
    if not state.budget.spend(sum(1 + len(item.variables) for item in value.items)):
        return [mark(piece.raw, SPENT)]
    size = sum(len(item.text) for item in value.items)
    if size > MAX_WORD_CHARACTERS or not state.budget.put_in(size):
        return [mark(piece.raw, "it is too long")]
    _add_names(names, piece.text, value)
    texts = [item.text for item in value.items]
    if piece.is_quoted:
        return texts
    if any(_PATTERN.search(text) for text in texts):
        return [mark(piece.raw, "its value would be compared with the names of files")]
    return [part for text in texts for part in split_blanks(text)]


def _add_names(names: dict[str, None], name: str, value: _Value) -> None:
    """Remember whose value was put in, and what that value was made of; each once, and few."""
    for each in (name, *(inner for item in value.items for inner in item.variables)):
        if len(names) >= _MAX_NAMES:
            return
        names[each] = None


def _literal(text: str) -> str:
    return mark(text, "a template's gap") if _GAP.search(text) else text


def _word(parts: Sequence[str], names: Iterable[str]) -> Word:
    text = "".join(parts)
    if text in _LEFT_OUT:
        text = mark(text, "something that the note leaves out")
    return Word(text=bound_word(text), variables=tuple(names))


def bound_word(text: str) -> str:
    """The text of a word; a mark for one that is longer than any that is meant."""
    most = MAX_MARKED_CHARACTERS if has_mark(text) else MAX_WORD_CHARACTERS
    return text if len(text) <= most else mark(text, "it is too long")
