"""What one guard is told: the document ``guard/1``, read strictly and with the standard library.

Whoever writes a service writes this document; :mod:`stoker.guard.__main__` reads it. The guard
lives as long as the engine, so reading it must never load pydantic, which is larger than all the
rest of the guard.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from stoker.errors import UsageError
from stoker.model.facts import Plain
from stoker.model.gpu import GpuDevice

Value = TypeVar("Value")

#: The guard never waits so long for anything; one that does is stopped, traced or stuck.
HEARTBEAT_SECONDS = 300.0

#: As the kernel writes it: domain, bus, device and function.
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


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
    published_name: str
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
    verify_timeout_seconds: float = 120.0
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
    document = _Part(data, "")
    schema = document.take("schema", _text)
    if schema != GuardConfig.SCHEMA:
        raise UsageError(f"the schema is {schema}, this guard knows {GuardConfig.SCHEMA}")
    config = GuardConfig(
        name=document.take("name", _text),
        digest=document.take("digest", _text),
        engine=document.take("engine", _parse_engine),
        server=document.take("server", _parse_server),
        limits=document.take("limits", _parse_limits),
        canary=document.take("canary", _parse_canary),
        phases=document.take("phases", _many(_parse_phase), ()),
        weights=document.take("weights", _parse_weights, Weights()),
        devices=document.take("devices", _parse_devices, Devices()),
        require=document.take("require", _perhaps(_many(_text)), None),
        status_path=document.take("status_path", _perhaps(_text), None),
        starts_path=document.take("starts_path", _perhaps(_text), None),
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


_NOTHING = object()


class _Part:
    """One object of the document, from which every key is taken once."""

    def __init__(self, data: Plain, place: str) -> None:
        if not isinstance(data, dict):
            raise UsageError(f"`{place or 'the document'}` is no JSON object")
        self._left = dict(data)
        self._place = place

    def take(
        self, key: str, read: Callable[[Plain, str], Value], default: object = _NOTHING
    ) -> Value:
        """The value of a key, read; the default where it has one and is not there."""
        place = f"{self._place}.{key}" if self._place else key
        if key in self._left:
            return read(self._left.pop(key), place)
        if default is _NOTHING:
            raise UsageError(f"`{place}` is missing")
        return default  # type: ignore[return-value]  # each caller's default is of its kind

    def finish(self) -> None:
        """Refuse what nobody took."""
        for key in self._left:
            place = f"{self._place}.{key}" if self._place else key
            raise UsageError(f"`{place}` is unknown to {GuardConfig.SCHEMA}")


def _parse_engine(data: Plain, place: str) -> Engine:
    part = _Part(data, place)
    engine = Engine(
        argv=part.take("argv", _many(_text)),
        directory=part.take("directory", _text),
        env=part.take("env", _texts_by_name, {}),
        secret_env=part.take("secret_env", _texts_by_name, {}),
    )
    part.finish()
    if not engine.argv:
        raise UsageError(f"`{place}.argv` is empty")
    return engine


def _parse_server(data: Plain, place: str) -> Server:
    part = _Part(data, place)
    server = Server(
        host=part.take("host", _text),
        port=part.take("port", _whole_number),
        readiness_path=part.take("readiness_path", _text),
        published_name=part.take("published_name", _text),
        key_path=part.take("key_path", _perhaps(_text), None),
    )
    part.finish()
    return server


def _parse_limits(data: Plain, place: str) -> Limits:
    part = _Part(data, place)
    limits = Limits(
        start_timeout_seconds=part.take("start_timeout_seconds", _seconds),
        stall_seconds=part.take("stall_seconds", _seconds),
        stop_timeout_seconds=part.take("stop_timeout_seconds", _seconds),
        verify_timeout_seconds=part.take("verify_timeout_seconds", _seconds, 120.0),
        heartbeat_seconds=part.take("heartbeat_seconds", _seconds, HEARTBEAT_SECONDS),
    )
    part.finish()
    return limits


def _parse_weights(data: Plain, place: str) -> Weights:
    part = _Part(data, place)
    weights = Weights(
        model=part.take("model", _text, ""), paths=part.take("paths", _many(_text), ())
    )
    part.finish()
    return weights


def _parse_devices(data: Plain, place: str) -> Devices:
    part = _Part(data, place)
    devices = Devices(
        gpus=part.take("gpus", _many(_parse_gpu), ()),
        wait_seconds=part.take("wait_seconds", _seconds, 60.0),
        held_share=part.take("held_share", _perhaps(_share), None),
        needed_bytes=part.take("needed_bytes", _perhaps(_whole_number), None),
    )
    part.finish()
    return devices


def _parse_gpu(data: Plain, place: str) -> GpuDevice:
    part = _Part(data, place)
    gpu = GpuDevice(
        address=part.take("address", _address),
        uuid=part.take("uuid", _perhaps(_text), None),
        minor=part.take("minor", _perhaps(_whole_number), None),
    )
    part.finish()
    return gpu


def _parse_canary(data: Plain, place: str) -> Canary:
    part = _Part(data, place)
    canary = Canary(
        interval_seconds=part.take("interval_seconds", _seconds),
        timeout_seconds=part.take("timeout_seconds", _seconds),
        metrics_path=part.take("metrics_path", _perhaps(_text), None),
        counters=part.take("counters", _many(_text), ()),
    )
    part.finish()
    return canary


def _parse_phase(data: Plain, place: str) -> PhasePattern:
    part = _Part(data, place)
    phase = PhasePattern(
        pattern=part.take("pattern", _pattern),
        phase=part.take("phase", _text),
        title=part.take("title", _text),
    )
    part.finish()
    return phase


def _text(data: Plain, place: str) -> str:
    if not isinstance(data, str):
        raise UsageError(f"`{place}` is no text")
    return data


def _address(data: Plain, place: str) -> str:
    text = _text(data, place)
    if not _PCI_ADDRESS.fullmatch(text):
        raise UsageError(f"`{place}` is no address on the PCI bus, like 0000:41:00.0")
    return text


def _pattern(data: Plain, place: str) -> str:
    text = _text(data, place)
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(f"`{place}` is no regular expression: {error}") from error
    return text


def _whole_number(data: Plain, place: str) -> int:
    if not isinstance(data, int) or isinstance(data, bool):
        raise UsageError(f"`{place}` is no whole number")
    return data


def _share(data: Plain, place: str) -> float:
    if not isinstance(data, int | float) or isinstance(data, bool) or not 0 <= data <= 1:
        raise UsageError(f"`{place}` is no share between 0 and 1")
    return float(data)


def _seconds(data: Plain, place: str) -> float:
    # Infinity and not-a-number, which Python's JSON knows, are refused by the comparison.
    if not isinstance(data, int | float) or isinstance(data, bool) or not 0 < data < 1e9:
        raise UsageError(f"`{place}` is no number of seconds above zero")
    return float(data)


def _texts_by_name(data: Plain, place: str) -> Mapping[str, str]:
    if not isinstance(data, dict):
        raise UsageError(f"`{place}` is no JSON object")
    return {name: _text(value, f"{place}.{name}") for name, value in data.items()}


def _many(read: Callable[[Plain, str], Value]) -> Callable[[Plain, str], tuple[Value, ...]]:
    def read_many(data: Plain, place: str) -> tuple[Value, ...]:
        if not isinstance(data, list):
            raise UsageError(f"`{place}` is no list")
        return tuple(read(item, f"{place}.{number}") for number, item in enumerate(data))

    return read_many


def _perhaps(read: Callable[[Plain, str], Value]) -> Callable[[Plain, str], Value | None]:
    def read_perhaps(data: Plain, place: str) -> Value | None:
        return None if data is None else read(data, place)

    return read_perhaps
