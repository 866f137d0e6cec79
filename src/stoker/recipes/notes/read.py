"""The way in: the text of a note becomes the engine commands in it, and one of them settings.

Called by the command layer, which fetches the text and stores what comes back. Pure; nothing is
run, expanded or followed. A command is never chosen silently among several.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from stoker.errors import UsageError
from stoker.knowledge.notes import load_note_forms
from stoker.model.finding import Source
from stoker.model.note import NotedCommand, NotedSetting, NoteImport, Verdict
from stoker.recipes.notes.budget import open_budget
from stoker.recipes.notes.excerpt import Excerpt, Found, excerpt_of_shell
from stoker.recipes.notes.flag_names import FlagBook, open_book
from stoker.recipes.notes.invocation import Invocation, release_of
from stoker.recipes.notes.judge import Judging, judge_variables, judge_words, model_of, show_words
from stoker.recipes.notes.loose import guess_kind, judge_loose
from stoker.recipes.notes.manifest import read_manifest
from stoker.recipes.notes.markdown import read_markdown
from stoker.recipes.notes.secrets import hide_secrets
from stoker.recipes.notes.text import clean, has_mark
from stoker.recipes.notes.unit import read_unit

#: More commands than this nobody chooses among.
MAX_COMMANDS = 200
_MAX_SHOWN_CHARACTERS = 4000

_SUFFIXES = {
    **dict.fromkeys((".md", ".markdown", ".mdx", ".rst", ".txt", ".html"), "markdown"),
    **dict.fromkeys((".service",), "unit"),
    **dict.fromkeys((".sh", ".bash", ".zsh", ".env"), "shell"),
    **dict.fromkeys((".yml", ".yaml", ".json"), "manifest"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which command is wanted, and what of it.

    ``number`` (from 1), ``engine`` and ``model`` choose among the commands; ``engine`` also says
    whose flags a text without a command speaks of. ``release``: by whose flags to judge.
    ``consents`` name what may be taken though it is withheld, ``takes`` what of the loose words is
    wanted; both without dashes.
    """

    number: int | None = None
    engine: str | None = None
    model: str | None = None
    release: str = ""
    consents: frozenset[str] = field(default_factory=frozenset)
    takes: frozenset[str] = field(default_factory=frozenset)


def import_note(text: str, *, name: str, source: Source, wish: Wish) -> NoteImport:
    """What a text holds. ``name`` is the name of its file, which tells the format where it can.

    Raises UsageError for a text that is too large, a command that is not there, and an engine or
    release that is not known.
    """
    with open_budget() as budget:
        excerpt = read_excerpt(clean(text, name), name=name, kind=wish.engine)
        made = _import(excerpt, source=source, wish=wish)
        return replace(made, remarks=(*budget.complaints, *made.remarks))


def import_commands(text: str, *, name: str, source: Source) -> tuple[NoteImport, ...]:
    """Every command of a text as if it were the one that is chosen; the text is read once.

    Raises UsageError for a text that is too large.
    """
    with open_budget():
        excerpt = replace(read_excerpt(clean(text, name), name=name), loose=())
        count = len(_distinct(excerpt.found)[:MAX_COMMANDS])
        wishes = (Wish(number=number) for number in range(1, count + 1))
        return tuple(_import(excerpt, source=source, wish=wish) for wish in wishes)


def _import(excerpt: Excerpt, *, source: Source, wish: Wish) -> NoteImport:
    found = _distinct(excerpt.found)[:MAX_COMMANDS]
    commands = tuple(_describe(each, number) for number, each in enumerate(found, start=1))
    chosen = _choose(commands, wish)
    base = NoteImport(source=source, commands=commands, remarks=excerpt.remarks)
    if chosen is None and commands:
        return base
    engine = commands[chosen - 1].engine if chosen else wish.engine or guess_kind(excerpt.loose)
    if engine is None:
        return base
    imaged = commands[chosen - 1].release if chosen else ""
    book = open_book(engine, wish.release) if wish.release else _open_loosely(engine, imaged)
    judging = Judging(book=book, consents=wish.consents | wish.takes)
    settings = _judge_found(found[chosen - 1], judging) if chosen else ()
    loose = judge_loose(excerpt.loose, judging, wish.takes)
    known = {(each.name, each.values) for each in settings}
    others = tuple(each for each in loose if (each.name, each.values) not in known)
    return NoteImport(
        source=source,
        commands=commands,
        chosen=chosen,
        engine=engine,
        release=book.release,
        model=commands[chosen - 1].model if chosen else "",
        settings=settings,
        loose=others,
        remarks=(*excerpt.remarks, *_contradictions(settings, others)),
    )


