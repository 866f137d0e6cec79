"""An endpoint whose calls through client libraries go another way than plain HTTP.

A wrapper over the port, so that no check knows how a library is run. Commands put it around a
server whose contract is tried; the innermost wrapper that looks at requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stoker.model.contract import Exchange, Request
from stoker.ports import Endpoint

#: Makes one call through a client library. It never raises for what a server or the library does,
#: and may be used by several threads at once.
Door = Callable[[Request], Exchange]


class RoutedEndpoint:
    """Sends a request that names a client through the door of this name, all others on."""

    def __init__(self, endpoint: Endpoint, doors: Mapping[str, Door]) -> None:
        self._endpoint = endpoint
        self._doors = doors

    @property
    def url(self) -> str:
        """See :class:`stoker.ports.Endpoint`."""
        return self._endpoint.url

    def exchange(self, request: Request) -> Exchange:
        """See :class:`stoker.ports.Endpoint`; the endpoint itself answers for unknown clients."""
        door = self._doors.get(request.client)
        return door(request) if door is not None else self._endpoint.exchange(request)
