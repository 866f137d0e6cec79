"""Servers that run on this machine without Stoker's doing: which there are, and one of them.

Called by `stoker adopt` and `stoker diff`. It reads /proc and never signals. Every name that is
told here may have been chosen by another user, so it is spelled out before it is shown.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker import __version__
from stoker.commands.world import World
from stoker.errors import HostError, UsageError
from stoker.knowledge.servers import (
    Server,
    Started,
    is_keeper,
    load_servers,
    recognise_server,
    take_apart,
)
from stoker.model.facts import Plain, Target, Unknown
from stoker.model.process import RunningProcess
from stoker.model.visible import visible
from stoker.planning.command_line import anchor
from stoker.planning.sides import Start
from stoker.ports import ReadableHost, Stat
from stoker.probes.observe import observe
from stoker.probes.process import read_arguments, read_process
from stoker.supervisors.processes import (
    Process,
    find_descendants,
    read_environment,
    read_processes,
)
from stoker.supervisors.stamps import DEPLOYMENT

_MOST_LINKS = 40
#: The beginning of a script: its first lines, with the longest path that there is in them.
_SCRIPT_BYTES = 8192
#: More words than any server is started with; beyond them no path is looked up.
_MOST_WORDS = 1000
_EXECUTABLE = 0o111


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A server that runs: its first process, what it is, and where it listens.

    ``deployment`` names the deployment of Stoker's that it is, empty for none.
    """

    pid: int
    server: Server
    listening: tuple[tuple[str, int], ...] = ()
    deployment: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All processes at one moment, the words of each, and who listens where."""

    processes: Mapping[int, Process]
    words: Mapping[int, tuple[str, ...]] = field(repr=False)
    listeners: Sequence[Mapping[str, Plain]]

    def recognise(self, pid: int) -> Server | None:
        """Which server a process is."""
        return recognise_server(self.words.get(pid, ()))

    def first_of(self, pid: int) -> int:
        """The process that started it all: the farthest ancestor that is a server, else itself."""
        first = pid
        seen: set[int] = set()
        while pid in self.processes and pid not in seen:
            seen.add(pid)
            first = pid if self.recognise(pid) else first
            pid = self.processes[pid].parent
        return first

    def listening(self, pid: int) -> tuple[tuple[str, int], ...]:
        """The addresses and ports of a process, of its children and of the group that it leads."""
        group = {each.pid for each in self.processes.values() if each.group == pid}
        family = {pid, *find_descendants(tuple(self.processes.values()), pid), *group}
        return tuple(
            (str(row["address"]), int(row["port"]))
            for row in self.listeners
            if row["pid"] in family
        )


def read_table(world: World) -> Table:
    """The processes of this moment. Raises HostError without a /proc."""
    processes = {process.pid: process for process in read_processes(world.host)}
    facts = observe(
        world.host,
        Target(),
        stoker_version=__version__,
        now_seconds=world.clock.now_seconds(),
        only=frozenset({"listeners"}),
    )
    listeners = facts.read("listeners.listeners")
    return Table(
        processes=processes,
        words={pid: read_arguments(world.host, pid) for pid in processes},
        listeners=() if isinstance(listeners, Unknown) else listeners,
    )


def list_servers(world: World, table: Table) -> tuple[Candidate, ...]:
    """Every server that runs, once each however many processes it has."""
    firsts = dict.fromkeys(table.first_of(pid) for pid in table.processes if table.recognise(pid))
    found = tuple(_candidate(world, table, pid) for pid in firsts)
    return tuple(each for each in found if not _is_worker_of_another(each, found, table))


def choose_server(
    world: World, *, pid: int | None, port: int | None, kind: str | None = None
) -> Candidate:
    """The server with this process or port, or the only one that runs.

    ``kind`` is the engine of a server whose command line does not tell it. Raises UsageError.
    """
    table = read_table(world)
    if pid is not None:
        return _choose_by_pid(world, table, pid, kind)
    if port is not None:
        return _choose_by_port(world, table, port, kind)
    found = list_servers(world, table)
    foreign = tuple(each for each in found if not each.deployment)
    if len(foreign) == 1:
        return foreign[0]
    if foreign:
        listed = "; ".join(describe(world, each) for each in foreign)
        raise UsageError(
            f"{len(foreign)} servers run here: {listed}",
            f"say which one: stoker adopt --pid {foreign[0].pid}",
        )
    if found:
        raise _refuse_own(found[0])
    raise UsageError(
        "no server runs here that Stoker knows and may look at",
        "name its process (--pid) or its port (--port); servers of other users are seen by root",
    )


def describe(world: World, candidate: Candidate) -> str:
    """A server in some words, none of them from its command line but the program's name."""
    started = candidate.server.started
    name = posixpath.basename(started.program) or started.module
    ports = ", ".join(str(port) for _, port in candidate.listening)
    where = f" on port {ports}" if ports else ""
    stat = world.host.stat(f"/proc/{candidate.pid}")
    owner = f" of {visible(stat.owner)}" if stat else ""
    title = candidate.server.title
    return f"process {candidate.pid}{owner}, {title}{where} ({visible(name)[:40]})"


