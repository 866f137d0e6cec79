"""A server's own metrics while it is under load: its counters before and after, its gauges between.

Called by :mod:`stoker.commands.bench`. Gauges are read once a second by a thread of its own, since
the loop of the load must not wait. A server without metrics is measured all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from stoker.contract.metrics import sum_counters
from stoker.knowledge.server_metrics import metrics_of
from stoker.model.contract import Request, Subject
from stoker.ports import Endpoint

_READ_SECONDS = 1.0


@dataclass(slots=True)
class WatchedMetrics:
    """What was read; complete once the watching has ended."""

    before: str = ""
    between: list[str] = field(default_factory=list)
    after: str = ""


@contextmanager
def watch_metrics(endpoint: Endpoint, subject: Subject) -> Iterator[WatchedMetrics]:
    """Read the server's metrics before, between and after what happens inside."""
    watched = WatchedMetrics(before=_read(endpoint, subject))
    if not watched.before:
        yield watched
        return
    over = threading.Event()

    def look() -> None:
        while not over.wait(_READ_SECONDS):
            watched.between.append(_read(endpoint, subject))

    thread = threading.Thread(target=look, name="metrics", daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        over.set()
        thread.join(timeout=_READ_SECONDS)
        watched.after = _read(endpoint, subject)


def tell_metrics(watched: WatchedMetrics, engine: str) -> Mapping[str, float]:
    """The server's figures by meaning. What it does not tell is left out."""
    told: dict[str, float] = {}
    for row in metrics_of(engine):
        if row.kind == "gauge":
            readings = [sum_counters(text, row.names) for text in watched.between]
            known = [each for each in readings if each is not None]
            if known:
                told[row.meaning] = sum(known) / len(known)
                told[f"{row.meaning}_most"] = max(known)
            continue
        grown = _growth(watched, row.names)
        if row.kind == "share":
            whole = _growth(watched, row.of)
            grown = row.plus + grown / whole if grown is not None and whole else None
        if grown is not None:
            told[row.meaning] = grown
    return told


def _growth(watched: WatchedMetrics, names: tuple[str, ...]) -> float | None:
    before, after = sum_counters(watched.before, names), sum_counters(watched.after, names)
    if after is None or after < (before or 0.0):
        return None  # it began anew: the server was restarted in between
    return after - (before or 0.0)


def _read(endpoint: Endpoint, subject: Subject) -> str:
    path = subject.manners.metrics_path
    reply = endpoint.exchange(Request(method="GET", path=path, timeout_seconds=5.0))
    return reply.body if reply.status == 200 and not reply.error else ""
