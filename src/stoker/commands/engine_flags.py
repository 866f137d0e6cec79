"""The flags of the engine that is really there: its own parser is asked, in its own environment.

Called where a deployment is resolved. The answer is kept in the state folder for as long as the
files that it rests on stay as they are. Where the engine cannot be asked, the catalogue of its
release stands in, and an observation says why; nothing here blocks a plan.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from stoker.commands.world import World
from stoker.errors import DataError, HostError, StateError
from stoker.knowledge.help_text import parse_help
from stoker.knowledge.lifetimes import public_version
from stoker.knowledge.releases import (
    compare_catalogues,
    find_release,
    fit_table,
    load_table_for,
    parse_options,
)
from stoker.knowledge.stacks import EngineRow, find_build, find_engine_row, load_reader
from stoker.model.deployment import Deployment
from stoker.model.engine_table import EngineTable, FlagCatalogue, Place
from stoker.model.event import Event, EventKind
from stoker.model.facts import Facts, Observation, Plain, Target, Unknown
from stoker.model.finding import Source
from stoker.model.installed_flags import FileMark, InstalledFlags
from stoker.model.layout import engine_flags_path
from stoker.model.visible import visible
from stoker.ports import Command, ReadableHost
from stoker.probes import engine_packages
from stoker.probes.engine import become
from stoker.probes.observe import observe
from stoker.recipes.notes.secrets import hide_secrets
from stoker.state.documents import read_document, write_document

#: The observation that says whose flags a plan was checked against.
OBSERVATION = "engine_flags"
#: Importing an engine takes 5 to 60 seconds, from a cold disk longer.
TIMEOUT_SECONDS = 180.0
#: When the reader ends itself: only where Stoker was killed, and cannot do it.
_READER_SECONDS = int(TIMEOUT_SECONDS) + 10
_EXPECTED_SECONDS = 15.0
_TELL_SECONDS = 1.0
_MOST_FILES = 4000
_MOST_NAMED = 10
_LAST_WORDS_CHARACTERS = 300
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Nothing can be made below it: an engine that is only asked leaves nothing in a home folder.
_NO_HOME = "/dev/null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The engine's table and place for the release that is there, and the facts with its flags."""

    table: EngineTable
    place: Place
    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """One way to ask an engine: what is run, as whom, and what the answer depends on.

    ``place`` is the digest of the program and its user, ``key`` that of all else too.
    """

    argv: tuple[str, ...]
    program: str
    env: Mapping[str, str]
    version: str
    is_help: bool
    place: str
    key: str


class _NotAsked(Exception):
    """The engine could not be asked; the text says why, and goes into the observation."""


def fit_engine(
    world: World, deployment: Deployment, place: Place, facts: Facts, *, user: str | None
) -> Fitted:
    """The table for the engine's own release, its flags from its own parser where that tells them.

    ``place`` says the build of an engine that Stoker installs itself; that of another one is
    found in the facts.
    """
    kind = deployment.engine.kind
    is_ours = deployment.engine.environment == "embedded"
    found: str | Unknown = place.build if is_ours else find_build(kind, facts)
    version = None if isinstance(found, Unknown) else found
    table = load_table_for(kind, version)
    try:
        if isinstance(found, Unknown):
            raise _NotAsked(found.reason)
        installed = None if is_ours else _read_installed(world, deployment, facts, user=user)
        reason = ""
    except _NotAsked as error:
        installed, reason = None, str(error)
    observation = _observe(world, table.catalogue, version, installed=installed, reason=reason)
    return Fitted(
        table=table if installed is None else fit_table(table, installed.catalogue),
        place=place if version is None else replace(place, build=version),
        facts=replace(facts, observations={**facts.observations, OBSERVATION: observation}),
    )


def find_version(host: ReadableHost, kind: str, argv: Sequence[str]) -> str | None:
    """The release of an engine that a command line starts, from what lies in its environment.

    None where that is not told; nothing is run for it.
    """
    program = argv[0] if argv else ""
    if not posixpath.isabs(program):
        return None
    target = Target(command=(program,))
    only = frozenset({engine_packages.PROBE.id})
    facts = observe(host, target, stoker_version="", now_seconds=0.0, only=only)
    found = find_build(kind, facts)
    return None if isinstance(found, Unknown) else found


