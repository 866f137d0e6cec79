"""The unit file of a service, rendered whole: pure.

Called by the adapter beside it. systemd reads a command with its quotation marks, C escapes and
``%`` specifiers; ``$`` is nothing here, since the ``:`` before the program turns variables off.
What cannot pass unharmed is refused; it is never rendered wrong, and no value can ever become a
line of its own. Needs systemd 244 or newer (``:`` and ``Type=exec``); sandbox lines that an older
one does not know are skipped by it.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from stoker.errors import SupervisorError
from stoker.model.launch import Service
from stoker.model.plan import Image
from stoker.model.units import digest_text
from stoker.supervisors.stamps import HOME, stamped_environment

#: What a unit of ours begins with; one that begins otherwise belongs to somebody else.
HEADER = "# Written by Stoker; edits are overwritten by the next apply."

SYSTEM_BUS = "unix:path=/run/dbus/system_bus_socket"

#: What the manager of one user can do without privileges, and what only the system's can.
USER_LAYERS = frozenset({"process", "seccomp", "limit"})
SYSTEM_LAYERS = USER_LAYERS | {"mount", "capability", "device"}

#: A unit holds no secret, and systemd warns of one that not everybody may read.
_FILE_MODE = 0o644
#: How often an engine may start in how long: the first start and four more. The span is wide,
#: because a large model may load for ten minutes before it dies of the same thing again.
_START_BURST = 5
_START_SPAN_SECONDS = 3600
_RESTART_SECONDS = 1

#: Ready is said by a guard one day; until then a service has started once its program runs.
_TYPE = "exec"

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
    made of on this machine.
    """

    home: str
    logs: str
    is_root: bool
    scope: Literal["system", "user"] = "system"
    unit_folder: str = "/etc/systemd/system"
    bus_address: str = SYSTEM_BUS
    layers: frozenset[str] = SYSTEM_LAYERS

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
    """One directive of the sandbox or of the limits; see systemd_hardening.toml."""

    directive: str
    value: tuple[str, ...]
    layer: str
    gpu: Literal["both", "gpu", "cpu"]
    reason: str
    source: str


def user_layout(home: str, *, logs: str, config: str, user_id: int) -> SystemdLayout:
    """The layout of a user's own manager; ``config`` is the user's configuration folder."""
    return SystemdLayout(
        home=home,
        logs=logs,
        is_root=user_id == 0,
        scope="user",
        unit_folder=posixpath.join(config, "systemd", "user"),
        bus_address=f"unix:path=/run/user/{user_id}/bus",
        layers=USER_LAYERS,
    )


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


def is_wanted(text: str) -> bool:
    """Whether a unit file says that its service starts at boot."""
    return _WANTED_LINE.search(text) is not None


@cache
def load_hardening() -> tuple[HardeningRow, ...]:
    """The rows of systemd_hardening.toml, in their order."""
    text = files("stoker.supervisors").joinpath("systemd_hardening.toml").read_text("utf-8")
    rows = tomllib.loads(text)["rows"]
    return tuple(HardeningRow(**{**row, "value": tuple(row["value"])}) for row in rows)


def render_unit(
    service: Service, layout: SystemdLayout, *, uses_gpu: bool = True
) -> dict[str, Image]:
    """The unit of one service, by path. Raises SupervisorError for what cannot be said.

    With ``uses_gpu`` the devices of GPUs stay within reach, which harms no other service.
    """
    sections = {
        "Unit": [*_unit_lines(service, layout)],
        "Service": [*_service_lines(service, layout), *_hardening(layout, uses_gpu=uses_gpu)],
        "Install": [f"WantedBy={layout.target}"] if service.on_boot else [],
    }
    lines = [HEADER]
    for section, content in sections.items():
        lines += ["", f"[{section}]", *content] if content else []
    text = "\n".join(lines) + "\n"
    image = Image(digest=digest_text(text), mode=_FILE_MODE, content=text)
    return {layout.unit(service.name): image}


def _unit_lines(service: Service, layout: SystemdLayout) -> Iterator[str]:
    if not _DIGEST.fullmatch(service.digest):
        raise SupervisorError(f"this cannot be the digest of a service: {service.digest!r}")
    yield f"Description=Model server {service.name}"
    yield f"X-Stoker-Digest={service.digest}"
    if layout.scope == "system":
        yield "Wants=network-online.target"
        yield f"After={_AFTER}"
    yield f"StartLimitIntervalSec={_START_SPAN_SECONDS}"
    yield f"StartLimitBurst={_START_BURST}"


def _service_lines(service: Service, layout: SystemdLayout) -> Iterator[str]:
    if service.restart not in _RESTART:
        raise SupervisorError(f"systemd knows no restart policy {service.restart!r}")
    yield f"Type={_TYPE}"
    yield f"ExecStart={_command(service)}"
    environment = stamped_environment(service, home=layout.home)
    yield from (_assign(name, value) for name, value in environment.items())
    if service.user and layout.scope == "system":
        yield f"User={_user(service.user)}"
    yield f"WorkingDirectory={_path(service.directory, 'the directory')}"
    yield f"Restart={_RESTART[service.restart]}"
    yield f"RestartSec={_RESTART_SECONDS}"
    # None at all would be for ever.
    yield f"TimeoutStopSec={max(service.stop_timeout_seconds, 1)}"
    yield "KillMode=control-group"
    # Opened by the manager itself, so the folder may be closed to the service's user.
    yield f"StandardOutput=append:{_path(service.log_path, 'the path of the log')}"
    yield "StandardError=inherit"
    yield f"SyslogIdentifier={unit_name(service.name).removesuffix('.service')}"
    # The one folder on the disk that the sandbox lets it write.
    yield f"CacheDirectory=stoker/{service.name}"
    yield "CacheDirectoryMode=0700"


def _hardening(layout: SystemdLayout, *, uses_gpu: bool) -> Iterator[str]:
    kinds = ("both", "gpu" if uses_gpu else "cpu")
    for row in load_hardening():
        if row.layer in layout.layers and row.gpu in kinds:
            yield from (f"{row.directive}={value}" for value in row.value)


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


def _user(name: str) -> str:
    if not _USER_NAME.fullmatch(name):
        raise _cannot_hold("the user", name)
    return name


def _cannot_hold(what: str, text: str) -> SupervisorError:
    return SupervisorError(f"a unit of systemd cannot hold {what}: {text!r}")
