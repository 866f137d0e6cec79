"""From a simple command to the server that it starts, out of whatever it is wrapped in.

Called by :mod:`stoker.recipes.notes.read`. Programs that run others, shells that get a text, and
programs that run images are taken off; which these are is data.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.knowledge.notes import Container, Wrapper, load_note_forms, split_image
from stoker.knowledge.servers import Server, recognise_server
from stoker.recipes.notes.shell import Command, Word, is_assignment, read_commands
from stoker.recipes.notes.text import has_mark, mark, show

#: How deep a text of commands may lie in an argument of another one.
MAX_DEPTH = 4
#: In how many first words of a command a server is looked for behind a program nobody described.
_MAX_SEARCHED = 64
#: How many programs around a server are taken off.
_MAX_WRAPPED = 32
_SOME_PYTHON = "python3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A server that a command starts. ``gpus`` and ``image`` are as written, empty for none.

    ``told`` are words around the command that no setting stands for.
    """

    server: Server
    command: Command
    image: str = ""
    gpus: str = ""
    told: tuple[str, ...] = ()

    @property
    def env(self) -> Mapping[str, Word]:
        """The variables that it gets."""
        return self.command.env


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dress:
    """What was taken off a command so far."""

    env: Mapping[str, Word] = field(default_factory=dict)
    image: str = ""
    gpus: str = ""
    told: tuple[str, ...] = ()


def find_invocations(
    command: Command, *, is_prose: bool = False, depth: int = 0
) -> Iterator[Invocation]:
    """The servers that a command starts: mostly none, at times several (``bash -c "a & b"``).

    In prose the server must be the first word, for a sentence may name one anywhere.
    """
    yield from _undress(command, _Dress(env=command.env), is_prose=is_prose, depth=depth)


def invoke(words: Sequence[Word], env: Mapping[str, Word], *, image: str, line: int) -> Command:
    """The command of a container: what its image puts before the words, and the words."""
    row = load_note_forms().find_image(image) if image else None
    entrypoint = tuple(Word(text=word) for word in row.entrypoint) if row else ()
    plain = tuple(words)
    if any(True for _ in find_invocations(Command(words=plain, env=env, line=line))):
        entrypoint = ()
    return Command(words=(*entrypoint, *plain), env=env, line=line)


def _undress(
    command: Command, dress: _Dress, *, is_prose: bool, depth: int
) -> Iterator[Invocation]:
    forms = load_note_forms()
    words = command.words
    for _ in range(_MAX_WRAPPED):
        if not words:
            return
        if server := _recognise([word.text for word in words]):
            worn = Command(words=words, env=dress.env, line=command.line)
            yield Invocation(
                server=server, command=worn, image=dress.image, gpus=dress.gpus, told=dress.told
            )
            return
        name = posixpath.basename(words[0].text)
        wrapper = next((row for row in forms.wrapper if _wraps(row, words)), None)
        container = next((row for row in forms.container if name in row.programs), None)
        shell = next((row for row in forms.shell if name in row.programs), None)
        if shell is not None:
            yield from _read_inner(_script_of(words, shell.option), command, dress, depth)
            return
        if wrapper is not None:
            words, dress = _take_off(words, wrapper, dress)
        elif container is not None and (found := _take_out(words, container, dress)):
            words, dress = found
        else:
            break
    if words and not is_prose:
        yield from _search(words, command.line, dress)


def _recognise(argv: Sequence[str]) -> Server | None:
    """The server; an interpreter that a variable names is one where a module follows it."""
    if has_mark(argv[0]) and tuple(argv[1:2]) == ("-m",):
        return recognise_server([_SOME_PYTHON, *argv[1:]])
    return recognise_server(argv)


def _search(words: tuple[Word, ...], line: int, dress: _Dress) -> Iterator[Invocation]:
    """A server somewhere behind a program that nobody described (``srun``, ``mpirun``)."""
    name = posixpath.basename(words[0].text)
    if name in load_note_forms().mentioning:
        return
    for place in range(1, min(len(words), _MAX_SEARCHED)):
        rest = words[place:]
        if server := _recognise([word.text for word in rest]):
            left_out = show(" ".join(word.text for word in words[:place]))
            yield Invocation(
                server=server,
                command=Command(words=rest, env=dress.env, line=line),
                image=dress.image,
                gpus=dress.gpus,
                told=(*dress.told, left_out),
            )
            return