def _observe(
    world: World,
    known: FlagCatalogue,
    version: str | None,
    *,
    installed: InstalledFlags | None,
    reason: str,
) -> Observation:
    """Whose flags count, and how the engine's own differ from those of its release."""
    release = find_release(known.engine, version)
    value: dict[str, Plain] = {
        "authority": "release" if installed is None else "installed",
        "version": version,
        "release": release.build,
        "is_exact": release.is_exact,
        "reason": reason,
        "count": len((installed.catalogue if installed else known).options),
        "seconds": installed.seconds if installed else None,
        "difference": _tell_difference(installed.catalogue, known) if installed else "",
    }
    source = installed.catalogue.source if installed else known.source
    return Observation(
        probe=OBSERVATION,
        value=value,
        source=source.where,
        taken_at_seconds=world.clock.now_seconds(),
    )


def _tell_difference(installed: FlagCatalogue, known: FlagCatalogue) -> str:
    """How an installed parser differs from that of its release, in words; empty where not."""
    differ = compare_catalogues(installed, known)
    told = (
        ("it alone has", differ.only_installed),
        ("it lacks", differ.only_known),
        ("it takes other values for", differ.choices),
    )
    return "; ".join(f"{words} {_list(names)}" for words, names in told if names)


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED} more"


def _read_installed(
    world: World, deployment: Deployment, facts: Facts, *, user: str | None
) -> InstalledFlags:
    """The flags that the engine's own parser tells, from memory where nothing has changed."""
    question = _pose(world, deployment, facts, user=user)
    path = engine_flags_path(world.folders, deployment.engine.kind, question.place)
    kept = _read_kept(world, path, question)
    if kept is not None:
        return kept
    told = _ask(world, question, deployment.engine.kind)
    _keep(world, path, told)
    return told


def _keep(world: World, path: str, told: InstalledFlags) -> None:
    """Remember an answer, where there is a state folder: a verb that only reads makes none."""
    try:
        if world.host.stat(world.folders.state) is not None:
            write_document(world.host, path, told)
    except HostError as error:
        world.reporter.emit(
            Event(kind=EventKind.NOTE, subject="engine", text=f"not kept: {error.summary}")
        )


def _pose(world: World, deployment: Deployment, facts: Facts, *, user: str | None) -> _Question:
    """What to run; raises _NotAsked where there is nothing to ask, or no way."""
    kind = deployment.engine.kind
    row = find_engine_row(kind)
    version = find_build(kind, facts)
    if row is None or isinstance(version, Unknown):
        raise _NotAsked(version.reason if isinstance(version, Unknown) else "")
    program = _program_to_ask(world, row, facts)
    try:
        prefix = become(world.host, user) if user else ()
    except HostError as error:
        raise _NotAsked(error.summary) from error
    own = {"PATH": _PATH, "HOME": _NO_HOME, "LC_ALL": "C.UTF-8"}
    env = {**own, **deployment.engine.env}
    stands_on = (program, version, sorted(env.items()), user, facts.read("engine_packages.origins"))
    return _Question(
        argv=(*prefix, *program),
        program=program[0],
        env=env,
        version=version,
        is_help=row.parser is None,
        place=_digest((program[0], user))[:16],
        key=_digest(stands_on),
    )


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _program_to_ask(world: World, row: EngineRow, facts: Facts) -> tuple[str, ...]:
    if row.parser is not None:
        interpreter = facts.read("engine_packages.interpreter")
        if isinstance(interpreter, Unknown):
            raise _NotAsked(interpreter.reason)
        asked = {
            "root": row.parser.root,
            "make": row.parser.make,
            "fill": row.parser.fill,
            "seconds": _READER_SECONDS,
        }
        return (str(interpreter), "-c", load_reader(), json.dumps(asked))
    program = facts.read("engine_packages.program")
    if isinstance(program, Unknown) or not row.help:
        raise _NotAsked("the engine has no way to tell its flags")
    return (str(program), *row.help)