def find_engine(world: World, pid: int) -> int:
    """The process that one means: the child of a guard, else the process itself."""
    if not is_keeper(read_arguments(world.host, pid)):
        return pid
    table = read_table(world)
    children = [each.pid for each in table.processes.values() if each.parent == pid]
    engines = [child for child in children if not is_keeper(table.words.get(child, ()))]
    if len(engines) == 1:
        return engines[0]
    raise UsageError(
        f"process {pid} is a guard of Stoker's, and no engine runs under it now",
        "`stoker status` says how its deployment stands",
    )


def look_at(host: ReadableHost, pid: int) -> RunningProcess:
    """The process with this pid. Raises UsageError for one that is not there or not for us."""
    try:
        return read_process(host, pid)
    except HostError as error:
        raise UsageError(error.summary, error.hint) from error


def start_of_process(host: ReadableHost, process: RunningProcess, *, kind: str = "") -> Start:
    """What was started, as it can be compared and taken over."""
    started = take_apart(process.argv)
    program, interpreter = locate_program(host, process, started)
    return Start(
        title=f"pid:{process.pid}",
        argv=process.argv,
        env=process.env,
        directory=process.directory,
        program=program,
        interpreter=interpreter,
        user=process.user,
        kind=kind,
        beside=frozenset(_words_beside(host, process)),
        is_whole=True,
    )


def locate_program(
    host: ReadableHost, process: RunningProcess, started: Started
) -> tuple[str, str]:
    """The path of the program or script, and the file of what interprets it (empty for none).

    A name is not believed: where the file that it leads to is not the one that runs, the one that
    runs counts.
    """
    if not started.interpreter:
        named = anchor(started.program, process.directory) if "/" in started.program else ""
        is_same = bool(named) and follow_links(host, named) == process.executable
        return (named if is_same else process.executable), ""
    if started.module:
        return f"{_interpreter_path(host, process, started)} -m {started.module}", (
            process.executable
        )
    script = anchor(started.program, process.directory)
    plain = script.removesuffix(".py")
    stat = _stat(host, plain) if plain != script else None
    is_launcher = stat is not None and stat.kind == "file" and bool(stat.mode & _EXECUTABLE)
    return (plain if is_launcher else script), process.executable


def find_environment(
    host: ReadableHost, process: RunningProcess, started: Started, command: str = ""
) -> str:
    """Where the engine comes from, as ``engine.environment`` says it.

    ``command`` is the name of the program that a deployment starts the engine by. Where another
    one of the same environment was started, it is the folder of both.
    """
    if started.module:
        interpreter = _interpreter_path(host, process, started)
        return f"path:{posixpath.dirname(posixpath.dirname(interpreter))}"
    program = locate_program(host, process, started)[0]
    folder, name = posixpath.split(program)
    is_another = bool(command) and name != command and posixpath.basename(folder) == "bin"
    if is_another and _stat(host, posixpath.join(folder, command)) is not None:
        return f"path:{posixpath.dirname(folder)}"
    return f"path:{program}"


def interpreter_of(host: ReadableHost, program: str) -> str:
    """The file of the interpreter that a script names in its first line; empty for no script."""
    try:
        text = host.read_bytes(program, 0, _SCRIPT_BYTES)
    except HostError:
        return ""
    lines = text.decode("utf-8", "replace").splitlines()[:2] if text.startswith(b"#!") else []
    words = lines[0][2:].split() if lines else []
    if words and posixpath.basename(words[0]) == "sh" and len(lines) > 1:
        words = _words_of_exec(lines[1])
    first = words[0] if words else ""
    is_one = re.fullmatch(load_servers().interpreters, posixpath.basename(first)) is not None
    return follow_links(host, first) if is_one and posixpath.isabs(first) else ""


def follow_links(host: ReadableHost, path: str) -> str:
    """The path with all symbolic links followed; what cannot be read stays as it is."""
    rest = [part for part in path.split("/") if part]
    place, links = "/", 0
    while rest:
        part = rest.pop(0)
        place = posixpath.normpath(posixpath.join(place, part))
        try:
            target = host.read_link(place)
        except HostError:
            continue
        links += 1
        if links > _MOST_LINKS:
            return path
        rest = [each for each in target.split("/") if each] + rest
        place = "/" if target.startswith("/") else posixpath.dirname(place)
    return place


