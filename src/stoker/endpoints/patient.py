"""An endpoint that asks again where a server has said that it wants to be asked later.

A wrapper over the port, so that no adapter and no check knows of it. Commands put it around a
server whose contract is tried; what is still refused in the end says how often it was tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from email.utils import parsedate_to_datetime

from stoker.model.contract import Exchange, Request
from stoker.ports import Clock, Endpoint

#: Too many requests (RFC 6585).
_TOO_MANY = 429
_MOST_TRIES = 4
#: Where the server does not say when: twice as long each time.
_FIRST_WAIT_SECONDS = 1.0
_MOST_WAIT_SECONDS = 30.0

Tell = Callable[[str], object]


class PatientEndpoint:
    """Waits as a rate limit asks, within the time of the request; ``tell`` hears of each wait."""

    def __init__(self, endpoint: Endpoint, clock: Clock, tell: Tell) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._tell = tell

    @property
    def url(self) -> str:
        """See :class:`stoker.ports.Endpoint`."""
        return self._endpoint.url

    def exchange(self, request: Request) -> Exchange:
        """See :class:`stoker.ports.Endpoint`; 429 only once waiting would take too long."""
        ends_at = self._clock.monotonic_seconds() + request.timeout_seconds
        for number in range(1, _MOST_TRIES + 1):
            left = ends_at - self._clock.monotonic_seconds()
            exchange = self._endpoint.exchange(replace(request, timeout_seconds=max(left, 0.001)))
            exchange = replace(exchange, tries=number)
            wait_seconds = self._wait_seconds(exchange, number)
            left = ends_at - self._clock.monotonic_seconds()
            if exchange.status != _TOO_MANY or number == _MOST_TRIES or wait_seconds >= left:
                break
            self._tell(
                f"the server limits requests (429): waiting {wait_seconds:.0f} s"
                f" before try {number + 1} of {_MOST_TRIES}"
            )
            self._clock.sleep(wait_seconds)
        return exchange

    def _wait_seconds(self, exchange: Exchange, number: int) -> float:
        """What the server asks for (seconds or a date), else more each time; bounded."""
        asked: float = _FIRST_WAIT_SECONDS * (1 << (number - 1))
        if re.fullmatch(r"\d{1,6}", exchange.retry_after):
            asked = float(exchange.retry_after)
        elif exchange.retry_after:
            try:
                date = parsedate_to_datetime(exchange.retry_after)
                asked = date.timestamp() - self._clock.now_seconds()
            except (ValueError, OverflowError):
                pass
        return min(max(asked, 0.1), _MOST_WAIT_SECONDS)
