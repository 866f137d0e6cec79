"""An endpoint with a limit over all of its requests together, whatever each would take.

It gives a server up that breaks the same bound of a reply again and again. A wrapper over the port,
so that no adapter and no check knows of it. Commands put it around an engine whose contract is
tried.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from stoker.model.contract import Exchange, Request
from stoker.ports import Clock, Endpoint

#: How the sentences begin that say which bound a reply broke (:mod:`stoker.endpoints.wire`).
TOO_LARGE = "the reply is larger than"
PACKED = "the reply is packed"
#: So many replies running that break the same bound are no accident.
MOST_BREACHES = 3


class LimitedEndpoint:
    """Gives every request what is left of ``timeout_seconds``, counted from the first.

    Once MOST_BREACHES replies running have broken the same bound, nothing more is asked, and
    ``given_up`` says why in a sentence. Several threads may ask at once.
    """

    def __init__(self, endpoint: Endpoint, clock: Clock, timeout_seconds: float) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._began: float | None = None
        self._lock = threading.Lock()
        self._breaches: dict[str, tuple[str, int]] = {}
        self.given_up = ""

    @property
    def url(self) -> str:
        """See :class:`stoker.ports.Endpoint`."""
        return self._endpoint.url

    def exchange(self, request: Request) -> Exchange:
        """See :class:`stoker.ports.Endpoint`; an error of the kind ``timeout`` past the limit."""
        if self.given_up:
            return Exchange(request=request, error=self.given_up, error_kind="protocol")
        now = self._clock.monotonic_seconds()
        self._began = now if self._began is None else self._began
        left = self._timeout_seconds - (now - self._began)
        if left <= 0:
            error = f"the contract's {self._timeout_seconds:g} s were used up before this request"
            return Exchange(request=request, error=error, error_kind="timeout")
        timeout_seconds = min(left, request.timeout_seconds)
        exchange = self._endpoint.exchange(replace(request, timeout_seconds=timeout_seconds))
        with self._lock:
            self._count(exchange)
        return exchange

    def _count(self, exchange: Exchange) -> None:
        """By method: that its list of models is in order says nothing of its answers."""
        method = exchange.request.method
        breach = next((each for each in (TOO_LARGE, PACKED) if exchange.error.startswith(each)), "")
        last, count = self._breaches.get(method, ("", 0))
        count = count + 1 if breach and breach == last else 1
        self._breaches[method] = (breach, count)
        if breach and count >= MOST_BREACHES:
            self.given_up = f"nothing more was asked: {count} times running {exchange.error}"