def _wraps(row: Wrapper, words: Sequence[Word]) -> bool:
    if posixpath.basename(words[0].text) != row.program:
        return False
    return not row.verb or row.verb == next((word.text for word in words[1:2]), "")


def _take_off(
    words: tuple[Word, ...], row: Wrapper, dress: _Dress
) -> tuple[tuple[Word, ...], _Dress]:
    rest = list(words[1 + bool(row.verb) :])
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0).text
        if option == "--":
            break
        del rest[: option in row.values]
    del rest[: row.positionals]
    env = dict(dress.env)
    while row.assignments and rest and is_assignment(rest[0].text):
        name, word = _split_assignment(rest.pop(0))
        env[name] = word
    return tuple(rest), replace(dress, env=env)


def _split_assignment(word: Word) -> tuple[str, Word]:
    name, is_pair, value = word.text.partition("=")
    given = value if is_pair else mark(name, "whoever runs the command has its value")
    return name, Word(text=given, variables=word.variables)


def _script_of(words: Sequence[Word], option: str) -> str:
    """The text behind ``-c`` (or ``-lc``), empty where there is none or it is not known."""
    for place, word in enumerate(words[1:], 1):
        if not word.text.startswith("-"):
            break
        if re.fullmatch(rf"-[a-z]*{option}", word.text):
            text = "".join(each.text for each in words[place + 1 : place + 2])
            return "" if has_mark(text) else text
    return ""


def _read_inner(text: str, outer: Command, dress: _Dress, depth: int) -> Iterator[Invocation]:
    if depth >= MAX_DEPTH:
        return
    for command in read_commands(text, outer.line):
        inner = replace(dress, env={**dress.env, **command.env})
        yield from _undress(command, inner, is_prose=False, depth=depth + 1)


# Images.


def _take_out(
    words: tuple[Word, ...], row: Container, dress: _Dress
) -> tuple[tuple[Word, ...], _Dress] | None:
    """The words that run within the image; None for another verb of the program."""
    rest = list(words[1:])
    while rest and rest[0].text in row.groups:
        rest.pop(0)
    if not rest or rest.pop(0).text not in row.verbs:
        return None
    options, rest = _read_options(rest, row)
    if not rest:
        return None
    image = rest[0].text
    env = {
        **dress.env,
        **dict(_split_assignment(word) for option, word in options if option in row.env),
    }
    entry = [word for option, word in options if option in row.entrypoint]
    told = [
        show(f"{option} {word.text}")
        for option, word in options
        if option in (*row.told, *row.env_file)
    ]
    gpus = [word.text for option, word in options if option in row.gpus]
    inner = (*entry[-1:], *rest[1:]) if entry else tuple(rest[1:])
    if not entry:
        inner = invoke(inner, env, image=image, line=0).words
    worn = _Dress(
        env=env,
        image=image,
        gpus=gpus[-1] if gpus else dress.gpus,
        told=(*dress.told, *told),
    )
    return inner, worn


def _read_options(
    words: Sequence[Word], row: Container
) -> tuple[list[tuple[str, Word]], list[Word]]:
    """The options with their values, and what stands behind them."""
    found: list[tuple[str, Word]] = []
    rest = list(words)
    while rest and rest[0].text.startswith("-") and len(rest[0].text) > 1:
        word = rest.pop(0)
        name, is_pair, value = word.text.partition("=")
        short = re.fullmatch(r"-([a-zA-Z])(.+)", word.text)
        if is_pair and name.startswith("--"):
            found.append((name, replace(word, text=value)))
        elif word.text in row.bare or (short and _are_bare(word.text, row)):
            continue
        elif short and f"-{short[1]}" not in row.bare:
            found.append((f"-{short[1]}", replace(word, text=short[2].removeprefix("="))))
        elif rest:
            found.append((word.text, rest.pop(0)))
    return found, rest


def _are_bare(cluster: str, row: Container) -> bool:
    """Whether all letters of ``-dit`` are options without a value."""
    return not cluster.startswith("--") and all(f"-{each}" in row.bare for each in cluster[1:])


def release_of(image: str) -> str:
    """The engine's release that an image's tag names, empty where it names none."""
    row = load_note_forms().find_image(image) if image and not has_mark(image) else None
    found = re.search(row.release, split_image(image)[1]) if row else None
    return found[1] if found else ""
