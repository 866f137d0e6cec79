"""One running process: what was started, by whom and where. Reads /proc alone and never signals.

No probe of a machine's facts, for these must not hold the secrets that stand in a command line or
in an environment; the commands that look at one process ask it for that one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import asdict

from stoker.errors import AccessDenied, HostError, NotFound
from stoker.model.facts import Plain
from stoker.model.process import RunningProcess
from stoker.model.units import parse_process_identity
from stoker.ports import Probe, ReadableHost
from stoker.probes.listeners import parse_users
from stoker.probes.reading import read_if_any, read_link_if_any

#: The kernel takes no more for arguments and environment together (execve(2): three quarters of
#: the hard limit of 8 MiB stack); a text that long was cut off.
LIMIT_BYTES = 8 << 20

#: In /proc/PID/stat, from the field after the command's name (proc_pid_stat(5), fields 3 to 9).
_STATE, _FLAGS = 0, 6
_ENDED = "ZXx"
#: PF_KTHREAD in the kernel's sched.h: a thread of the kernel, which no program runs in.
_KERNEL_THREAD = 0x00200000
#: What the kernel adds to the link of a program whose file is gone (proc_pid_exe(5)).
_DELETED = " (deleted)"
#: A control group that a container engine made: its name, and the container's behind it.
_CONTAINER = re.compile(
    r"(docker|libpod|crio|cri-containerd|containerd|kubepods|lxc\.payload|lxc)"
    r"(?:-conmon)?[-/.:]([0-9A-Za-z_][0-9A-Za-z_.-]*)"
)
_CONTAINER_CHARACTERS = 24
#: The weakest form of ``elsewhere``: services of systemd often have one, with the same files in it.
OWN_MOUNTS = "a mount namespace of its own"
_UNIT = ".service"


def read(host: ReadableHost, pid: int) -> Mapping[str, str]:
    """Raw texts of one process. Raises NotFound if it is gone, AccessDenied if it is not ours.

    The identity is read first and last: in between another process may have got the pid.
    """
    folder = f"/proc/{pid}"
    stat = host.read_text(f"{folder}/stat")
    if _is_programless(stat):
        return {"stat": stat}
    return {
        "stat": stat,
        "status": host.read_text(f"{folder}/status"),
        "own_status": read_if_any(host, "/proc/self/status") or "",
        "cmdline": _read_exactly(host, f"{folder}/cmdline"),
        "environ": _read_exactly(host, f"{folder}/environ"),
        "cwd": read_link_if_any(host, f"{folder}/cwd") or "",
        "exe": read_link_if_any(host, f"{folder}/exe") or "",
        "root": read_link_if_any(host, f"{folder}/root") or "",
        "files": _compare_files(host, pid),
        "cgroup": read_if_any(host, f"{folder}/cgroup") or "",
        "passwd": read_if_any(host, "/etc/passwd") or "",
        "stat_after": host.read_text(f"{folder}/stat"),
    }


def _is_programless(stat: str) -> bool:
    """Whether it has neither a command line nor an environment; parse says so in words."""
    fields = stat.rpartition(")")[2].split()
    flags = fields[_FLAGS] if len(fields) > _FLAGS else ""
    return fields[:1] == ["Z"] or (flags.isdecimal() and bool(int(flags) & _KERNEL_THREAD))


def _read_exactly(host: ReadableHost, path: str) -> str:
    """The bytes of a file, each in the text: one that is not UTF-8 is a lone surrogate."""
    return host.read_bytes(path, 0, LIMIT_BYTES).decode("utf-8", "surrogateescape")


def _compare_files(host: ReadableHost, pid: int) -> str:
    """Whether it sees the files that we see: ``same``, ``other`` or empty for not known."""
    theirs = read_link_if_any(host, f"/proc/{pid}/ns/mnt")
    ours = read_link_if_any(host, "/proc/self/ns/mnt")
    if not theirs or not ours:
        return ""
    return "same" if theirs == ours else "other"


def parse(raw: Mapping[str, str]) -> dict[str, Plain]:
    """The process as the fields of :class:`RunningProcess`.

    Raises ValueError, in words that go on after "the process", for one that runs no program, has
    ended, or changed while it was read.
    """
    fields = raw["stat"].rpartition(")")[2].split()
    pid_text = raw["stat"].partition(" ")[0]
    if not pid_text.isdecimal():
        raise ValueError("has no status that can be understood")
    identity = parse_process_identity(raw["stat"], int(pid_text))
    if fields[_STATE] in _ENDED:
        raise ValueError("has ended and only waits for its parent to take note")
    if int(fields[_FLAGS]) & _KERNEL_THREAD:
        raise ValueError("is a thread of the kernel, not a program")
    if "cmdline" not in raw:
        raise ValueError("was ending while it was read")
    if parse_process_identity(raw["stat_after"], int(pid_text)) != identity:
        raise ValueError("ended while it was read")
    executable = raw["exe"].removesuffix(_DELETED)
    return asdict(
        RunningProcess(
            pid=int(pid_text),
            identity=identity,
            argv=tuple(parse_arguments(raw["cmdline"])),
            env=parse_environment(raw["environ"]),
            directory=raw["cwd"].removesuffix(_DELETED),
            executable=executable,
            is_replaced=executable != raw["exe"],
            user=_user(raw["status"], raw["passwd"]),
            unit=_unit(raw["cgroup"]),
            elsewhere=_elsewhere(raw),
            processors=_processors(raw["status"], raw["own_status"]),
        )
    ) | {"argv": parse_arguments(raw["cmdline"])}


def parse_arguments(text: str) -> list[str]:
    """The words of a command line, empty ones too.

    Raises ValueError where there is none, and for one that was cut off or that the process has
    written over: a title instead of words, without the NUL that ends the last word.
    """
    _refuse_cut(text)
    if not text.strip("\0"):
        raise ValueError("has no command line: it is ending, or has erased it")
    words = text.split("\0")
    if words.pop():
        raise ValueError("has written over its command line, so what it was started with is gone")
    if len(words) > 1 and " " in words[0] and not any(words[1:]):
        raise ValueError("has written over its command line, so what it was started with is gone")
    return words


def parse_environment(text: str) -> dict[str, str]:
    """The variables; of two with the same name the first counts, as for getenv(3)."""
    _refuse_cut(text)
    variables: dict[str, str] = {}
    for entry in text.split("\0"):
        name, equals, value = entry.partition("=")
        if name and equals:
            variables.setdefault(name, value)
    return variables


def _refuse_cut(text: str) -> None:
    if len(text.encode("utf-8", "surrogateescape")) >= LIMIT_BYTES:
        raise ValueError("has more words and variables than can be read")


def _user(status: str, passwd: str) -> str:
    """Whom it acts as: the effective user (proc_pid_status(5): real, effective, saved, file's)."""
    numbers = _status_field(status, "Uid").split()
    if len(numbers) < 2:
        raise ValueError("does not say whose it is")
    return parse_users(passwd).get(numbers[1], numbers[1])


def _processors(status: str, own_status: str) -> str:
    """The processors that it is held to, if they are not ours (taskset, numactl, a CPU set)."""
    theirs, ours = (_status_field(text, "Cpus_allowed_list") for text in (status, own_status))
    return theirs if ours and theirs != ours else ""


def _status_field(status: str, name: str) -> str:
    lines = (line.partition(":") for line in status.splitlines())
    return next((rest.strip() for each, _, rest in lines if each == name), "")


def _unit(groups: str) -> str:
    """The systemd service that it belongs to: the end of its path in systemd's own hierarchy."""
    for line in groups.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        name = posixpath.basename(path)
        if controllers in ("", "name=systemd") and name.endswith(_UNIT):
            return name
    return ""


def _elsewhere(raw: Mapping[str, str]) -> str:
    """Where its files lie, if not where ours do."""
    if raw["files"] == "other":
        found = _CONTAINER.search(raw["cgroup"])
        if found:
            return f"the container {found[1]} {found[2][:_CONTAINER_CHARACTERS]}"
        return OWN_MOUNTS
    return f"the folder {raw['root']} as its root" if raw["root"] not in ("", "/") else ""


def read_process(host: ReadableHost, pid: int) -> RunningProcess:
    """The process with this pid.

    Raises NotFound, AccessDenied or HostError, each with the pid in its sentence.
    """
    try:
        value = parse(read(host, pid))
    except ValueError as error:
        raise HostError(f"process {pid} {error}", f"see `ps -fp {pid}` for what it is") from error
    except NotFound as error:
        raise NotFound(f"there is no process {pid}", "`ps -ef` lists those that run") from error
    except AccessDenied as error:
        raise AccessDenied(
            f"process {pid} may not be looked at by this user",
            "run Stoker as the user that the process runs as, or as root",
        ) from error
    return RunningProcess(**{**value, "argv": tuple(value["argv"])})


def read_arguments(host: ReadableHost, pid: int) -> tuple[str, ...]:
    """The words of a process's command line; none where it has none or they may not be read."""
    try:
        return tuple(parse_arguments(_read_exactly(host, f"/proc/{pid}/cmdline")))
    except (HostError, ValueError):
        return ()


PROCESS = Probe(
    id="process", source="/proc/PID/cmdline, environ, stat, status", read=read, parse=parse
)
