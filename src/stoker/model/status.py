"""What is in force and what runs, as values for status, lists and the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentStatus:
    """One deployment.

    ``model`` is the published name, ``weights`` the reference of the file. ``phase``: ready
    (running and verified), running (not verified), starting, stopping, restarting, stopped,
    failed, absent or unknown. ``verified`` is about the very process that runs now. ``drift``
    says in a sentence how what runs differs from what is in force, empty if it does not;
    ``unmeasured`` how it differs from what was measured of it.
    """

    name: str
    url: str
    model: str
    phase: str
    verified: bool
    generation: int
    weights: str
    engine: str
    pid: int
    detail: str
    drift: str
    unmeasured: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """All deployments of a state folder.

    ``busy``: which Stoker is changing something right now, empty for none. ``interrupted``: runs
    that were cut short.
    """

    SCHEMA: ClassVar[str] = "status/1"

    deployments: tuple[DeploymentStatus, ...]
    busy: str = ""
    interrupted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationLine:
    """One generation in a list. ``changed``: the keys that differ from the one before."""

    number: int
    is_current: bool
    note: str
    weights: str
    published_name: str
    port: int
    digest: str
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Generations:
    """All generations of a deployment, lowest number first."""

    SCHEMA: ClassVar[str] = "generations/1"

    name: str
    generations: tuple[GenerationLine, ...]
