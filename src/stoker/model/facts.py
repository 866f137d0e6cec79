"""Facts: what was observed on a host, and what could not be.

A probe never raises for the state of the world: it answers a value or :class:`Unknown` with the
reason. A fact nobody could read is not a false fact, so rules ask with :meth:`Facts.read` and
get ``Unknown`` back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

#: JSON-shaped data: dict, list, str, int, float, bool or None.
Plain = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A fact that could not be read, and why."""

    reason: str

    def __bool__(self) -> bool:
        """Unknown is neither true nor false; asking it for truth is a mistake of the caller."""
        raise TypeError(f"an unknown fact has no truth value: {self.reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One answer of one probe.

    Exactly one of ``value`` (JSON-shaped) and ``unknown`` (the reason) speaks: when ``unknown``
    is not empty, ``value`` is None. ``source`` says where it was read (a path or a command),
    ``taken_at_seconds`` when (seconds since the epoch).
    """

    probe: str
    value: Plain = None
    unknown: str = ""
    source: str = ""
    taken_at_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How a service manager is asked to run one command for a moment, to see what it can do.

    ``argv`` and ``env``: the program that asks it, to be followed by properties, each after a
    ``--property=``, and by the command. ``layers``: the properties of a service's sandbox, by
    what they take; ``titles``: what a service has of each layer, for a person.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    layers: Mapping[str, tuple[str, ...]]
    titles: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the probes are asked to look at besides the machine itself.

    ``model_path``, ``draft_path``: the weights (file or folder) on this host, if known.
    ``folders``: where Stoker will write (state, environments, models), for the disk probe.
    ``command``: the engine's executable, for the version probe.
    ``user``: who the service will run as, for the reachability probe. ``trial``: how its manager
    can be tried, None for one that has no sandbox. ``uses_gpus``: whether it matters who holds
    GPUs.
    """

    model_path: str | None = None
    draft_path: str | None = None
    folders: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str | None = None
    trial: Trial | None = None
    uses_gpus: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All observations of one host, by probe id."""

    SCHEMA: ClassVar[str] = "facts/1"

    host: str
    stoker_version: str
    observations: Mapping[str, Observation] = field(default_factory=dict)

    def read(self, path: str) -> Plain | Unknown:
        """The value at a dotted path (``memory.available_bytes``, ``gpus.0.name``) or Unknown."""
        probe, _, rest = path.partition(".")
        observation = self.observations.get(probe)
        if observation is None:
            return Unknown(reason=f"no probe named {probe} has looked")
        if observation.unknown:
            return Unknown(reason=observation.unknown)
        return read_path(observation.value, rest)


def read_path(value: Plain, path: str) -> Plain | Unknown:
    """Walk JSON-shaped data along a dotted path; list items are addressed by number."""
    for part in path.split(".") if path else ():
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return Unknown(reason=f"no value at {part} of {path}")
    return value
