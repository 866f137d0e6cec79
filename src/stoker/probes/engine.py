"""Whether the engine's executable is there, runs, and what it says that it is."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import AccessDenied, HostError, NotFound
from stoker.model.facts import Target
from stoker.ports import Command, Probe, ReadableHost

_TIMEOUT_SECONDS = 20.0
_MOST_LINES = 10
_MOST_CHARACTERS = 2000
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
    argv = (*target.command, "--version")
    if host.stat(argv[0]) is None:
        return {"state": "missing"}
    try:
        result = host.run(Command(argv=argv, timeout_seconds=_TIMEOUT_SECONDS, env=_ENV))
    except (AccessDenied, NotFound):
        # NotFound of a file that is there: the interpreter in its first line is not.
        return {"state": "not-executable"}
    if result.timed_out:
        raise HostError(f"{argv[0]} did not tell its version within {_TIMEOUT_SECONDS:.0f} seconds")
    return {
        "state": "answered",
        "stdout": result.stdout,
        "stderr": result.stderr,
        "exit_status": str(result.exit_status),
    }


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
