"""What one guard is told: the document ``guard/1``, read strictly and with the standard library.

Whoever writes a service writes this document; :mod:`stoker.guard.__main__` reads it. The guard
lives as long as the engine, so reading it must never load pydantic, which is larger than all the
rest of the guard.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from stoker.errors import UsageError
from stoker.guard.reading import (
    Part,
    read_address,
    read_many,
    read_pattern,
    read_perhaps,
    read_seconds,
    read_share,
    read_text,
    read_texts_by_name,
    read_whole_number,
)
from stoker.guard.subject import parse_subject
from stoker.model.contract import CONTRACT_TIMEOUT_SECONDS, Subject
from stoker.model.facts import Plain
from stoker.model.gpu import GpuDevice

#: The guard never waits so long for anything; one that does is stopped, traced or stuck.
HEARTBEAT_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The child: its argument vector, its working folder and its environment.

    It inherits the guard's own environment but what the manager says to the guard alone; ``env``
    comes over that, for what would harm the guard itself. ``secret_env`` names for each variable
    the file whose first line is its value.
    """

    argv: tuple[str, ...]
    directory: str
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where the engine answers, and under which name.

    ``host`` is numeric. ``key_path`` is the file whose first line is the API key, None without.
    """

    host: str
    port: int
    readiness_path: str
    subject: Subject
    key_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePattern:
    """A log line that tells a phase, as in :class:`stoker.model.engine_log.PhaseRow`.

    ``pattern`` is searched in a line; a group named ``percent`` tells how much of the phase is
    done. ``phase`` is a word such as ``loading-weights``; ``title`` is for a person.
    """

    pattern: str
    phase: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long what may take.

    ``stall_seconds``: an engine that makes no progress for so long while it starts is stuck.
    ``start_timeout_seconds``: for so long new log lines alone count as progress; after it only
    what cannot be idle talk does (bytes read, a percentage that rises, a new phase).
    ``stop_timeout_seconds``: between TERM and KILL. ``verify_timeout_seconds``: for one trial of
    the contract. ``heartbeat_seconds``: a guard that itself stands still for so long is ended by
    its watcher.
    """

    start_timeout_seconds: float
    stall_seconds: float
    stop_timeout_seconds: float
    verify_timeout_seconds: float = CONTRACT_TIMEOUT_SECONDS
    heartbeat_seconds: float = HEARTBEAT_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What the engine loads.

    ``model`` identifies it, so that the guard knows which earlier starts were of the same.
    ``paths`` are the files and folders whose size is what has to be read.
    """

    model: str = ""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The GPUs that must be there before the engine is started; none for one that needs none.

    ``wait_seconds``: for so long it is waited for what may still come, as drivers do at boot.
    ``held_share``: from which share of a GPU's memory on other programs are in the way, None where
    sharing is meant. ``needed_bytes``: what the engine needs on all of them together; beside
    others it is started if so much is free. None: it takes whatever there is.
    """

    gpus: tuple[GpuDevice, ...] = ()
    wait_seconds: float = 60.0
    held_share: float | None = None
    needed_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """How a ready engine is watched.

    Every ``interval_seconds`` it is looked at; a small question must be answered within
    ``timeout_seconds``. ``counters`` are the names of the series at ``metrics_path`` that grow
    whenever tokens are made; without a path the guard has only the question to go by.
    """

    interval_seconds: float
    timeout_seconds: float
    metrics_path: str | None = None
    counters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardConfig:
    """Everything that one guard needs to know.

    ``require`` names the checks of the contract, None stands for all quick ones. ``status_path``
    is the file that says how it stands, ``starts_path`` the one in which the guard remembers how
    long starts took; None for no such file.
    """

    SCHEMA: ClassVar[str] = "guard/1"

    name: str
    digest: str
    engine: Engine
    server: Server
    limits: Limits
    canary: Canary
    phases: tuple[PhasePattern, ...] = ()
    weights: Weights = Weights()
    devices: Devices = Devices()
    require: tuple[str, ...] | None = None
    status_path: str | None = None
    starts_path: str | None = None


