"""Builds the world of this very machine for a command."""

from __future__ import annotations

import os
import pwd
import sys

from stoker.builds.environment import environment_path, executable_in
from stoker.commands.folders import choose_folders
from stoker.commands.world import SystemClock, World
from stoker.hosts.local import LocalHost
from stoker.knowledge.engines import load_environment
from stoker.model.layout import logs_folder, supervisor_folder
from stoker.model.plan import Folders
from stoker.ports import Clock, Endpoint, Host, Reporter, Supervisor
from stoker.supervisors.supervisord import SupervisordSupervisor
from stoker.supervisors.supervisord_files import SupervisordLayout, socket_path_for
from stoker.supervisors.systemd import SystemdLayout, SystemdSupervisor, user_layout

SUPERVISOR_KIND = "supervisord"
#: A folder that systemd makes when it is process 1 (sd_booted(3)).
SYSTEMD_MARK = "/run/systemd/system"


def build_world(reporter: Reporter) -> World:
    """The world of the user who runs this process. Raises UsageError for unusable folders."""
    is_root = os.geteuid() == 0
    folders = choose_folders(os.environ, is_root=is_root)
    host, clock = LocalHost(), SystemClock()
    supervisors = _supervisors(host, clock, folders, is_root=is_root)
    return World(
        host=host,
        clock=clock,
        reporter=reporter,
        supervisor=supervisors[SUPERVISOR_KIND],
        supervisors=supervisors,
        connect=_connect,
        folders=folders,
        me=pwd.getpwuid(os.geteuid()).pw_name,
        is_root=is_root,
        python=sys.executable,
        env=dict(os.environ),
    )


def _supervisors(
    host: Host, clock: Clock, folders: Folders, *, is_root: bool
) -> dict[str, Supervisor]:
    """Our own supervisord everywhere, and systemd where it is the machine's process 1."""
    found: dict[str, Supervisor] = {
        SUPERVISOR_KIND: _supervisord(host, clock, folders, is_root=is_root)
    }
    if host.stat(SYSTEMD_MARK) is not None:
        found["systemd"] = SystemdSupervisor(host, clock, _systemd_layout(folders, is_root=is_root))
    return found


def _systemd_layout(folders: Folders, *, is_root: bool) -> SystemdLayout:
    logs = logs_folder(folders)
    if is_root:
        return SystemdLayout(home=folders.state, logs=logs, is_root=True)
    me = pwd.getpwuid(os.geteuid())
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(me.pw_dir, ".config")
    return user_layout(folders.state, logs=logs, config=config, user_id=me.pw_uid, user=me.pw_name)


def _supervisord(
    host: Host, clock: Clock, folders: Folders, *, is_root: bool
) -> SupervisordSupervisor:
    environment = environment_path(load_environment(SUPERVISOR_KIND), folders)
    layout = SupervisordLayout(
        home=folders.state,
        folder=supervisor_folder(folders),
        daemon=executable_in(environment, SUPERVISOR_KIND),
        logs=logs_folder(folders),
        is_root=is_root,
        socket_path=socket_path_for(folders.state, runtime_folder=_runtime_folder(is_root=is_root)),
    )
    return SupervisordSupervisor(host, clock, layout)


def _runtime_folder(*, is_root: bool) -> str:
    """Where a socket lies when the state folder's path is too long for one.

    Never chosen by a variable that differs between a login and a cron job: two Stokers that
    disagree about the socket would start two daemons.
    """
    return "/run/stoker" if is_root else f"/tmp/stoker-{os.geteuid()}"


def _connect(host: str, port: int, key: str | None) -> Endpoint:
    from stoker.endpoints.http import HttpEndpoint

    return HttpEndpoint(host, port, api_key=key)
