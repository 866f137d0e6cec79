"""The files of a supervisord of ours, rendered whole: pure.

Called by the adapter beside it. Every value passes three readers of supervisord before it reaches
the engine, each with a syntax of its own: the ini reader (which takes a blank and ``;`` or ``#``
for a comment, anywhere), the ``%(name)s`` expansion, and a shell-like splitter, one for commands
and a poorer one for environments. What cannot pass all three unharmed is refused here; it is
never rendered wrong, and no value can ever become a line of its own.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from stoker.errors import SupervisorError
from stoker.model.launch import FINAL_STATUSES, Service
from stoker.model.plan import Image
from stoker.model.units import digest_text
from stoker.supervisors.stamps import DIGEST, stamped_environment

#: Both kinds of file are for their owner alone: they say how a service is started.
_FILE_MODE = 0o600

#: ``sun_path`` of unix(7) holds 108 bytes with the closing NUL, and supervisord binds the path
#: with "." and its pid behind it before it links it into place (supervisor 4.3.0, http.py);
#: a pid has at most 7 digits (proc_sys_kernel(5), pid_max).
_SOCKET_PATH_LIMIT_BYTES = 107 - len(".4194304")

#: supervisor 4.3.0, datatypes.py: auto_restart.
_AUTORESTART = {"on-failure": "unexpected", "always": "true", "never": "false"}

#: Hands over variables that supervisord's own ``environment`` cannot hold.
_ENV_PROGRAM = "/usr/bin/env"

_PROGRAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: supervisord reads its files as text, where each of these ends a line.
_LINE_END = re.compile(r"[\n\r]")
#: What the ini reader would change: comments, and ``%(here)s``, which is replaced before and
#: regardless of any escape (supervisor 4.3.0, options.py: expand_here).
_READ_BY_INI = re.compile(r"(?<=\s)(?=[;#])|(?<=%)(?=\(here\)s)")
_STOP_SECONDS = re.compile(r"^stopwaitsecs=(\d+)$", re.MULTILINE)
_DIGEST = re.compile(rf"^environment=.*\b{DIGEST}=[\"']([0-9a-zA-Z._:-]+)[\"']", re.MULTILINE)
_CONTENT = re.compile(r"^; content=([0-9a-f]+)\n", re.MULTILINE)
_DIRECTORY = re.compile(r"^directory=(.+)$", re.MULTILINE)
_USER = re.compile(r"^user=(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisordLayout:
    """Where a supervisord of ours lies; all paths are absolute.

    ``home``: the state folder, stamped into every process. ``folder``: the daemon's own files.
    ``daemon``: its executable. ``logs``: the folder of the services' logs. ``is_root``: whether
    it runs as root and so may run services as other users. ``socket_path``: where it listens
    (see :func:`socket_path_for`).
    """

    home: str
    folder: str
    daemon: str
    logs: str
    is_root: bool
    socket_path: str

    @property
    def configuration(self) -> str:
        """The daemon's own file."""
        return posixpath.join(self.folder, "supervisord.conf")

    @property
    def programs(self) -> str:
        """The folder with one file for each service."""
        return posixpath.join(self.folder, "programs")

    @property
    def daemon_log(self) -> str:
        """What the daemon itself writes."""
        return posixpath.join(self.folder, "supervisord.log")

    @property
    def pid_file(self) -> str:
        """Where the daemon writes its pid."""
        return posixpath.join(self.folder, "supervisord.pid")

    def program(self, name: str) -> str:
        """The definition of one service. Raises SupervisorError for what cannot be a name."""
        if not is_program_name(name):
            raise SupervisorError(f"supervisord cannot have a program named {name!r}")
        return posixpath.join(self.programs, f"{name}.conf")

    def log(self, name: str) -> str:
        """The log of one service."""
        return posixpath.join(self.logs, f"{name}.log")