def read_config(path: str) -> GuardConfig:
    """The configuration in a file. Raises UsageError with the file's name for all that is wrong."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as JSON: {error}") from error
    try:
        return parse_config(data)
    except UsageError as error:
        raise UsageError(f"{path}: {error.summary}", error.hint) from error


def parse_config(data: Plain) -> GuardConfig:
    """The configuration that JSON-shaped data holds.

    Raises UsageError for a key that is missing or unknown and for a value of the wrong shape.
    """
    document = Part(data, "")
    schema = document.take("schema", read_text)
    if schema != GuardConfig.SCHEMA:
        raise UsageError(f"the schema is {schema}, this guard knows {GuardConfig.SCHEMA}")
    config = GuardConfig(
        name=document.take("name", read_text),
        digest=document.take("digest", read_text),
        engine=document.take("engine", _parse_engine),
        server=document.take("server", _parse_server),
        limits=document.take("limits", _parse_limits),
        canary=document.take("canary", _parse_canary),
        phases=document.take("phases", read_many(_parse_phase), ()),
        weights=document.take("weights", _parse_weights, Weights()),
        devices=document.take("devices", _parse_devices, Devices()),
        require=document.take("require", read_perhaps(read_many(read_text)), None),
        status_path=document.take("status_path", read_perhaps(read_text), None),
        starts_path=document.take("starts_path", read_perhaps(read_text), None),
    )
    document.finish()
    return config


def sum_weights(paths: tuple[str, ...]) -> int:
    """How many bytes the weights have; 0 if nothing is there. Folders count with all in them."""
    return sum(_size_bytes(path) for path in paths)


def _size_bytes(path: str) -> int:
    if not os.path.isdir(path):
        return _file_bytes(path)
    return sum(
        _file_bytes(os.path.join(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
    )


def _file_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _parse_engine(data: Plain, place: str) -> Engine:
    part = Part(data, place)
    engine = Engine(
        argv=part.take("argv", read_many(read_text)),
        directory=part.take("directory", read_text),
        env=part.take("env", read_texts_by_name, {}),
        secret_env=part.take("secret_env", read_texts_by_name, {}),
    )
    part.finish()
    if not engine.argv:
        raise UsageError(f"`{place}.argv` is empty")
    return engine


def _parse_server(data: Plain, place: str) -> Server:
    part = Part(data, place)
    server = Server(
        host=part.take("host", read_text),
        port=part.take("port", read_whole_number),
        readiness_path=part.take("readiness_path", read_text),
        subject=part.take("subject", parse_subject),
        key_path=part.take("key_path", read_perhaps(read_text), None),
    )
    part.finish()
    return server


def _parse_limits(data: Plain, place: str) -> Limits:
    part = Part(data, place)
    limits = Limits(
        start_timeout_seconds=part.take("start_timeout_seconds", read_seconds),
        stall_seconds=part.take("stall_seconds", read_seconds),
        stop_timeout_seconds=part.take("stop_timeout_seconds", read_seconds),
        verify_timeout_seconds=part.take(
            "verify_timeout_seconds", read_seconds, CONTRACT_TIMEOUT_SECONDS
        ),
        heartbeat_seconds=part.take("heartbeat_seconds", read_seconds, HEARTBEAT_SECONDS),
    )
    part.finish()
    return limits


def _parse_weights(data: Plain, place: str) -> Weights:
    part = Part(data, place)
    weights = Weights(
        model=part.take("model", read_text, ""), paths=part.take("paths", read_many(read_text), ())
    )
    part.finish()
    return weights


def _parse_devices(data: Plain, place: str) -> Devices:
    part = Part(data, place)
    devices = Devices(
        gpus=part.take("gpus", read_many(_parse_gpu), ()),
        wait_seconds=part.take("wait_seconds", read_seconds, 60.0),
        held_share=part.take("held_share", read_perhaps(read_share), None),
        needed_bytes=part.take("needed_bytes", read_perhaps(read_whole_number), None),
    )
    part.finish()
    return devices


def _parse_gpu(data: Plain, place: str) -> GpuDevice:
    part = Part(data, place)
    gpu = GpuDevice(
        address=part.take("address", read_address),
        uuid=part.take("uuid", read_perhaps(read_text), None),
        minor=part.take("minor", read_perhaps(read_whole_number), None),
    )
    part.finish()
    return gpu


def _parse_canary(data: Plain, place: str) -> Canary:
    part = Part(data, place)
    canary = Canary(
        interval_seconds=part.take("interval_seconds", read_seconds),
        timeout_seconds=part.take("timeout_seconds", read_seconds),
        metrics_path=part.take("metrics_path", read_perhaps(read_text), None),
        counters=part.take("counters", read_many(read_text), ()),
    )
    part.finish()
    return canary


def _parse_phase(data: Plain, place: str) -> PhasePattern:
    part = Part(data, place)
    phase = PhasePattern(
        pattern=part.take("pattern", read_pattern),
        phase=part.take("phase", read_text),
        title=part.take("title", read_text),
    )
    part.finish()
    return phase