def _choose_by_pid(world: World, table: Table, pid: int, kind: str | None) -> Candidate:
    process = look_at(world.host, pid)
    first = table.first_of(pid)
    if table.recognise(first) is not None:
        notes = (f"process {pid} belongs to process {first}, which is taken",)
        return _candidate(world, table, first, notes=notes if first != pid else ())
    if kind is not None:
        return _candidate(world, table, pid, kind=kind)
    below = _servers_below(table, pid)
    if len(below) == 1:
        notes = (f"process {pid} has started process {below[0]}, which is taken",)
        return _candidate(world, table, below[0], notes=notes)
    name = visible(posixpath.basename(process.argv[0]))[:40]
    raise UsageError(
        f"process {pid} ({name}) is no server that Stoker knows",
        "say with --engine which engine it is, if it is one under another name",
    )


def _servers_below(table: Table, pid: int) -> list[int]:
    below = find_descendants(tuple(table.processes.values()), pid)
    found = dict.fromkeys(table.first_of(each) for each in below if table.recognise(each))
    return list(found)


def _choose_by_port(world: World, table: Table, port: int, kind: str | None) -> Candidate:
    rows = [row for row in table.listeners if row["port"] == port]
    if not rows:
        raise UsageError(
            f"nothing listens on port {port}", "`stoker facts` lists the ports and who holds them"
        )
    pids = [int(row["pid"]) for row in rows if row["pid"] is not None]
    if not pids:
        raise UsageError(
            f"port {port} is held by a process of {visible(str(rows[0]['user']))} that this user "
            "may not look at",
            "run Stoker as that user, or as root",
        )
    found = _choose_by_pid(world, table, pids[0], kind)
    own = tuple((str(row["address"]), port) for row in rows if row["pid"] is not None)
    return replace(found, listening=own)


def _candidate(
    world: World, table: Table, pid: int, *, kind: str = "", notes: tuple[str, ...] = ()
) -> Candidate:
    words = table.words.get(pid, ())
    started = take_apart(words)
    unnamed = Server(kind=kind, title=kind, started=started, flags=started.words)
    return Candidate(
        pid=pid,
        server=recognise_server(words) or unnamed,
        listening=table.listening(pid),
        deployment=read_environment(world.host, pid).get(DEPLOYMENT, ""),
        notes=notes,
    )


def _is_worker_of_another(candidate: Candidate, found: Iterable[Candidate], table: Table) -> bool:
    """Whether it only works for a server of its group: the same words, and it does not listen."""
    words, group = table.words[candidate.pid], table.processes[candidate.pid].group
    return not candidate.listening and any(
        other.listening
        and table.words[other.pid] == words
        and table.processes[other.pid].group == group
        for other in found
    )


def check_foreign(candidate: Candidate) -> None:
    """Raises UsageError for a server that Stoker runs."""
    if candidate.deployment:
        raise _refuse_own(candidate)


def _refuse_own(candidate: Candidate) -> UsageError:
    name = visible(candidate.deployment)[:40]
    return UsageError(
        f"process {candidate.pid} is already run by Stoker as {name}",
        f"`stoker status {name}` shows it, with the STOKER_STATE that it was started with; "
        f"`stoker diff {name} pid:{candidate.pid}` compares it",
    )


def _interpreter_path(host: ReadableHost, process: RunningProcess, started: Started) -> str:
    """The interpreter by the path that tells its environment: a link in ``bin``, not its target."""
    if "/" in started.interpreter:
        return anchor(started.interpreter, process.directory)
    for folder in process.env.get("PATH", "").split(":"):
        path = anchor(posixpath.join(folder, started.interpreter), process.directory)
        if folder and follow_links(host, path) == process.executable:
            return path
    return process.executable


def _words_beside(host: ReadableHost, process: RunningProcess) -> Iterable[str]:
    """The words that name something in the process's own folder."""
    for word in process.argv[1:_MOST_WORDS]:
        is_relative = bool(word) and not word.startswith(("-", "/"))
        if is_relative and _stat(host, anchor(word, process.directory)) is not None:
            yield word


def _words_of_exec(line: str) -> list[str]:
    try:
        first, *words = shlex.split(line)
    except ValueError:
        return []
    return words if first == "exec" else []


def _stat(host: ReadableHost, path: str) -> Stat | None:
    try:
        return host.stat(path)
    except HostError:
        return None