def is_program_name(name: str) -> bool:
    """Whether this can be the name of a program here: no path, no pattern, no group."""
    return _PROGRAM_NAME.fullmatch(name) is not None


def socket_path_for(home: str, *, runtime_folder: str) -> str:
    """Where the daemon of a state folder listens.

    In the state folder where the path is short enough for a socket, else in ``runtime_folder``
    under a name that is its own. Raises SupervisorError when both are too long.
    """
    inside = posixpath.join(home, "supervisor", "s.sock")
    outside = posixpath.join(runtime_folder, f"stoker-{digest_text(home)[:12]}.sock")
    for path in (inside, outside):
        if len(path.encode("utf-8", "surrogateescape")) <= _SOCKET_PATH_LIMIT_BYTES:
            return path
    raise SupervisorError(
        f"the path of the state folder is too long for supervisord's socket: {home}",
        "choose a state folder with a shorter path",
    )


def render_program(service: Service, layout: SupervisordLayout) -> dict[str, Image]:
    """The definition of one service, by path. Raises SupervisorError for what cannot be said."""
    path = layout.program(service.name)
    environment, command = _split_hard(service, stamped_environment(service, home=layout.home))
    options = {
        "command": " ".join(_quote_argument(argument) for argument in command),
        "directory": _plain(service.directory, "the directory"),
        "environment": ",".join(_assign(name, value) for name, value in environment.items()),
        "user": _plain(service.user, "the user") if service.user and layout.is_root else None,
        "umask": "022",
        "autostart": "false",
        "autorestart": _autorestart(service),
        "exitcodes": ",".join(str(status) for status in (0, *FINAL_STATUSES)),
        "startsecs": "1",
        "startretries": "3",
        "stopsignal": "TERM",
        "stopwaitsecs": str(service.timing.stop_seconds),
        "stopasgroup": "true",
        "killasgroup": "true",
        "redirect_stderr": "true",
        # This one alone is expanded twice (supervisor 4.3.0, options.py: lf_val).
        "stdout_logfile": _plain(service.log_path, "the log's path").replace("%", "%%"),
        "stdout_logfile_maxbytes": "50MB",
        "stdout_logfile_backups": "3",
    }
    return {path: _image({f"program:{service.name}": options})}


def render_daemon(layout: SupervisordLayout) -> dict[str, Image]:
    """The daemon's own file, by path. Raises SupervisorError for paths that cannot be said."""
    folder = _plain(layout.folder, "the supervisor's folder")
    if re.search(r"[*?\[]", folder):
        raise SupervisorError(
            f"supervisord cannot read its files from a folder with a pattern in its name: {folder}"
        )
    sections: dict[str, dict[str, str | None]] = {
        "supervisord": {
            "logfile": f"{folder}/supervisord.log",
            "logfile_maxbytes": "10MB",
            "logfile_backups": "3",
            "pidfile": f"{folder}/{posixpath.basename(layout.pid_file)}",
            "directory": "/",
            "umask": "022",
            # Said aloud, or the daemon warns at every start that nobody said it.
            "user": "root" if layout.is_root else None,
            # By default it looks through /tmp for old logs to remove; it has none there.
            "childlogdir": folder,
            "nocleanup": "true",
        },
        # No password: whoever may enter the socket's folder is its owner or root.
        "unix_http_server": {
            "file": _plain(layout.socket_path, "the socket's path"),
            "chmod": "0700",
        },
        "rpcinterface:supervisor": {
            "supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface",
        },
        # Relative to this file, not to the daemon's directory; patterns are split at blanks,
        # which an absolute path may contain.
        "include": {"files": "programs/*.conf"},
    }
    return {layout.configuration: _image(sections)}


def parse_stop_seconds(definition: str) -> int | None:
    """The stop timeout that a rendered definition declares; None if it declares none."""
    found = _STOP_SECONDS.search(definition)
    return int(found[1]) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """Where a program works, and whose folder that is; an empty user is the daemon's own."""

    path: str
    user: str


