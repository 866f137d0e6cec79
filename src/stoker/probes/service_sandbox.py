"""What systemd lets a service have here: tried by running one command as a service for a moment.

Containers forbid parts of it, each in a way of its own: a mount that is refused ends every start
of a service (status 226), a namespace that is refused is passed over in silence, a limit that is
too high is lowered. None of that can be told from a container's name, so it is tried. The command
prints what it was given; it changes nothing, and nothing of it stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.errors import HostError
from stoker.model.facts import Plain, Target, Trial
from stoker.ports import Command, CommandResult, Probe, ReadableHost
from stoker.probes.reading import read_if_any

#: What the command prints, one after the other: what a process has.
_PATHS = ("/proc/self/status", "/proc/self/limits", "/proc/self/mountinfo")
#: What every service has anyway: a container's own filters of system calls are inherited.
_FIRST_PATH = "/proc/1/status"
_OPTIONS = ("--quiet", "--wait", "--pipe", "--collect")
_TITLE = "Stoker tries what a service may have here"
_SECONDS = 30.0

_WHOLE = "all"
_PLAIN = "none"
_UNLIMITED = "unlimited"


def read(host: ReadableHost, target: Target) -> Mapping[str, str]:
    """The exit status and the output with all layers; where that fails, with each alone."""
    trial = target.trial
    if trial is None:
        raise HostError("no service of systemd is planned")
    raw = {"layers": " ".join(trial.layers)}
    raw |= {f"{layer}.title": title for layer, title in trial.titles.items()}
    raw["inherited"] = read_if_any(host, _FIRST_PATH) or ""
    everything = [line for lines in trial.layers.values() for line in lines]
    if _try(host, trial, everything, raw=raw, name=_WHOLE):
        return raw
    if not _try(host, trial, (), raw=raw, name=_PLAIN):
        raise HostError(f"systemd runs no command at all here: {raw[f'{_PLAIN}.error']}")
    for layer, lines in trial.layers.items():
        _try(host, trial, lines, raw=raw, name=layer)
    return raw


def _try(
    host: ReadableHost, trial: Trial, lines: Sequence[str], *, raw: dict[str, str], name: str
) -> bool:
    """Run the command under some lines and keep what came of it; whether it ran."""
    properties = (f"--property={line}" for line in lines)
    argv = (*trial.argv, *_OPTIONS, f"--description={_TITLE}", *properties, "--", "cat", *_PATHS)
    result = host.run(Command(argv=argv, timeout_seconds=_SECONDS, env=trial.env))
    if result.timed_out:
        raise HostError(f"systemd-run did not end within {_SECONDS:.0f} s")
    _keep(result, raw=raw, name=name)
    return result.exit_status == 0


def _keep(result: CommandResult, *, raw: dict[str, str], name: str) -> None:
    raw[f"{name}.status"] = str(result.exit_status)
    raw[f"{name}.output"] = result.stdout
    raw[f"{name}.error"] = " ".join(result.stderr.split())[:300]


def parse(raw: Mapping[str, str]) -> dict[str, Plain]:
    """``layers``: works, refused (no service starts with it) or ignored, by name.

    ``statuses``: how systemd ended the refused ones (systemd.exec(5), process exit codes).
    ``refused`` and ``ignored``: what a service lacks, for a person.
    ``memory_lock_bytes`` and ``open_files``: the limits that came of those that were asked for,
    None for no limit at all.
    """
    names = raw["layers"].split()
    is_whole = raw[f"{_WHOLE}.status"] == "0"
    found = {name: _judge(name, raw, trial=_WHOLE if is_whole else name) for name in names}
    refused = [name for name in names if found[name] == "refused"]
    ignored = [name for name in names if found[name] == "ignored"]
    if not is_whole and not refused:
        raise ValueError("all layers of the sandbox are refused together and none alone")
    limits = _WHOLE if is_whole else ("limit" if "limit" not in refused else _PLAIN)
    return {
        "layers": found,
        "statuses": {name: int(raw[f"{name}.status"]) for name in refused},
        "refused": [raw[f"{name}.title"] for name in refused],
        "ignored": [raw[f"{name}.title"] for name in ignored],
        "memory_lock_bytes": _limit(raw[f"{limits}.output"], "Max locked memory"),
        "open_files": _limit(raw[f"{limits}.output"], "Max open files"),
    }


def _judge(name: str, raw: Mapping[str, str], *, trial: str) -> str:
    if raw[f"{trial}.status"] != "0":
        return "refused"
    output, has_effect = raw[f"{trial}.output"], _EFFECTS.get(name)
    is_seen = has_effect is None or has_effect(output, raw["inherited"])
    return "works" if is_seen else "ignored"


def _is_read_only(output: str, inherited: str) -> bool:
    """Whether the system's folders are, as ``ProtectSystem=strict`` makes them."""
    for line in output.splitlines():
        # mountinfo: id, parent, device, root, mount point, its options (proc(5)).
        fields = line.split()
        if len(fields) > 5 and fields[0].isdecimal() and fields[4] == "/":
            return "ro" in fields[5].split(",")
    raise ValueError("mountinfo has no line for /")


def _gains_nothing(output: str, inherited: str) -> bool:
    return _field(output, "NoNewPrivs:") == "1"


def _is_filtered(output: str, inherited: str) -> bool:
    """Whether there are more filters than a service has anyway; kernels before 5.9 count none."""
    if "Seccomp_filters:" not in output or "Seccomp_filters:" not in inherited:
        return _field(output, "Seccomp:") == "2"
    return int(_field(output, "Seccomp_filters:")) > int(_field(inherited, "Seccomp_filters:"))


def _has_no_capability(output: str, inherited: str) -> bool:
    return int(_field(output, "CapBnd:"), 16) == 0


def _field(text: str, name: str) -> str:
    for line in text.splitlines():
        if line.startswith(name):
            return line.removeprefix(name).strip()
    raise ValueError(f"there is no line {name}")


def _limit(output: str, name: str) -> int | None:
    """The soft limit, which is what counts."""
    value = _field(output, name).split()[0]
    return None if value == _UNLIMITED else int(value)


#: How a layer shows in what the command printed; the others show only in that it ran.
_EFFECTS = {
    "mount": _is_read_only,
    "process": _gains_nothing,
    "seccomp": _is_filtered,
    "capability": _has_no_capability,
}

PROBE = Probe(
    id="service_sandbox",
    source="systemd-run: /proc/self/status, limits, mountinfo of a service",
    read=read,
    parse=parse,
)
