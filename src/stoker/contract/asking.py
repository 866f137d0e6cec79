"""Sending what the plans of checks ask for: alone or at the same time, and no question twice.

Called by :mod:`stoker.contract.run`, one for each trial. Knows nothing of what is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Thread

from stoker.errors import DataError
from stoker.model.contract import Exchange, Request
from stoker.ports import Endpoint

#: A larger answer is asked for again rather than kept in memory.
_MOST_KEPT_BYTES = 1 << 20

#: Threads wait for each other so long at most.
_START_SECONDS = 5.0


class Asker:
    """Exchanges with one server. What was answered to the very same request is asked once."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        # A limit that wraps the endpoint may change the request that an exchange carries.
        self._answered: list[tuple[Request, Exchange]] = []

    def ask(self, batch: Sequence[Request]) -> tuple[Exchange, ...]:
        """The exchanges in the order of the requests; several are sent at the same time."""
        if len(batch) == 1:
            return (self._ask_once(batch[0]),)
        # These are about being many: an earlier answer stands for none of them.
        return self._ask_at_once(batch)

    def _ask_at_once(self, batch: Sequence[Request]) -> tuple[Exchange, ...]:
        """A thread for each. They are left behind when the trial is interrupted, and waited for
        by nobody: a server may keep each until its deadline."""
        asked: list[Future[Exchange]] = [Future() for _ in batch]
        # A fast server would have answered the first before the last thread has begun.
        start = Barrier(len(batch))
        for request, future in zip(batch, asked, strict=True):
            Thread(target=self._fulfil, args=(request, future, start), daemon=True).start()
        return tuple(future.result() for future in asked)

    def _fulfil(self, request: Request, future: Future[Exchange], start: Barrier) -> None:
        try:
            with suppress(BrokenBarrierError):
                start.wait(_START_SECONDS)
            future.set_result(self._endpoint.exchange(request))
        finally:
            # The port raises nothing, so this is a mistake of ours, and Python shows it.
            if not future.done():
                future.set_exception(DataError(f"{request.method} {request.path} was not answered"))

    def _ask_once(self, request: Request) -> Exchange:
        if request.is_new:
            return self._endpoint.exchange(request)
        for asked, exchange in self._answered:
            if asked == request:
                return exchange
        exchange = self._endpoint.exchange(request)
        if not exchange.error and _size_bytes(exchange) <= _MOST_KEPT_BYTES:
            self._answered.append((request, exchange))
        return exchange


def _size_bytes(exchange: Exchange) -> int:
    """About so much, in characters."""
    return len(exchange.body) + sum(map(len, exchange.events))
