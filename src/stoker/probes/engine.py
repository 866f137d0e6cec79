"""Whether the engine's executable is there, runs, and what it says that it is."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import AccessDenied, HostError, NotFound
from stoker.model.facts import Target
from stoker.ports import Command, Probe, ReadableHost
from stoker.probes.engine_packages import find_interpreter

_TIMEOUT_SECONDS = 20.0
_MOST_LINES = 10
#: How setpriv ends when it could not execute the program (its manual page).
_NOT_EXECUTED = (126, 127)
_MOST_CHARACTERS = 2000
_MAY_RUN = 0o111
#: Nothing of ours: a version must not depend on it, and a home folder would be written to.
_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
}


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """Both outputs of the engine when it is asked for its version, if it can be asked."""
    if not target.command:
        raise HostError("no engine command is known yet")
    program = target.command[0]
    found = host.stat(program)
    if found is None:
        return {"state": "missing"}
    asked = _whom_to_ask(host, target)
    if asked != target.command and not found.mode & _MAY_RUN:
        return {"state": "not-executable"}
    prefix = become(host, target.user) if target.user else ()
    argv = (*prefix, *asked, "--version")
    try:
        result = host.run(
            Command(argv=argv, timeout_seconds=_TIMEOUT_SECONDS, env=_ENV, is_question=True)
        )
    except (AccessDenied, NotFound):
        # NotFound of a file that is there: the interpreter in its first line is not.
        return {"state": "not-executable"}
    if prefix and result.exit_status in _NOT_EXECUTED:
        return {"state": "not-executable"}
    if result.timed_out:
        raise HostError(f"{program} did not tell its version within {_TIMEOUT_SECONDS:.0f} seconds")
    return {
        "state": "answered",
        "stdout": result.stdout,
        "stderr": result.stderr,
        "exit_status": str(result.exit_status),
    }


def _whom_to_ask(host: ReadableHost, target: Target) -> tuple[str, ...]:
    """The program itself; of a Python script its interpreter.

    A script would import the whole engine to tell a version that its distribution tells at once.
    """
    try:
        interpreter = find_interpreter(host, target.command[0])
    except HostError:
        interpreter = None
    return target.command if interpreter is None else (interpreter,)


def become(host: ReadableHost, user: str) -> tuple[str, ...]:
    """What makes a command run as the service's user: root executes no engine for a question.

    Raises HostError where there is no such user or no means.
    """
    setpriv = host.find_command("setpriv")
    if setpriv is None:
        raise HostError(f"the engine is asked as {user}, which needs setpriv (util-linux)")
    for line in host.read_text("/etc/passwd").splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split(":")
        if name == user and len(fields) > 2:
            identity = (f"--reuid={fields[1]}", f"--regid={fields[2]}", "--clear-groups")
            return (setpriv, *identity, "--")
    raise HostError(f"the engine is asked as {user}, and there is no such user in /etc/passwd")


def parse(raw: Mapping[str, str]) -> dict[str, str | int | None]:
    """``state``: missing, not-executable or answered.

    ``version_text``: the first lines, standard output first, for some engines use the other.
    ``exit_status`` is negative for a signal, None when it could not be asked.
    """
    if raw["state"] != "answered":
        return {"state": raw["state"], "version_text": "", "exit_status": None}
    lines = [line.rstrip() for line in (raw["stdout"] + "\n" + raw["stderr"]).splitlines()]
    text = "\n".join([line for line in lines if line][:_MOST_LINES])
    return {
        "state": raw["state"],
        "version_text": text[:_MOST_CHARACTERS],
        "exit_status": int(raw["exit_status"]),
    }


PROBE = Probe(id="engine", source="the engine's --version", read=read, parse=parse)
