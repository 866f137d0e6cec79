"""The unit file of a service, rendered whole: pure.

Called by the adapter beside it. systemd reads a command with its quotation marks, C escapes and
``%`` specifiers; ``$`` is nothing here, since the ``:`` before the program turns variables off.
What cannot pass unharmed is refused; it is never rendered wrong, and no value can ever become a
line of its own. Needs systemd 244 or newer (``:`` and ``Type=exec``); sandbox lines that an older
one does not know are skipped by it.

A unit says of itself which definition it is, what its sandbox is made of, and the digest of all
its lines, so that an edit shows in the file alone.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from stoker.errors import SupervisorError
from stoker.model.launch import FINAL_STATUSES, Service
from stoker.model.plan import Image
from stoker.model.units import digest_text
from stoker.supervisors.stamps import HOME, stamped_environment

#: What a unit of ours begins with; one that begins otherwise belongs to somebody else.
HEADER = "# Written by Stoker; edits are overwritten by the next apply."

SYSTEM_BUS = "unix:path=/run/dbus/system_bus_socket"

#: What the manager of one user can do without privileges, and what only the system's can.
USER_LAYERS = frozenset({"process", "seccomp", "limit"})
SYSTEM_LAYERS = USER_LAYERS | {"mount", "capability", "device"}

#: systemd-logind keeps a file for each user here whose manager runs without a login.
_LINGER = "/var/lib/systemd/linger"

#: The first with ``:`` before a program and ``Type=exec`` (systemd's NEWS, 240 and 244).
_OLDEST_VERSION = 244

#: A unit holds no secret, and systemd warns of one that not everybody may read.
_FILE_MODE = 0o644
#: The folder of a service that writes nothing.
_NO_FOLDER = "/"

#: How often an engine may start in how long: the first start and four more. The span is wide,
#: because a large model may load for ten minutes before it dies of the same thing again.
_START_BURST = 5
_START_SPAN_SECONDS = 3600
_RESTART_SECONDS = 1

#: When systemd itself ends a start of a program that reports. Such a program extends its deadline
#: while it makes progress and ends itself when it makes none, but every daemon-reload, whoever asks
#: for it, lets systemd forget the extensions and count from the beginning (systemd 252,
#: service.c: service_coldplug_timeout), and would so end a load that is longer than this. A day is
#: for a program that is stuck itself.
_LONGEST_START_SECONDS = 24 * 3600

#: systemd.service(5): Restart=.
_RESTART = {"on-failure": "on-failure", "always": "always", "never": "no"}

_TARGETS = {"system": "multi-user.target", "user": "default.target"}
#: Networks that are up, remote folders and GPU drivers; what a machine does not have is skipped.
_AFTER = "network-online.target remote-fs.target nvidia-persistenced.service"

_SERVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_USER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGEST = re.compile(r"[A-Za-z0-9._:-]+")
_DIGEST_LINE = re.compile(r"^X-Stoker-Digest=(\S+)$", re.MULTILINE)
_WANTED_LINE = re.compile(r"^WantedBy=\S", re.MULTILINE)
_LAYERS_LINE = re.compile(r"^X-Stoker-Layers=([a-z ]*)$", re.MULTILINE)
_CONTENT_LINE = re.compile(r"^X-Stoker-Content=([0-9a-f]*)\n", re.MULTILINE)
_USER_LINE = re.compile(r"^User=(\S+)$", re.MULTILINE)
_FOLDER_LINE = re.compile(r"^WorkingDirectory=(/.*)$", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: systemd 252, config_parse_exec: "executable name contains special characters".
_UNSAFE_PROGRAM = re.compile(r"[\x00-\x1f\x7f\"'\\]")
#: What systemd takes for text that is not UTF-8: NUL, surrogates and Unicode's noncharacters.
_UNREADABLE = re.compile(
    "[\0\ud800-\udfff\ufdd0-\ufdef"
    + "".join(
        chr(plane + last) for plane in range(0, 0x110000, 0x10000) for last in (0xFFFE, 0xFFFF)
    )
    + "]"
)

#: Inside quotation marks, everything but these stands for itself.
_ESCAPES = str.maketrans(
    {
        **{chr(code): f"\\x{code:02x}" for code in (*range(1, 0x20), 0x7F)},
        "\\": "\\\\",
        '"': '\\"',
        "%": "%%",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemdLayout:
    """A manager of systemd and where its units lie; all paths are absolute.

    ``home``: the state folder, stamped into every process. ``logs``: the folder of the services'
    logs. ``is_root``: whether Stoker is. ``scope``: the system's manager, or that of the user
    who runs Stoker. ``unit_folder``: where an administrator's units lie in that scope.
    ``bus_address``: the bus on which the manager listens. ``layers``: what the sandbox may be
    made of on this machine. ``user_id`` and ``linger``: of a user's manager, the user and the
    file that says that it runs without a login, as long as it is there.
    """

    home: str
    logs: str
    is_root: bool
    scope: Literal["system", "user"] = "system"
    unit_folder: str = "/etc/systemd/system"
    bus_address: str = SYSTEM_BUS
    layers: frozenset[str] = SYSTEM_LAYERS
    user_id: int = 0
    linger: str = ""

    @property
    def target(self) -> str:
        """What wants a service at boot."""
        return _TARGETS[self.scope]

    @property
    def wants_folder(self) -> str:
        """Where systemd links the units that start at boot."""
        return posixpath.join(self.unit_folder, f"{self.target}.wants")

    def unit(self, name: str) -> str:
        """The path of a service's unit. Raises SupervisorError for what cannot be a name."""
        return posixpath.join(self.unit_folder, unit_name(name))

    def log(self, name: str) -> str:
        """The log of one service."""
        return posixpath.join(self.logs, f"{name}.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class HardeningRow:
    """One directive of the sandbox or of the limits; see systemd_hardening.toml.

    ``hides``: folders that a service cannot see with it; it is left out for one that works there.
    """

    directive: str
    value: tuple[str, ...]
    layer: str
    gpu: Literal["both", "gpu", "cpu"]
    reason: str
    source: str
    hides: tuple[str, ...] = ()


def user_layout(
    home: str, *, logs: str, config: str, user_id: int, user: str = ""
) -> SystemdLayout:
    """The layout of a user's own manager; ``config`` is the user's configuration folder."""
    return SystemdLayout(
        home=home,
        logs=logs,
        is_root=user_id == 0,
        scope="user",
        unit_folder=posixpath.join(config, "systemd", "user"),
        bus_address=f"unix:path={runtime_folder(user_id)}/bus",
        layers=USER_LAYERS,
        user_id=user_id,
        linger=posixpath.join(_LINGER, user) if user else "",
    )


def is_too_old(version: str) -> bool:
    """Whether a systemd cannot read units of ours; one whose version is strange is tried."""
    found = re.match(r"\d+", version)
    return found is not None and int(found[0]) < _OLDEST_VERSION


def runtime_folder(user_id: int) -> str:
    """Where a user's manager and bus listen (pam_systemd(8), XDG_RUNTIME_DIR)."""
    return f"/run/user/{user_id}"


def is_service_name(name: str) -> bool:
    """Whether this can be the name of a service here: no path, no instance, no pattern."""
    return _SERVICE_NAME.fullmatch(name) is not None


def unit_name(name: str) -> str:
    """The unit of a service. Raises SupervisorError for what cannot be a name."""
    if not is_service_name(name):
        raise SupervisorError(f"systemd cannot have a unit for a service named {name!r}")
    return f"stoker-{name}.service"


def service_name(unit: str) -> str | None:
    """The service of a unit that is named as ours are, else None."""
    found = re.fullmatch(r"stoker-(.+)\.service", unit)
    return found[1] if found and is_service_name(found[1]) else None


def is_own(text: str, *, home: str) -> bool:
    """Whether a unit file was written by a Stoker with this state folder."""
    lines = text.splitlines()
    return lines[:1] == [HEADER] and _assign(HOME, home) in lines


def parse_digest(text: str) -> str:
    """The digest of the service that a unit file of ours defines; empty if it says none."""
    found = _DIGEST_LINE.search(text)
    return found[1] if found else ""


def parse_layers(text: str) -> frozenset[str] | None:
    """What the sandbox of a unit file of ours is made of; None if it does not say."""
    found = _LAYERS_LINE.search(text)
    return frozenset(found[1].split()) if found else None


def parse_folder(text: str) -> tuple[str, str]:
    """The folder that a unit file of ours lets its service write in, and the service's user.

    Both are empty where there is none: such a service writes nothing, or is the manager's own.
    """
    folder, user = _FOLDER_LINE.search(text), _USER_LINE.search(text)
    path = folder[1].replace("%%", "%") if folder else ""
    return ("" if path == _NO_FOLDER else path), (user[1] if user else "")


def is_untouched(text: str) -> bool:
    """Whether a unit file of ours is as it was written: it says the digest of its other lines."""
    found = _CONTENT_LINE.search(text)
    return found is not None and digest_text(_CONTENT_LINE.sub("", text, count=1)) == found[1]


def is_wanted(text: str) -> bool:
    """Whether a unit file says that its service starts at boot."""
    return _WANTED_LINE.search(text) is not None


@cache
def load_hardening() -> tuple[HardeningRow, ...]:
    """The rows of systemd_hardening.toml, in their order."""
    rows = _read_hardening()["rows"]
    return tuple(
        HardeningRow(**{**row, "value": tuple(row["value"]), "hides": tuple(row.get("hides", ()))})
        for row in rows
    )


def layer_titles() -> Mapping[str, str]:
    """What a service has of each layer, in words that follow "services have"."""
    titles: Mapping[str, str] = _read_hardening()["layers"]
    return titles


def _read_hardening() -> dict[str, Any]:
    text = files("stoker.supervisors").joinpath("systemd_hardening.toml").read_text("utf-8")
    return tomllib.loads(text)


def sandbox_properties() -> dict[str, tuple[str, ...]]:
    """The lines of the sandbox of any service, by what they take, in their order."""
    layers: dict[str, tuple[str, ...]] = {}
    for row in load_hardening():
        lines = tuple(f"{row.directive}={value}" for value in row.value)
        layers[row.layer] = layers.get(row.layer, ()) + lines
    return layers


def render_unit(service: Service, layout: SystemdLayout) -> dict[str, Image]:
    """The unit of one service, by path. Raises SupervisorError for what cannot be said."""
    sections = {
        "Unit": [*_unit_lines(service, layout)],
        "Service": [*_service_lines(service, layout), *_hardening(service, layout)],
        "Install": [f"WantedBy={layout.target}"] if service.on_boot else [],
    }
    lines = [HEADER]
    for section, content in sections.items():
        lines += ["", f"[{section}]", *content] if content else []
    text = "\n".join(lines) + "\n"
    # In a section of its own right, where systemd lets everybody have lines that begin with X-.
    text = text.replace("[Unit]\n", f"[Unit]\nX-Stoker-Content={digest_text(text)}\n", 1)
    image = Image(digest=digest_text(text), mode=_FILE_MODE, content=text)
    return {layout.unit(service.name): image}


def _unit_lines(service: Service, layout: SystemdLayout) -> Iterator[str]:
    if not _DIGEST.fullmatch(service.digest):
        raise SupervisorError(f"this cannot be the digest of a service: {service.digest!r}")
    yield f"X-Stoker-Digest={service.digest}"
    yield f"X-Stoker-Layers={' '.join(sorted(layout.layers))}"
    yield f"Description=Model server {service.name}"
    if layout.scope == "system":
        yield "Wants=network-online.target"
        yield f"After={_AFTER}"
    if service.timing.start_seconds is not None:
        # A boot does not wait for a model: else its last target would be reached after the load.
        yield f"After={layout.target}"
    yield f"StartLimitIntervalSec={_START_SPAN_SECONDS}"
    yield f"StartLimitBurst={_START_BURST}"


def _service_lines(service: Service, layout: SystemdLayout) -> Iterator[str]:
    if service.restart not in _RESTART:
        raise SupervisorError(f"systemd knows no restart policy {service.restart!r}")
    yield from _protocol(service)
    yield f"ExecStart={_command(service)}"
    environment = stamped_environment(service, home=layout.home)
    yield from (_assign(name, value) for name, value in environment.items())
    if service.user and layout.scope == "system":
        yield f"User={_user(service.user)}"
    yield from _folder(service, layout)
    yield f"Restart={_RESTART[service.restart]}"
    yield f"RestartSec={_RESTART_SECONDS}"
    # None at all would be for ever.
    yield f"TimeoutStopSec={max(service.timing.stop_seconds, 1)}"
    # Opened by the manager itself, so the folder may be closed to the service's user.
    yield f"StandardOutput=append:{_path(service.log_path, 'the path of the log')}"
    yield "StandardError=inherit"
    yield f"SyslogIdentifier={unit_name(service.name).removesuffix('.service')}"


def _protocol(service: Service) -> Iterator[str]:
    """How systemd hears of the service's start and life, and how it ends it."""
    timing = service.timing
    # What `apply` renders has a guard and reports. One without is a value that the port allows:
    # the conformance suite asks every supervisor for it.
    if timing.start_seconds is None:
        yield "Type=exec"
        yield "KillMode=control-group"
        return
    yield "Type=notify"
    yield "NotifyAccess=main"
    yield f"TimeoutStartSec={max(timing.start_seconds, _LONGEST_START_SECONDS)}"
    if timing.watchdog_seconds is not None:
        yield f"WatchdogSec={max(timing.watchdog_seconds, 1)}"
    yield f"RestartPreventExitStatus={' '.join(map(str, FINAL_STATUSES))}"
    # The program ends its own children; the manager's TERM beside it would be their second.
    yield "KillMode=mixed"


def _folder(service: Service, layout: SystemdLayout) -> Iterator[str]:
    """Where the service works, and what the sandbox lets it write on the disk."""
    yield f"WorkingDirectory={_path(service.directory, 'the directory')}"
    if service.directory != _NO_FOLDER and "mount" in layout.layers:
        yield f"ReadWritePaths={_quote_path(service.directory, 'the directory')}"


def _hardening(service: Service, layout: SystemdLayout) -> Iterator[str]:
    kinds = ("both", "gpu" if service.uses_gpu else "cpu")
    for row in load_hardening():
        is_fit = row.layer in layout.layers and row.gpu in kinds
        if is_fit and not _works_below(service, row.hides):
            yield from (f"{row.directive}={value}" for value in row.value)


def _works_below(service: Service, folders: tuple[str, ...]) -> bool:
    """Whether the service's program, its words or its own folder lie in one of these folders."""
    paths = (*service.argv, service.directory)
    return any(path.startswith(f"{folder}/") for path in paths for folder in folders)


def _command(service: Service) -> str:
    program = service.argv[0] if service.argv else ""
    is_path = program.startswith("/") and not program.endswith("/")
    if not is_path or _UNSAFE_PROGRAM.search(program):
        raise SupervisorError(
            f"systemd cannot start {program!r} for {service.name}",
            "give the program by its absolute path, which has no quotation marks in it",
        )
    words = (_quote(word, "the command") for word in service.argv)
    return ":" + " ".join(words)


def _assign(name: str, value: str) -> str:
    if not _VARIABLE_NAME.fullmatch(name):
        raise SupervisorError(f"systemd cannot set a variable named {name!r}")
    return "Environment=" + _quote(f"{name}={value}", f"the variable {name}")


def _quote(text: str, what: str) -> str:
    """One word in quotation marks."""
    if _UNREADABLE.search(text):
        raise _cannot_hold(what, text)
    return f'"{text.translate(_ESCAPES)}"'


def _path(text: str, what: str) -> str:
    """A path that stands for itself to the end of its line, without any quoting."""
    is_line = text == text.strip() and not _CONTROL.search(text) and not text.endswith("\\")
    if not text.startswith("/") or not is_line or _UNREADABLE.search(text):
        raise _cannot_hold(what, text)
    return text.replace("%", "%%")


def _quote_path(text: str, what: str) -> str:
    """A path in a list of paths, where a backslash stands before what is meant as it is."""
    escaped = _path(text, what).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _user(name: str) -> str:
    if not _USER_NAME.fullmatch(name):
        raise _cannot_hold("the user", name)
    return name


def _cannot_hold(what: str, text: str) -> SupervisorError:
    return SupervisorError(f"a unit of systemd cannot hold {what}: {text!r}")
