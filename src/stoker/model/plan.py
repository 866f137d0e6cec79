"""A plan: what will change on a host, why, and what makes it live.

Changes have a before and an after. Activations (reload, restart, wait until verified) have
neither: they are derived from the changes and run after all of them, forward and back.
Preparations come first and disturb nothing (an engine environment, model files).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from stoker.model.capacity import Forecast
from stoker.model.facts import Plain
from stoker.model.finding import Finding
from stoker.model.launch import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What a file is, or shall be.

    ``digest`` is the SHA-256 of the content in hexadecimal. ``content`` is None for a secret:
    then ``source_path`` says where the executor reads it, and ``entry`` under which setting of a
    YAML file it is written (empty: as it is). ``mode`` holds the permission bits;
    ``owner`` is a user name, empty for the user that Stoker runs as.
    """

    digest: str
    mode: int
    owner: str = ""
    content: str | None = None
    source_path: str = ""
    entry: str = ""

    def is_like(self, other: Image | None) -> bool:
        """Whether the file would be the same: content, permissions and owner."""
        return other is not None and (self.digest, self.mode, self.owner) == (
            other.digest,
            other.mode,
            other.owner,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file that will differ. ``before`` None: it is not there yet; ``after`` None: it goes."""

    path: str
    before: Image | None
    after: Image | None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Work that comes before any change and disturbs nothing.

    ``kind``: environment or model. ``target``: the path that will exist.
    ``details`` is what the preparer needs (the pinned requirements, the reference).
    """

    kind: str
    target: str
    summary: str
    size_bytes: int = 0
    details: Mapping[str, Plain] = field(default_factory=dict)


class ActivationKind(StrEnum):
    """The closed list. Executors match on it; a new kind is rare and deliberate."""

    END_ORPHANS = "end-orphans"
    STOP = "stop"
    RELOAD = "reload"
    END_HOLDERS = "end-holders"
    START = "start"
    RESTART = "restart"
    VERIFY = "verify"
    FORGET = "forget"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProcess:
    """A process that is to be ended because somebody named it.

    ``process`` is its identity (pid and start time), so that a later one with the same pid is
    never meant. ``title`` says in a few words what it is.
    """

    pid: int
    process: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """What makes the changes live. ``expected_seconds`` comes from earlier starts, None if new.

    ``processes``: whom an end-holders ends. ``gpus``: the addresses of those whose memory must be
    free again once processes were ended.
    """

    kind: ActivationKind
    target: str
    because: tuple[str, ...] = ()
    expected_seconds: float | None = None
    processes: tuple[NamedProcess, ...] = ()
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceBefore:
    """How the service stood when the plan was made: what a roll-back returns to."""

    phase: str
    digest: str = ""
    verified: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a plan is about: the validated deployment as plain data, and what is expected to fit.

    ``forecast`` explains and acts on nothing: it moves with every byte that other programs take,
    so two plans are the same whatever it says. None where nothing is to be started.
    """

    deployment: Mapping[str, Plain]
    forecast: Forecast | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole: saved as JSON, executed only while its befores are still true.

    ``served`` is the deployment and ``launch`` what it resolved to; both are None for a plan that
    only removes or stops. ``id`` is a digest of what the plan does
    (changes, activations, preparations), so two plans that do the same have the same id.
    """

    SCHEMA: ClassVar[str] = "plan/3"

    id: str
    verb: str
    host: str
    name: str
    served: Served | None
    launch: Launch | None
    preparations: tuple[Preparation, ...] = ()
    changes: tuple[Change, ...] = ()
    activations: tuple[Activation, ...] = ()
    findings: tuple[Finding, ...] = ()
    service_before: ServiceBefore
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Nothing to prepare, to change or to activate."""
        return not (self.preparations or self.changes or self.activations)

    @property
    def blocked_by(self) -> tuple[Finding, ...]:
        """The findings that forbid this plan."""
        return tuple(finding for finding in self.findings if finding.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where things lie on a host.

    ``state``: what Stoker knows and did, mode 0700. ``environments`` and ``models``: what
    services read, so other users may enter them. ``services``: files of services that only their
    own user may read (a copy of an API key); it belongs to this very state folder.
    """

    state: str
    environments: str
    models: str
    services: str
