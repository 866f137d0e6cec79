"""What the readers of the formats hand on: commands, and words that stand in no command.

Called by the readers of notes; :mod:`stoker.recipes.notes.read` puts all of it together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stoker.recipes.notes.invocation import Invocation, find_invocations
from stoker.recipes.notes.shell import Command, exported_variables, read_commands

_EXPORTS = re.compile(r"\b(?:export|declare|typeset|set)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A server that the text starts, and where in it: ``place`` is a word for a person."""

    invocation: Invocation
    place: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loose:
    """Words outside of any command that may be about a flag or a variable."""

    command: Command
    line: int
    is_code: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """What one part of a text holds. ``remarks`` are sentences about what was not read."""

    found: tuple[Found, ...] = ()
    loose: tuple[Loose, ...] = ()
    remarks: tuple[str, ...] = ()


def join_excerpts(parts: Iterable[Excerpt]) -> Excerpt:
    """All parts as one."""
    listed = list(parts)
    return Excerpt(
        found=tuple(each for part in listed for each in part.found),
        loose=tuple(each for part in listed for each in part.loose),
        remarks=tuple(each for part in listed for each in part.remarks),
    )


def excerpt_of_shell(
    text: str, *, place: str, first_line: int = 1, is_prose: bool = False
) -> Excerpt:
    """What a shell's text starts; what it says of flags and variables otherwise is loose."""
    commands = read_commands(text, first_line)
    found = [
        Found(invocation=each, place=place, line=each.command.line)
        for command in commands
        for each in find_invocations(command, is_prose=is_prose)
    ]
    if found or is_prose:
        return Excerpt(found=tuple(found))
    return Excerpt(loose=(*_loose_flags(commands), *_loose_variables(text, first_line)))


def _loose_flags(commands: Iterable[Command]) -> Iterator[Loose]:
    for command in commands:
        if command.words and command.words[0].text.startswith("-"):
            yield Loose(command=command, line=command.line)


def _loose_variables(text: str, first_line: int) -> Iterator[Loose]:
    exported = exported_variables(text, first_line) if _EXPORTS.search(text) else {}
    if exported:
        env = {name: word for name, (word, _) in exported.items()}
        yield Loose(command=Command(words=(), env=env, line=first_line), line=first_line)
