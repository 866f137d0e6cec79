"""Where Stoker keeps things, chosen from the environment: pure.

The state folder is closed to everyone else. What services read (environments, weights) lies
apart, because a service runs as an unprivileged user and must be able to enter it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping

from stoker.errors import UsageError
from stoker.model.plan import Folders
from stoker.model.units import digest_text

#: For root: the FHS places variable state in /var/lib and add-on packages in /opt.
ROOT_STATE = "/var/lib/stoker"
ROOT_DATA = "/opt/stoker"


def choose_folders(env: Mapping[str, str], *, is_root: bool) -> Folders:
    """The folders of this user.

    ``STOKER_STATE``, ``STOKER_DATA`` (environments, models, services' files) and
    ``STOKER_MODELS`` win; then /var/lib and /opt for root, the XDG folders for others. Raises
    UsageError for a path that is not absolute or holds a character that a service definition
    cannot carry.
    """
    state = _choose(env, "STOKER_STATE", ROOT_STATE if is_root else _xdg(env, "STATE"))
    data = _choose(env, "STOKER_DATA", ROOT_DATA if is_root else _xdg(env, "DATA"))
    models = _choose(env, "STOKER_MODELS", posixpath.join(data, "models"))
    # A service of root's runs as somebody else, who cannot enter the state folder. Several state
    # folders may share one data folder, where their services' files must not meet.
    of_root = posixpath.join(data, "services", digest_text(state)[:12])
    return Folders(
        state=state,
        environments=posixpath.join(data, "environments"),
        models=models,
        services=of_root if is_root else posixpath.join(state, "services"),
    )


def absolute_path(path: str) -> str:
    """A path that the user gave, from the root. Raises UsageError when there is no way to tell."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError as error:
        raise UsageError(
            "the folder that you are in does not exist any more", "go to another: cd /"
        ) from error


def _choose(env: Mapping[str, str], variable: str, default: str) -> str:
    value = env.get(variable) or default
    if not posixpath.isabs(value):
        raise UsageError(f"{variable} must be an absolute path, not {value!r}")
    if any(ord(character) < 32 for character in value):
        raise UsageError(f"{variable} holds a control character: {value!r}")
    if re.search(r"[\[\]*?\ud800-\udfff]|\s[;#]", value):
        raise UsageError(
            f"{variable} is {value!r}, which no definition of a service can hold",
            "choose a path without brackets, * and ?, and without ; or # behind a blank",
        )
    return posixpath.normpath(value)


def _xdg(env: Mapping[str, str], kind: str) -> str:
    default = {"STATE": ".local/state", "DATA": ".local/share"}[kind]
    base = env.get(f"XDG_{kind}_HOME")
    if not base:
        home = env.get("HOME")
        if not home:
            raise UsageError("HOME is not set", "set STOKER_STATE and STOKER_DATA")
        base = posixpath.join(home, default)
    return posixpath.join(base, "stoker")
