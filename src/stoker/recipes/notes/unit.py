"""A systemd unit: the command of its service, and its variables.

Called by :mod:`stoker.recipes.notes.read`. Files that it names are named and not read; specifiers
and variables that the unit itself does not set are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stoker.recipes.notes.budget import current_budget
from stoker.recipes.notes.excerpt import Excerpt, Found
from stoker.recipes.notes.invocation import find_invocations
from stoker.recipes.notes.shell import Command, Word, bound_word
from stoker.recipes.notes.text import mark, show, split_blanks

_SECTION = re.compile(r"^\[([^\]]*)\]\s*$")
_ENTRY = re.compile(r"^([A-Za-z]+)\s*=\s*(.*)$", re.DOTALL)
#: What may stand before the program: systemd.service(5), "Special executable prefixes".
_PREFIXES = "@-:+!|"
_WORD = re.compile(
    r"(?:[^\s'\"\\]|\\.|'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"|['\"\\])+", re.DOTALL
)
_PART = re.compile(r"'((?:[^'\\]|\\.)*+)'|\"((?:[^\"\\]|\\.)*+)\"|\\(.)|([^'\"\\]+|.)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TOO_LONG = "it is too long"
_ESCAPES = {"n": "\n", "t": "\t", "s": " ", "\\": "\\", "'": "'", '"': '"'}
_COMPUTED = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)|%%|%[A-Za-z]")


@dataclass(slots=True)
class _Service:
    """What the entries of the section say."""

    env: dict[str, Word] = field(default_factory=dict)
    starts: list[tuple[int, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def read_unit(text: str, first_line: int = 1) -> Excerpt:
    """The servers that a unit starts. Never raises."""
    service = _Service()
    for line, section, key, value in _entries(text, first_line):
        if section == "Service":
            _take(service, line, key, value)
    found: list[Found] = []
    for line, text_of_start in service.starts:
        words = tuple(_command_words(text_of_start, service))
        command = Command(words=words, env=dict(service.env), line=line)
        found += [
            Found(invocation=each, place="ExecStart", line=line)
            for each in find_invocations(command)
        ]
    return Excerpt(found=tuple(found), remarks=tuple(service.remarks))


def _entries(text: str, first_line: int) -> Iterator[tuple[int, str, str, str]]:
    """Line, section, key and value; a backslash at the end of a line continues it."""
    section = ""
    for line, whole in _logical_lines(text.split("\n"), first_line):
        if found := _SECTION.match(whole):
            section = found[1]
        elif entry := _ENTRY.match(whole):
            yield line, section, entry[1], entry[2].strip()


def _logical_lines(lines: Sequence[str], first_line: int) -> Iterator[tuple[int, str]]:
    gathered: list[str] = []
    begins = first_line
    for number, line in enumerate(lines, first_line):
        bare = line.strip()
        if bare.startswith(("#", ";")):
            continue  # a comment may stand between continued lines, too
        if not gathered:
            begins = number
        gathered.append(bare.removesuffix("\\"))
        if not bare.endswith("\\"):
            yield begins, " ".join(gathered)
            gathered = []
    if gathered:
        yield begins, " ".join(gathered)


def _take(service: _Service, line: int, key: str, value: str) -> None:
    match key:
        case "ExecStart":
            if not value:
                service.starts.clear()
            else:
                service.starts.append((line, value))
        case "Environment":
            for raw in _WORD.findall(value):
                name, is_pair, given = _plain(raw).partition("=")
                if is_pair:
                    service.env[name] = Word(text=_specified(given))
        case "EnvironmentFile":
            service.remarks.append(f"line {line}: variables of {show(value)} are not read")
        case "PassEnvironment":
            for name in value.split():
                service.env[name] = Word(text=mark(name, "the service manager has its value"))


def _command_words(text: str, service: _Service) -> Iterator[Word]:
    raw = _WORD.findall(text)
    for place, each in enumerate(raw):
        bare = each.lstrip(_PREFIXES) if place == 0 else each
        if whole := re.fullmatch(r"\$([A-Za-z_]\w*)", bare):
            yield from _split_variable(whole[1], service)
        else:
            yield _substituted(_plain(bare), service)


def _split_variable(name: str, service: _Service) -> Iterator[Word]:
    """``$NAME`` as a word of its own is taken apart at blanks."""
    value = service.env.get(name)
    if value is None:
        yield Word(text=mark(f"${name}", "the unit does not set it"))
        return
    if not current_budget().put_in(len(value.text)):
        yield Word(text=mark(f"${name}", _TOO_LONG))
        return
    for part in split_blanks(value.text):
        yield Word(text=part, variables=(name,))


def _substituted(text: str, service: _Service) -> Word:
    names: list[str] = []

    def put(found: re.Match[str]) -> str:
        if found[0] in ("$$", "%%"):
            return found[0][0]
        name = found[1] or found[2]
        if not name:
            return mark(found[0], "systemd puts it in")
        value = service.env.get(name) if found[1] else None
        if value is None:
            return mark(found[0], "the unit does not set it")
        if not current_budget().put_in(len(value.text)):
            return mark(found[0], _TOO_LONG)
        names.append(name)
        return value.text

    done = _COMPUTED.sub(put, text)
    return Word(text=bound_word(done), variables=tuple(dict.fromkeys(names)))


def _specified(text: str) -> str:
    def put(found: re.Match[str]) -> str:
        return "%" if found[0] == "%%" else mark(found[0], "systemd puts it in")

    return re.sub(r"%%|%[A-Za-z]", put, text)


def _plain(raw: str) -> str:
    """A word without its quotes, and with its escapes as what they stand for."""
    parts = []
    for single, double, escaped, other in _PART.findall(raw):
        parts.append(_unescape(single or double) if single or double else "")
        parts.append(_unescape(f"\\{escaped}") if escaped else other.strip("'\"\\"))
    return "".join(parts)


def _unescape(text: str) -> str:
    def put(found: re.Match[str]) -> str:
        known = _ESCAPES.get(found[1])
        return mark(found[0], "a character that is written as a number") if known is None else known

    return _ESCAPED.sub(put, text)
