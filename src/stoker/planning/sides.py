"""A start of a server, from wherever it was read, in the shape that is compared. Pure.

A running process and a launch that was resolved from a file go the same way through here, so that
what is compared differs in nothing but what was started.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.knowledge.servers import Grammar, Server, find_grammar, recognise_server, take_apart
from stoker.knowledge.variables import Variables
from stoker.model.comparison import Flag, Item, Side
from stoker.model.engine_table import EngineTable
from stoker.planning.command_line import (
    add_variables,
    anchor,
    last_uses,
    own_name,
    parse_words,
)
from stoker.planning.compare import flag_items, secret_item

#: The row of an engine's table that names the file with the API keys.
KEY_FILE_ROW = "api_key_path"
#: The key of a deployment that API keys belong to.
KEY_FILE_KEY = "serve.api_key_file"
#: Whose folders a launcher may put before the machine's own when it starts itself again.
LIBRARY_PATH = "LD_LIBRARY_PATH"
UNREADABLE = "its file cannot be read"

#: The text of a file, None where it cannot be read.
ReadText = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What was started, or would be.

    ``program`` is the executable or script with its whole path and ``interpreter`` the file of
    the program that runs it, both empty where they are to be taken from ``argv`` or are not
    known. ``secret_files`` names for variables the file that holds the value. ``kind`` is the
    engine's where the command line does not tell. ``beside`` are words of ``argv`` that name
    something in ``directory``. ``is_whole``: see :class:`Side`.
    """

    title: str
    argv: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    secret_files: Mapping[str, str] = field(default_factory=dict)
    directory: str = "/"
    program: str = ""
    interpreter: str = ""
    user: str | None = None
    kind: str = ""
    beside: frozenset[str] = frozenset()
    reasons: Mapping[str, str] = field(default_factory=dict)
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A start with its flags read: those that count, overridden ones, and words without a flag."""

    server: Server
    grammar: Grammar
    flags: tuple[Flag, ...]
    overridden: tuple[Flag, ...] = ()
    loose: tuple[str, ...] = ()


def read_start(start: Start, table: EngineTable | None) -> Reading:
    """The flags of a start, of variables too, their paths seen from the root."""
    server = find_server(start)
    grammar = find_grammar(server.kind)
    catalogue = table.catalogue if table else None
    line = parse_words(server.flags, grammar, catalogue)
    flags = add_variables(line.flags, start.env, grammar, catalogue)
    counting, overridden = last_uses(flags, grammar, catalogue)
    return Reading(
        server=server,
        grammar=grammar,
        flags=tuple(anchor_paths(flag, grammar, start) for flag in counting),
        overridden=overridden,
        loose=line.loose,
    )


def anchor_paths(flag: Flag, grammar: Grammar, start: Start) -> Flag:
    """The flag with the paths in its values seen from the root."""
    values = (_anchor(flag.name, value, grammar, start) for value in flag.values)
    return replace(flag, values=tuple(values))


def _anchor(name: str, value: str, grammar: Grammar, start: Start) -> str:
    folder = start.directory
    if name in grammar.paths or (name in grammar.models and _is_path(value, start)):
        return anchor(value, folder)
    if name in grammar.path_lists:
        return ",".join(anchor(path, folder) for path in value.split(","))
    if name in grammar.scaled_paths:
        parts = (item.rpartition(":") for item in value.split(","))
        return ",".join(f"{anchor(path, folder)}:{scale}" for path, _, scale in parts)
    return value


def _is_path(value: str, start: Start) -> bool:
    """Whether a model is named by its path: one of a hub looks like a relative one."""
    return value.startswith(("/", "./", "../")) or value in start.beside


def find_server(start: Start) -> Server:
    """Which server a start is; one that nobody described has the kind that was told, or none."""
    found = recognise_server(start.argv)
    if found is not None and start.kind in ("", found.kind):
        return found
    started = take_apart(start.argv)
    return Server(kind=start.kind, title=start.kind, started=started, flags=started.words)


def build_side(
    start: Start, table: EngineTable | None, variables: Variables, read_text: ReadText
) -> Side:
    """The start as one side of a comparison. Secrets in files are read through ``read_text``."""
    secrets = {name: read_text(path) for name, path in start.secret_files.items()}
    known = {name: first_line(text) for name, text in secrets.items() if text is not None}
    whole = replace(start, env={**start.env, **known})
    reading = read_start(whole, table)

    def is_secret(flag: Flag) -> bool:
        values = " ".join(flag.values)
        return flag.variable in known or variables.is_secret(flag.name.lstrip("-"), values)

    keys, flags = split_keys(reading, table, read_text)
    items = flag_items(flags, reading.grammar, is_secret=is_secret)
    items |= {f"word {place}": Item(values=(word,)) for place, word in enumerate(reading.loose, 1)}
    items |= _key_item(keys, table, reading.grammar, read_text)
    shown = _variables(whole, reading, table, variables)
    unread = {name: Item(note=UNREADABLE) for name, text in secrets.items() if text is None}
    hidden = {name: secret_item((known[name],)) for name in known if name in shown}
    return Side(
        title=start.title,
        kind=reading.server.kind,
        program=find_program(start),
        interpreter=start.interpreter,
        flags=items,
        variables={**shown, **hidden, **unread},
        reasons=start.reasons,
        user=start.user,
        is_whole=start.is_whole,
    )


def find_program(start: Start) -> str:
    """What is executed, as a path from the root where that is known."""
    if start.program:
        return start.program
    started = find_server(start).started
    if started.module:
        interpreter = _path(started.interpreter, start.directory)
        return f"{interpreter} -m {started.module}"
    return _path(started.program, start.directory)


def split_keys(
    reading: Reading, table: EngineTable | None, read_text: ReadText
) -> tuple[tuple[Flag, ...], tuple[Flag, ...]]:
    """The flags that give API keys, as values or in a file, and all others."""
    names, file = reading.grammar.keys, key_file_flag(table, reading.grammar)

    def gives_keys(flag: Flag) -> bool:
        if flag.name != file:
            return flag.name in names
        # Where a file of settings holds the key, another such file is no matter of keys.
        return not reading.grammar.key_entry or bool(_keys_in(flag, reading.grammar, read_text))

    keys = tuple(flag for flag in reading.flags if gives_keys(flag))
    return keys, tuple(flag for flag in reading.flags if flag not in keys)


def collect_keys(
    flags: Sequence[Flag], table: EngineTable | None, grammar: Grammar, read_text: ReadText
) -> list[str] | None:
    """The API keys that these flags give, in their order, each once.

    None if a file with some of them cannot be read.
    """
    file = key_file_flag(table, grammar)
    found: list[str] = []
    for flag in flags:
        if flag.name == file:
            keys = _keys_in(flag, grammar, read_text)
        else:
            keys = [key for value in flag.values for key in _split_keys(value, grammar)]
        if keys is None:
            return None
        found += keys
    return list(dict.fromkeys(key for key in found if key))


def key_file_flag(table: EngineTable | None, grammar: Grammar) -> str:
    """The own name of the flag that names the file with the API keys, empty without one."""
    row = table.settings.get(KEY_FILE_ROW) if table else None
    option = table.catalogue.find(row.flag) if table and row else None
    return own_name(option) if option else grammar.key_file


def _keys_in(flag: Flag, grammar: Grammar, read_text: ReadText) -> list[str] | None:
    """The keys in the files that a flag names: one a line, or one as a setting in YAML."""
    found: list[str] = []
    for path in flag.values:
        text = read_text(path)
        if text is None:
            return None
        if not grammar.key_entry:
            found += text.splitlines()
        elif entry := re.fullmatch(rf'{re.escape(grammar.key_entry)}: (".*")\n?', text):
            found.append(json.loads(entry[1]))
    return found


def drop_own_libraries(value: str, start: Start) -> str:
    """The path of libraries without the folders of the environment that the program lies in.

    Its launcher puts them there itself when it begins again with a library that the machine lacks.
    """
    started = take_apart(start.argv)
    script = start.program or _path(started.program, start.directory)
    root = posixpath.dirname(posixpath.dirname(script))
    is_environment = posixpath.dirname(_path(started.interpreter, start.directory)) == f"{root}/bin"
    if not (is_environment and started.program and root not in ("", "/")):
        return value
    return ":".join(part for part in value.split(":") if not part.startswith(f"{root}/"))


def _variables(
    start: Start, reading: Reading, table: EngineTable | None, variables: Variables
) -> dict[str, Item]:
    """The variables but those of managers, and those that stand for flags."""
    flags = _names_for_flags(table)
    found: dict[str, Item] = {}
    for name, value in start.env.items():
        if variables.is_own(name) or name in flags:
            continue
        kept = drop_own_libraries(value, start) if name == LIBRARY_PATH else value
        if kept or not value:
            is_secret = variables.is_secret(name, kept)
            found[name] = secret_item((kept,)) if is_secret else Item(values=(kept,))
    return found


def _names_for_flags(table: EngineTable | None) -> frozenset[str]:
    options = table.catalogue.options if table else ()
    return frozenset(option.env for option in options if option.env)


def _key_item(
    keys: Sequence[Flag], table: EngineTable | None, grammar: Grammar, read_text: ReadText
) -> dict[str, Item]:
    """All API keys as one secret under one name, however they were given."""
    if not keys:
        return {}
    name = next(iter(grammar.keys), keys[0].name)
    found = collect_keys(keys, table, grammar, read_text)
    if found is None:
        return {name: Item(note=UNREADABLE)}
    return {name: secret_item(sorted(found))} if found else {}


def _split_keys(value: str, grammar: Grammar) -> list[str]:
    return value.split(grammar.key_separator) if grammar.key_separator else [value]


def _path(program: str, directory: str) -> str:
    """A program that was named with a folder, from the root; one that was looked up as it is."""
    return anchor(program, directory) if "/" in program else program


def first_line(text: str) -> str:
    """What a file with one secret holds, as the guard and the engines read it."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
