"""New files of a person's: a deployment, and secrets beside it that only their owner may read.

Called where a deployment file is made from something that holds secrets. Nothing that is there is
ever replaced, and no secret lies in a file that others may read, not for an instant.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from stoker.errors import HostError, UsageError
from stoker.ports import Host

FILE_MODE = 0o644
SECRET_MODE = 0o600
FOLDER_MODE = 0o700
_STICKY = 0o1000
_WRITABLE_BY_ALL = 0o002
_WRITABLE_BY_GROUP = 0o020


def place_files(host: Host, path: str, text: str, secrets: Mapping[str, str], *, me: str) -> None:
    """Write ``text`` to ``path``, and ``secrets``, texts by path, all in one folder, before it.

    The file comes last, so that it never names a secret that is not there; if it cannot be
    written, the secrets that were written for it are removed. Raises UsageError.
    """
    _check_absent(host, path, "--output FILE")
    parent = posixpath.dirname(path)
    stat = host.stat(parent)
    if stat is None or stat.kind != "folder":
        raise UsageError(f"the folder {parent} is not there", "make it first")
    for secret in secrets:
        _check_absent(host, secret, "--name NAME or --output FILE")
    written: list[str] = []
    try:
        if secrets:
            _make_secrets_folder(host, posixpath.dirname(next(iter(secrets))), me=me)
        for secret, content in secrets.items():
            written.append(secret)
            host.write_file(secret, content.encode(), SECRET_MODE)
        host.write_file(path, text.encode(), FILE_MODE)
    except HostError as error:
        for secret in written:
            host.remove_file(secret)
        raise UsageError(f"nothing was written: {error.summary}", error.hint) from error


def _check_absent(host: Host, path: str, option: str) -> None:
    if host.stat(path) is not None or _is_link(host, path):
        raise UsageError(f"{path} is there already", f"choose another with {option}")


def _make_secrets_folder(host: Host, folder: str, *, me: str) -> None:
    """A folder that nobody else can enter, on a way that nobody else can lead elsewhere."""
    _check_way(host, posixpath.dirname(folder), me=me)
    if not _is_link(host, folder):
        host.make_folder(folder, FOLDER_MODE)
    # Looked at once it is there: somebody may have made it in between.
    stat = host.stat(folder)
    is_folder = stat is not None and stat.kind == "folder" and not _is_link(host, folder)
    if stat is None or not is_folder or stat.owner != me or stat.mode != FOLDER_MODE:
        raise UsageError(
            f"{folder} is there already and is no folder that {me} alone may enter",
            f"chmod 700 {folder} if it is yours, or choose another place with --output FILE",
        )


def _check_way(host: Host, folder: str, *, me: str) -> None:
    """Raises UsageError if another user could put something else in place of a part of the way.

    What root writes there another user could lead anywhere; where root is not, a group is a
    matter of the owner's.
    """
    writable = _WRITABLE_BY_ALL | (_WRITABLE_BY_GROUP if me == "root" else 0)
    parts = folder.strip("/").split("/")
    ways = ["/" + "/".join(parts[:count]) for count in range(len(parts) + 1)]
    is_open = False
    for way in dict.fromkeys(ways):
        stat = host.stat(way)
        is_planted = is_open and _is_link(host, way)
        if stat is None or stat.owner not in ("root", me) or is_planted:
            raise _distrust(way, me)
        is_open = bool(stat.mode & writable)
        if is_open and not stat.mode & _STICKY:
            raise _distrust(way, me)


def _distrust(folder: str, me: str) -> UsageError:
    return UsageError(
        f"{folder} is not {me}'s alone, so no secret can lie below it",
        "choose a file in a folder of your own with --output FILE",
    )


def _is_link(host: Host, path: str) -> bool:
    try:
        host.read_link(path)
    except HostError:
        return False
    return True
