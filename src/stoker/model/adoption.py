"""What `stoker adopt` wrote about a running server, and what it could not write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stoker.model.comparison import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedSecret:
    """A secret that was put into a file: what it is for, and the file."""

    label: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """A deployment file that reproduces a running server.

    ``process`` is the identity of the server's first process and ``unit`` the systemd service that
    it belongs to, empty for none. ``differences``: how the deployment (B) would start it otherwise
    than it runs (A). ``left_out`` are variables of the process that were not taken over, by name.
    ``notes`` are sentences for a person.
    """

    SCHEMA: ClassVar[str] = "adopt/1"

    file: str
    name: str
    engine: str
    pid: int
    process: str
    unit: str = ""
    secrets: tuple[AdoptedSecret, ...] = ()
    differences: tuple[Difference, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
