"""What a load is sent to, how long it waits, and what it tells: the values of the sending half."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from stoker.model.benchmark import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server. ``authority``: what it is called in the Host header. ``tls`` for https, with the
    name that its certificate must be for. ``key`` goes into a header and nowhere else."""

    address: str
    port: int
    authority: str
    base_path: str = ""
    key: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    server_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long things may take: one request, those in flight once nothing more is sent, and the
    making of a connection."""

    request_seconds: float = 600.0
    drain_seconds: float = 120.0
    connect_seconds: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """How far a load is, about twice a second. The rate is over the time since the last telling,
    in pieces that came, which are not tokens. ``is_ending``: nothing more is sent."""

    seconds: float
    sent: int
    ended: int
    failed: int
    busy: int
    events_per_second: float
    is_ending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A load as it went. ``stopped_seconds``: from when on nothing more was sent. ``lags_seconds``:
    how late the loop was each time that it looked, and each time that it should have looked while
    it could not. ``said``: why it ended before its time. ``has_given_up``: since the server did
    nothing but fail. ``wait_seconds``: the longest that the server asked to wait for."""

    samples: tuple[Sample, ...]
    stopped_seconds: float
    ended_seconds: float
    lags_seconds: tuple[float, ...]
    busy_share: float
    said: str = ""
    was_interrupted: bool = False
    has_given_up: bool = False
    wait_seconds: float = 0.0


Watch = Callable[[Live], None]
