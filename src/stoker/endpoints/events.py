"""Server-sent events: the bytes of a streamed reply become the data of its events.

:mod:`stoker.endpoints.http` calls it once a stream has ended. The parsing is the library's; this
module must never judge what the events say.
"""

from __future__ import annotations

import httpx2


def read_events(content: bytes) -> tuple[str, ...]:
    """The data of each whole event, in order.

    Lines of one event are joined by a line feed; comments and events without data are left out,
    as the standard says. An event that the end of the content cuts off does not count.
    """
    response = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream; charset=utf-8"},
        content=content,
        # The library wants to know the request; nothing is sent to this address.
        request=httpx2.Request("GET", "http://127.0.0.1/"),
    )
    source = httpx2.EventSource(response, max_event_size=None)
    return tuple(event.data for event in source if event.data)
