"""Sending what the plans of checks ask for: alone or at the same time, and no question twice.

Called by :mod:`stoker.contract.run`, one for each trial. Knows nothing of what is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from stoker.model.contract import Exchange, Request
from stoker.ports import Endpoint


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
        with ThreadPoolExecutor(max_workers=len(batch)) as pool:
            return tuple(pool.map(self._endpoint.exchange, batch))

    def _ask_once(self, request: Request) -> Exchange:
        if request.is_new:
            return self._endpoint.exchange(request)
        for asked, exchange in self._answered:
            if asked == request and not exchange.error:
                return exchange
        exchange = self._endpoint.exchange(request)
        self._answered.append((request, exchange))
        return exchange