def parse_directory(definition: str) -> Directory | None:
    """The working directory that a rendered definition declares; None if it declares none."""
    path, user = _DIRECTORY.search(definition), _USER.search(definition)
    if path is None:
        return None
    return Directory(
        path=path[1].replace("%%", "%"), user=user[1].replace("%%", "%") if user else ""
    )


def parse_digest(definition: str) -> str:
    """The digest of the service that a rendered definition defines; empty if it says none."""
    found = _DIGEST.search(definition)
    return found[1] if found else ""


def is_untouched(definition: str) -> bool:
    """Whether a definition is as it was rendered: it says the digest of its other lines."""
    found = _CONTENT.search(definition)
    return found is not None and digest_text(_CONTENT.sub("", definition, count=1)) == found[1]


def _image(sections: Mapping[str, Mapping[str, str | None]]) -> Image:
    lines = ["; Written whole by Stoker; what is changed here by hand is lost."]
    for section, options in sections.items():
        lines += ["", f"[{section}]"]
        lines += [f"{key}={value}" for key, value in options.items() if value is not None]
    text = "\n".join(lines) + "\n"
    text = f"; content={digest_text(text)}\n{text}"
    return Image(digest=digest_text(text), mode=_FILE_MODE, content=text)


def _split_hard(
    service: Service, environment: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """What goes into ``environment`` as it is, and the command that sets the rest.

    supervisord strips quotation marks from both ends of a value and knows no escape in it, while
    its commands can say anything: variables that do not fit go before the program, behind env(1).
    """
    if not (service.argv and service.argv[0]):
        raise SupervisorError(f"the service {service.name} has no command")
    for name in environment:
        if not _VARIABLE_NAME.fullmatch(name):
            raise SupervisorError(f"supervisord cannot set a variable named {name!r}")
    fitting = {name: value for name, value in environment.items() if _fits(value)}
    hard = [f"{name}={value}" for name, value in environment.items() if name not in fitting]
    if not hard:
        return fitting, service.argv
    if "=" in service.argv[0] or service.argv[0].startswith("-"):
        raise SupervisorError(
            f"supervisord cannot start {service.argv[0]!r} with a variable that env(1) must set",
            "give the program by its absolute path",
        )
    return fitting, (_ENV_PROGRAM, *hard, *service.argv)


def _fits(value: str) -> bool:
    """Whether a value comes back as it was from quotation marks in ``environment``."""
    return (
        value == value.strip("'\"")
        and not ("'" in value and '"' in value)
        and not _READ_BY_INI.search(value)
    )


def _assign(name: str, value: str) -> str:
    mark = "'" if '"' in value else '"'
    return f"{name}={mark}{_escape(value, f'the variable {name}')}{mark}"


def _quote_argument(argument: str) -> str:
    # Blanks and brackets stand inside single quotation marks, so a pair of them is nothing there.
    broken = _READ_BY_INI.sub("''", shlex.quote(argument))
    return _escape(broken, "the command or a variable")


def _plain(value: str, what: str) -> str:
    """A value that stands for itself, without any quoting."""
    if value != value.strip() or not value or _READ_BY_INI.search(value):
        raise SupervisorError(f"supervisord's configuration cannot hold {what}: {value!r}")
    return _escape(value, what)


def _escape(text: str, what: str) -> str:
    """One line of text in which no ``%`` begins an expansion."""
    if "\0" in text or _LINE_END.search(text) or not _is_utf8(text):
        raise SupervisorError(
            f"supervisord's configuration cannot hold {what}: it has a line end, a NUL or bytes "
            "that are not UTF-8"
        )
    return text.replace("%", "%%")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _autorestart(service: Service) -> str:
    if service.restart not in _AUTORESTART:
        raise SupervisorError(f"supervisord knows no restart policy {service.restart!r}")
    return _AUTORESTART[service.restart]