def read_excerpt(text: str, *, name: str, kind: str | None = None) -> Excerpt:
    """The commands and loose words of a text that was made harmless, whatever its format."""
    match find_format(text, name):
        case "unit":
            return read_unit(text)
        case "shell":
            return excerpt_of_shell(text, place="script")
        case "manifest":
            return read_manifest(text, kind=kind)
    return read_markdown(text, read_manifest=read_manifest, read_unit=read_unit)


def find_format(text: str, name: str) -> str:
    """markdown, unit, shell or manifest: by the name where it tells, else by how the text looks."""
    suffix = posixpath.splitext(name.lower())[1]
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if text.startswith("#!"):
        return "shell"
    if re.search(r"^\[(Unit|Service)\][ \t]*$", text, re.MULTILINE):
        return "unit"
    if re.search(r"^(services|apiVersion):", text, re.MULTILINE) or text.lstrip()[:1] == "{":
        return "manifest"
    return "markdown"


def _distinct(found: Sequence[Found]) -> list[Found]:
    """The commands in the order of the text; one that is written twice counts once."""
    seen: dict[object, Found] = {}
    for each in sorted(found, key=lambda each: each.line):
        invocation = each.invocation
        key = (
            invocation.server.kind,
            invocation.server.flags,
            tuple((name, word.text) for name, word in invocation.env.items()),
        )
        seen.setdefault(key, each)
    return list(seen.values())


def _describe(found: Found, number: int) -> NotedCommand:
    invocation = found.invocation
    release = release_of(invocation.image)
    book = _open_loosely(invocation.server.kind, release)
    shown = _show(invocation, book)
    return NotedCommand(
        number=number,
        engine=invocation.server.kind,
        title=invocation.server.title,
        model=hide_secrets(model_of(invocation.server.flags, book)),
        place=found.place,
        line=found.line,
        shown=shown[:_MAX_SHOWN_CHARACTERS],
        gpus=hide_secrets(_gpus_of(found)),
        image=hide_secrets(invocation.image),
        release=release,
        told=tuple(map(hide_secrets, invocation.told)),
    )


def _show(invocation: Invocation, book: FlagBook) -> str:
    """The command for a person, without its secrets."""
    argv, flags = invocation.command.argv, invocation.server.flags
    program = argv[: len(argv) - len(flags)]
    words = (*map(hide_secrets, program), *show_words(flags, book))
    return hide_secrets(" ".join(words))


def _open_loosely(kind: str, release: str) -> FlagBook:
    """The flags of the release, or of the newest one where it is older than all that are known."""
    try:
        return open_book(kind, release)
    except UsageError:
        return open_book(kind)


def _gpus_of(found: Found) -> str:
    for name in load_note_forms().gpus.variables:
        word = found.invocation.env.get(name)
        if word is not None and not has_mark(word.text):
            return word.text
    return found.invocation.gpus


def _choose(commands: Sequence[NotedCommand], wish: Wish) -> int | None:
    """The number of the one command that is meant; None for several, or for none at all."""
    if wish.number is not None:
        if not 0 < wish.number <= len(commands):
            raise UsageError(
                f"there is no command {wish.number}: the text has {len(commands)} engine commands",
                "leave --command out to see them",
            )
        return wish.number
    fitting = [command for command in commands if _fits(command, wish)]
    if commands and not fitting:
        raise UsageError(
            "none of the engine commands in the text fits",
            "; ".join(f"{each.number}: {each.engine} {each.model}" for each in commands[:10]),
        )
    return fitting[0].number if len(fitting) == 1 else None


def _fits(command: NotedCommand, wish: Wish) -> bool:
    if wish.engine is not None and command.engine != wish.engine:
        return False
    wanted = (wish.model or "").lower()
    return wanted in command.model.lower()


def _judge_found(found: Found, judging: Judging) -> tuple[NotedSetting, ...]:
    invocation = found.invocation
    names = {word.text: word.variables for word in invocation.command.words if word.variables}
    judging = Judging(
        book=judging.book, consents=judging.consents, line=found.line, variables=names
    )
    return (
        *judge_words(invocation.server.flags, judging),
        *judge_variables(invocation.env, judging),
    )


def _contradictions(
    settings: Sequence[NotedSetting], loose: Sequence[NotedSetting]
) -> Iterator[str]:
    """What the sentences say otherwise than the command."""
    given = {each.name: each for each in settings if each.verdict is not Verdict.OVERRIDDEN}
    for each in loose:
        command = given.get(each.name)
        if command is not None and command.values and each.values and command.values != each.values:
            yield (
                f"{each.name} is {' '.join(command.values)} in the command and "
                f"{' '.join(each.values)} in line {each.line}"
            )
