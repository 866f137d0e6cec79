"""A running process as one look at it shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProcess:
    """One process: what was started, by whom and where.

    ``identity`` tells it from a later one with the same pid. ``argv`` and ``env`` are what it was
    started with and may hold secrets, so no repr shows them; bytes that are not UTF-8 are lone
    surrogates in them (Python's surrogateescape). ``directory`` is the folder that it is in,
    ``executable`` the file that it runs, with all links followed; ``is_replaced``: that file has
    been deleted or replaced since. ``user``: its name, or the number of one without a name.
    ``unit``: the systemd service whose process it is, empty for none. ``elsewhere``: where its
    files lie if they are not the ones that we see (``container abc``), empty if they are.
    ``processors``: the ones that it is held to (``0-3,8``), empty if it may use those that we may.
    """

    pid: int
    identity: str
    argv: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    directory: str
    executable: str
    is_replaced: bool = False
    user: str
    unit: str = ""
    elsewhere: str = ""
    processors: str = ""
