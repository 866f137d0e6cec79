"""An endpoint with a limit over all of its requests together, whatever each would take.

A wrapper over the port, so that no adapter and no check knows of it. Commands put it around an
engine whose contract is tried.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.model.contract import Exchange, Request
from stoker.ports import Clock, Endpoint


class LimitedEndpoint:
    """Gives every request what is left of ``timeout_seconds``, counted from the first."""

    def __init__(self, endpoint: Endpoint, clock: Clock, timeout_seconds: float) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._began: float | None = None

    @property
    def url(self) -> str:
        """See :class:`stoker.ports.Endpoint`."""
        return self._endpoint.url

    def exchange(self, request: Request) -> Exchange:
        """See :class:`stoker.ports.Endpoint`; an error of the kind ``timeout`` past the limit."""
        now = self._clock.monotonic_seconds()
        self._began = now if self._began is None else self._began
        left = self._timeout_seconds - (now - self._began)
        if left <= 0:
            error = f"the contract's {self._timeout_seconds:g} s were used up before this request"
            return Exchange(request=request, error=error, error_kind="timeout")
        timeout_seconds = min(left, request.timeout_seconds)
        return self._endpoint.exchange(replace(request, timeout_seconds=timeout_seconds))
