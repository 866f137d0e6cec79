"""Opens the state folder: makes it, or refuses one that is not ours.

A state folder is mode 0700, belongs to the user that runs Stoker, and carries ``state.json``.
A folder with something else in it is never taken over: its mode would be changed and files of
ours would lie among files of others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from stoker.errors import AccessDenied, HostError, StateError
from stoker.model.document import parse_document, render_document
from stoker.model.layout import state_path
from stoker.model.plan import Folders
from stoker.ports import TEMPORARY_SUFFIX, Host, ReadableHost

FOLDER_MODE = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMark:
    """What makes a folder a state folder.

    ``secret_key`` (hexadecimal) keys the digests of secrets, see
    :func:`stoker.apply.observe.keyed_digest`; it never leaves this folder.
    """

    SCHEMA: ClassVar[str] = "state/1"

    created_by: str
    secret_key: str


def check_state_folder(host: ReadableHost, folders: Folders, *, me: str) -> bool:
    """Whether there is a state folder. Raises StateError for one that must not be used."""
    path = folders.state
    try:
        stat = host.stat(path)
    except AccessDenied as error:
        raise StateError(
            f"the state folder {path} may not be entered: {error.summary}", error.hint
        ) from error
    if stat is None:
        return False
    if stat.kind != "folder":
        raise StateError(f"the state folder {path} is not a folder", _choose_hint())
    if stat.owner != me:
        raise StateError(
            f"the state folder {path} belongs to {stat.owner}, and this is {me}",
            f"run Stoker as {stat.owner}, or choose another folder with STOKER_STATE",
        )
    if host.stat(state_path(folders)) is None:
        # A kill while the mark was written leaves a temporary file behind, which is ours.
        if any(not name.endswith(TEMPORARY_SUFFIX) for name in host.list_folder(path)):
            raise StateError(
                f"{path} has files in it and is not a state folder of Stoker", _choose_hint()
            )
        return False
    return True


def open_state_folder(
    host: Host, folders: Folders, *, me: str, version: str, new_key: str
) -> StateMark:
    """The state folder's mark; the folder is made if there is none. Raises StateError."""
    try:
        is_known = check_state_folder(host, folders, me=me)
        host.make_folder(folders.state, FOLDER_MODE)
        _close_to_others(host, folders.state)
        if is_known:
            return read_mark(host, folders)
        mark = StateMark(created_by=version, secret_key=new_key)
        host.write_file(state_path(folders), render_document(mark).encode(), 0o600)
    except HostError as error:
        raise StateError(
            f"the state folder {folders.state} cannot be used: {error.summary}",
            error.hint or _choose_hint(),
        ) from error
    return mark


def _close_to_others(host: Host, path: str) -> None:
    """An empty folder that somebody made for us, or one that was opened since, is closed."""
    stat = host.stat(path)
    if stat is not None and stat.mode != FOLDER_MODE:
        host.set_mode(path, FOLDER_MODE)


def read_mark(host: ReadableHost, folders: Folders) -> StateMark:
    """The mark of a state folder. Raises StateError or HostError."""
    path = state_path(folders)
    mark = parse_document(host.read_text(path), StateMark, origin=path)
    if not re.fullmatch(r"([0-9a-f]{2}){16,}", mark.secret_key):
        raise StateError(f"{path} is damaged: its key is none", "restore it from a copy")
    return mark


def _choose_hint() -> str:
    return "choose another folder with STOKER_STATE=/path"