def _read_kept(world: World, path: str, question: _Question) -> InstalledFlags | None:
    """An earlier answer to the very same question, if every file that it rests on is the same."""
    try:
        kept = read_document(world.host, path, InstalledFlags)
        if kept is None or kept.key != question.key or not kept.files:
            return None
        same = all(_mark(world, mark.path) == mark for mark in kept.files)
    except (HostError, StateError):
        return None
    return kept if same else None


def _mark(world: World, path: str) -> FileMark | None:
    stat = world.host.stat(path)
    if stat is None:
        return None
    return FileMark(path=path, size_bytes=stat.size_bytes, modified_ns=stat.modified_ns)


def _ask(world: World, question: _Question, kind: str) -> InstalledFlags:
    """Run it, telling how long it takes; raises _NotAsked for anything but an answer."""
    began = world.clock.monotonic_seconds()
    title = f"asking {kind} {question.version} for its flags"
    told_at = began - _TELL_SECONDS

    def tell() -> None:
        nonlocal told_at
        now = world.clock.monotonic_seconds()
        if now - told_at >= _TELL_SECONDS:
            told_at = now
            timing = {"seconds": now - began, "expected_seconds": _EXPECTED_SECONDS}
            event = Event(kind=EventKind.PHASE, subject="engine", text=title, data=timing)
            world.reporter.emit(event)

    tell()
    command = Command(
        argv=question.argv, timeout_seconds=TIMEOUT_SECONDS, env=question.env, is_question=True
    )
    try:
        ran = world.host.run(command, tell)
    except HostError as error:
        raise _NotAsked(error.summary) from error
    if ran.timed_out:
        raise _NotAsked(f"it did not answer within {TIMEOUT_SECONDS:.0f} seconds")
    seconds = round(world.clock.monotonic_seconds() - began, 1)
    if question.is_help:
        answer = _parse_help(ran.stdout, _mark(world, question.program))
    else:
        answer = _parse_answer(ran.stdout, ran.stderr)
    return _make(world, question, answer, kind=kind, seconds=seconds)


def _parse_help(stdout: str, program: FileMark | None) -> dict[str, Plain]:
    rows = parse_help(stdout)
    if not rows or program is None:
        raise _NotAsked("its help names no flags")
    return {
        "options": rows,
        "files": [[program.path, program.size_bytes, program.modified_ns]],
    }


def _parse_answer(stdout: str, stderr: str) -> dict[str, Plain]:
    """The reader's answer; the last words of the engine where there is none."""
    last = stderr.strip().rpartition("\n")[2]
    try:
        answer = json.loads(stdout)
    except (ValueError, RecursionError) as error:
        raise _NotAsked(
            f"it ended without an answer: {_show(last) or 'it said nothing'}"
        ) from error
    if not isinstance(answer, dict):
        raise _NotAsked(f"its answer makes no sense: {_show(stdout[:200])}")
    return answer


def _make(
    world: World, question: _Question, answer: Mapping[str, Plain], *, kind: str, seconds: float
) -> InstalledFlags:
    known = load_table_for(kind, question.version).catalogue
    source = Source(
        kind="observed",
        where=f"the parser of {kind} {question.version} on {world.host.name}",
        version=public_version(question.version),
        date=datetime.fromtimestamp(world.clock.now_seconds(), UTC).date().isoformat(),
    )
    try:
        catalogue = parse_options(
            answer.get("options"), known, version=question.version, source=source
        )
    except DataError as error:
        raise _NotAsked(_shorten(error.summary)) from error
    files = _parse_files(answer.get("files"))
    return InstalledFlags(key=question.key, catalogue=catalogue, files=files, seconds=seconds)


def _parse_files(rows: Plain) -> tuple[FileMark, ...]:
    """The files as they were while they were read; none of them where one makes no sense."""
    marks = []
    for row in rows[:_MOST_FILES] if isinstance(rows, list) else ():
        match row:
            case [str(path), int(size), int(modified)] if path.startswith("/"):
                marks.append(FileMark(path=path, size_bytes=size, modified_ns=modified))
            case _:
                return ()
    return tuple(marks)


def _show(text: str) -> str:
    """Words of the engine's own: no secret, and nothing that a terminal would obey."""
    return _shorten(visible(hide_secrets(text)))


def _shorten(text: str) -> str:
    return " ".join(text.split())[:_LAST_WORDS_CHARACTERS]
