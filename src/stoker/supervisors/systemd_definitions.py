"""The unit files on the disk: which are ours, which start at boot, and which nobody may touch.

Called by the adapter beside it. It reads; what is written into a unit comes from
:mod:`stoker.supervisors.systemd_unit`, and the executor writes it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import suppress

from stoker.errors import HostError, NotFound, SupervisorError
from stoker.ports import Host
from stoker.supervisors.systemd_unit import (
    SystemdLayout,
    is_own,
    is_untouched,
    service_name,
    unit_name,
)

#: Where a masked unit's link points.
_MASK = "/dev/null"
_NANOSECONDS = 1_000_000_000


class Definitions:
    """The units of one manager that belong to one state folder."""

    def __init__(self, host: Host, layout: SystemdLayout) -> None:
        self._host = host
        self._layout = layout

    @property
    def systemctl(self) -> str:
        """How a person calls this manager."""
        if self._layout.scope == "user":
            return "systemctl --user"
        return "systemctl" if self._layout.is_root else "sudo systemctl"

    def read(self, name: str) -> str | None:
        """The text of our definition, None if there is none.

        Raises SupervisorError when somebody else's file is in its place.
        """
        path = self._layout.unit(name)
        with suppress(HostError):
            if self._host.read_link(path) == _MASK:
                raise self.masked(name)
        try:
            text = self._host.read_text(path)
        except NotFound:
            return None
        except HostError as error:
            raise SupervisorError(error.summary, error.hint) from error
        if not is_own(text, home=self._layout.home):
            raise self.foreign(name, path)
        return text

    def require(self, name: str) -> str:
        """The text of our definition. Raises SupervisorError if there is none."""
        definition = self.read(name)
        if definition is None:
            raise SupervisorError(f"there is no service {name} to start: it has no unit")
        return definition

    def list_own(self) -> Iterator[tuple[str, str]]:
        """The names and definitions of our services."""
        try:
            files = self._host.list_folder(self._layout.unit_folder)
        except NotFound:
            return
        for name in filter(None, map(service_name, files)):
            with suppress(SupervisorError):
                definition = self.read(name)
                if definition is not None:
                    yield name, definition

    def find_edit_seconds(self, name: str, definition: str | None) -> float | None:
        """When somebody edited our definition, since the epoch; None if nobody did."""
        if definition is None or is_untouched(definition):
            return None
        found = self._host.stat(self._layout.unit(name))
        return found.modified_ns / _NANOSECONDS if found else None

    def find_change_seconds(self, name: str) -> float:
        """When our definition or a file beside it was last put there, since the epoch.

        Not by their times of modification, which whoever puts an old file back may keep.
        """
        found = map(self._host.stat, (self._layout.unit(name), *self.list_beside(name)))
        return max((each.changed_ns / _NANOSECONDS for each in found if each), default=0)

    def list_beside(self, name: str) -> tuple[str, ...]:
        """The files beside our definition that change it, once systemd has read them."""
        folder = f"{self._layout.unit(name)}.d"
        try:
            names = self._host.list_folder(folder)
        except HostError:
            return ()
        return tuple(f"{folder}/{each}" for each in names if each.endswith(".conf"))

    def list_linked(self) -> tuple[str, ...]:
        """The units named like ours that start at boot."""
        try:
            units = self._host.list_folder(self._layout.wants_folder)
        except NotFound:
            return ()
        return tuple(unit for unit in units if service_name(unit))

    def is_linked_to_a_file(self, unit: str) -> bool:
        """Whether the link of a unit that starts at boot leads to a file, wherever that lies."""
        return self._host.stat(posixpath.join(self._layout.wants_folder, unit)) is not None

    def foreign(self, name: str, where: str) -> SupervisorError:
        """What to say of a unit that is not ours."""
        return SupervisorError(
            f"{unit_name(name)} belongs to somebody else: {where}",
            "choose another name for the deployment, or remove that unit yourself",
        )

    def masked(self, name: str) -> SupervisorError:
        """What to say of a unit that may not be started."""
        return SupervisorError(
            f"{unit_name(name)} is masked: somebody forbade systemd to start it",
            f"allow it with: {self.systemctl} unmask {unit_name(name)}",
        )
