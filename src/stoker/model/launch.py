"""A launch: how one engine is started, every part traceable to its setting and reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from stoker.model.finding import Source
from stoker.model.gpu import GpuDevice


class Origin(StrEnum):
    """Who chose a value. The order of declaration is the order of precedence, highest first."""

    USER = "user"
    TUNED = "tuned"
    EVIDENCE = "evidence"
    RECIPE = "recipe"
    RULE = "rule"
    STOKER = "stoker"
    ENGINE_DEFAULT = "engine-default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One flag or variable of the engine, its value and why it has it.

    ``value`` None means a bare flag without argument; ``more`` are the further words of a flag
    that takes several. ``kind`` is ``flag``, ``positional`` (a value without its flag) or
    ``env``. ``rule`` is the id of the rule, or of the recipe, that chose it; empty where none did.
    ``instead_of`` are the other values that somebody would have chosen, the one of the highest
    origin first.
    """

    name: str
    value: str | None
    origin: Origin
    reason: str
    kind: str = "flag"
    source: Source | None = None
    rule: str = ""
    more: tuple[str, ...] = ()
    instead_of: tuple[Setting, ...] = ()

    @property
    def chosen_by(self) -> str:
        """Who chose it, for a person: the file, Stoker, or the very rule or recipe."""
        words = {Origin.USER: "the deployment file", Origin.STOKER: "Stoker"}
        return words.get(self.origin, f"{self.origin.value} {self.rule}".rstrip())


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFile:
    """A secret that the engine reads from a file of its own.

    Stoker copies ``source_path`` (the owner's file) to ``path`` (readable by the service's user
    alone) and never keeps its content anywhere else; plans and journals know its digest only.
    ``variable``: the environment variable that the engine gets it by, empty where a flag names
    the file. ``entry``: for an engine that takes it on its command line or in a YAML file of
    settings alone, the setting that the copy gives it in such a file; empty for a plain copy.
    """

    source_path: str
    path: str
    variable: str = ""
    entry: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """How the engine says that it has loaded. Verification comes after this, not instead."""

    path: str
    timeout_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchGpus:
    """The GPUs that an engine is to have, by what stays the same of them over a restart.

    ``needed_bytes``: what it needs on all of them together, None for one that takes all there is.
    """

    devices: tuple[GpuDevice, ...] = ()
    needed_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Everything that starts one engine for one deployment."""

    SCHEMA: ClassVar[str] = "launch/2"

    engine: str
    engine_build: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[SecretFile, ...] = ()
    host: str
    port: int
    published_name: str
    readiness: Readiness
    stop_timeout_seconds: int
    settings: tuple[Setting, ...] = ()
    gpus: LaunchGpus = LaunchGpus()


#: Exit statuses after which starting the same service again is of no use: it was used wrongly, it
#: may not be executed, it is not there (the shell's convention, which guards and engines keep).
FINAL_STATUSES = (2, 126, 127)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long a service may take for what, in seconds.

    ``stop_seconds``: from TERM until it is killed. ``start_seconds``: until it must be ready; a
    program that reports by sd_notify(3) may extend that while it makes progress, and None is one
    that reports nothing and is ready once it runs. ``watchdog_seconds``: the longest silence of
    one that reports, None for any.
    """

    stop_seconds: int
    start_seconds: int | None = None
    watchdog_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What a supervisor is asked to run, in words that every supervisor understands.

    ``digest`` identifies the whole definition; it is stamped into the environment of the process
    as ``STOKER_DIGEST`` so that what really runs can be compared with what was declared.
    ``directory`` is the working directory, and the one folder that the service may write in; it is
    made before a start if it is not there; ``/`` is for one that writes nothing. ``user`` None
    means the user that the supervisor itself runs as. ``restart``: on-failure, always or never.
    ``supervisor``: the kind that runs it. ``uses_gpu``: whether devices of GPUs must be within its
    reach.
    """

    name: str
    digest: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    directory: str
    user: str | None
    log_path: str
    restart: str
    on_boot: bool
    timing: Timing
    supervisor: str = "supervisord"
    uses_gpu: bool = True


class ServicePhase(StrEnum):
    """What a supervisor says about a service; the same words for every supervisor."""

    ABSENT = "absent"
    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    BACKOFF = "backoff"
    FAILED = "failed"
    UNKNOWN = "unknown"


class DriftKind(StrEnum):
    """In which place a service is not what was applied.

    EDITED: the definition on the disk is not as Stoker wrote it. UNREAD: the manager has read
    another definition than lies there now. ADDED: something beside the definition changes what it
    says. PROCESS: the process was started under another definition than the manager has. PENDING:
    the manager reads the definition with the next start only, and that is early enough.
    """

    EDITED = "edited"
    UNREAD = "unread"
    ADDED = "added"
    PROCESS = "process"
    PENDING = "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One such place: the file that it is about, and a sentence for a person."""

    kind: DriftKind
    path: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """The observed state of a service.

    ``pid`` is 0 when nothing runs. ``digest`` is read from the environment of the running
    process, not from its definition; empty when nothing runs or it cannot be read.
    ``process`` identifies this very process (pid and its start time in clock ticks since boot),
    so that a restart is noticed even when the pid is the same; empty when nothing runs.
    ``detail`` is the supervisor's own sentence (exit status, reason).
    """

    name: str
    phase: ServicePhase
    pid: int = 0
    process: str = ""
    digest: str = ""
    detail: str = ""
