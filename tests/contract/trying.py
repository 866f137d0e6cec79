"""Trying the contract in tests: the ports around :func:`stoker.contract.run.verify`."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from stoker.contract.run import Selection, verify
from stoker.contract.selection import QUICK
from stoker.fake_engine.script import Script
from stoker.knowledge.manners import load_manners
from stoker.model.contract import Exchange, Request, Subject, Verification
from stoker.model.event import Event
from stoker.ports import Check, Endpoint

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
    subject: Subject | None = None,
    level: str = QUICK,
) -> Verification:
    """Verify with the ports of a test."""
    return verify(
        endpoint,
        name="a-deployment",
        subject=subject or Subject(published_name=published_name),
        selection=Selection(level=level, only=only, require=require),
        clock=WallClock(),
        reporter=reporter or Recorder(),
    )


def subject_of(script: Script) -> Subject:
    """A fake engine as whoever started it would describe it: its manners and its limits."""
    return Subject(
        published_name=NAME if NAME in script.names else script.name,
        manners=load_manners()[script.manners].manners,
        context_tokens=script.limits.context_tokens,
        parallel_requests=script.limits.parallel_requests,
        kv_tokens=script.limits.kv_tokens,
    )


def requests_of(check: Check, published_name: str = NAME) -> list[Request]:
    """The requests of a check whose plan does not look at what was answered."""
    subject, nothing = Subject(published_name=published_name), Exchange(request=_NO_REQUEST)
    found: list[Request] = []
    while batch := check.plan(subject, [nothing] * len(found)):
        found += batch
    return found


_NO_REQUEST = Request(method="GET", path="/")
