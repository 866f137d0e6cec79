"""An endpoint that asks again where a server has said that it wants to be asked later.

A wrapper over the port, so that no adapter and no check knows of it. Commands put it around a
server whose contract is tried; what is still refused in the end says how often it was tried.
"""

from __future__ import annotations

import re
import threading
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
    """Waits as a rate limit asks, within the time of the request; ``tell`` hears of each wait.

    Several requests may wait at once, each in its own thread.
    """

    def __init__(self, endpoint: Endpoint, clock: Clock, tell: Tell) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._tell = tell
        self._lock = threading.Lock()
        self._waits = 0
        self._waited_seconds = 0.0

    @property
    def url(self) -> str:
        """See :class:`stoker.ports.Endpoint`."""
        return self._endpoint.url

    def describe_waits(self) -> str:
        """How often the server made requests wait, in a sentence; empty where it never did."""
        if not self._waits:
            return ""
        times = "once" if self._waits == 1 else f"{self._waits} times"
        return (
            f"the server limits requests: it answered 429 and was asked again later {times}, "
            f"after {self._waited_seconds:.0f} s of waiting in all"
        )

    def exchange(self, request: Request) -> Exchange:
        """See :class:`stoker.ports.Endpoint`; 429 only once waiting would take too long."""
        ends_at = self._clock.monotonic_seconds() + request.timeout_seconds
        for number in range(1, _MOST_TRIES + 1):
            left = ends_at - self._clock.monotonic_seconds()
            exchange = self._endpoint.exchange(replace(request, timeout_seconds=max(left, 0.001)))
            exchange = replace(exchange, request=request, tries=number)
            wait_seconds = self._wait_seconds(exchange, number)
            left = ends_at - self._clock.monotonic_seconds()
            if exchange.status != _TOO_MANY or number == _MOST_TRIES or wait_seconds >= left:
                break
            self._wait(wait_seconds, number + 1)
        return exchange

    def _wait(self, seconds: float, next_try: int) -> None:
        with self._lock:
            self._waits += 1
            self._waited_seconds += seconds
            self._tell(
                f"the server limits requests (429): waiting {seconds:.0f} s"
                f" before try {next_try} of {_MOST_TRIES}"
            )
        self._clock.sleep(seconds)

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
