"""Trying the contract in tests: the ports around :func:`stoker.contract.run.verify`."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from stoker.contract.run import QUICK, verify
from stoker.model.contract import Exchange, Request, Verification
from stoker.model.event import Event
from stoker.ports import Endpoint

NAME = "smollm2"


class WallClock:
    """The real time."""

    def now_seconds(self) -> float:
        return time.time()

    def monotonic_seconds(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass
class Recorder:
    """A reporter that keeps the events."""

    events: list[Event] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        self.events.append(event)


@dataclass
class Impatient:
    """An endpoint that gives every request little time."""

    endpoint: Endpoint
    timeout_seconds: float

    @property
    def url(self) -> str:
        return self.endpoint.url

    def exchange(self, request: Request) -> Exchange:
        return self.endpoint.exchange(replace(request, timeout_seconds=self.timeout_seconds))


def try_contract(
    endpoint: Endpoint,
    published_name: str = NAME,
    *,
    only: Collection[str] = (),
    require: Collection[str] | None = None,
    reporter: Recorder | None = None,
) -> Verification:
    """Verify with the ports of a test."""
    return verify(
        endpoint,
        name="a-deployment",
        published_name=published_name,
        level=QUICK,
        only=only,
        require=require,
        clock=WallClock(),
        reporter=reporter or Recorder(),
    )
