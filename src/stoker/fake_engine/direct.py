"""The endpoint port straight onto a fake engine, without HTTP: hundreds of trials in seconds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from stoker.fake_engine.core import Core, Task
from stoker.fake_engine.values import Asked, Part, Response
from stoker.model.contract import Exchange, Key, Request

_EVENT_END = re.compile(rb"\r?\n\r?\n")
_LIMIT_BYTES = 8 << 20
_STREAM = "text/event-stream"


class DirectEndpoint:
    """Answers as :class:`stoker.ports.Endpoint` says. Nothing sleeps: the seconds of an exchange
    are those that the script's timing would have taken, and a deadline is held against them.

    Faults of the wire itself show as broken HTTP. Safe among threads.
    """

    def __init__(self, core: Core, *, api_key: str | None = None) -> None:
        self.core = core
        self._api_key = core.script.api_key if api_key is None else api_key

    @property
    def url(self) -> str:
        """An address that nobody listens at."""
        return "http://127.0.0.1:9"

    def exchange(self, request: Request) -> Exchange:
        """Send one request and collect the whole reply."""
        if request.client:
            error = f"the client {request.client} is not here"
            return Exchange(request=request, error=error, error_kind="client")
        if any(fault.wire for fault in self.core.faults):
            error = "the reply broke off or was not HTTP"
            return Exchange(request=request, error=error, error_kind="protocol")
        task = self.core.begin(self._asked(request))
        try:
            delay = self.core.delay_seconds(task)
            response = self.core.prepare(task)
            if response is None:
                self.core.counters.add(running=1)
                try:
                    response = self.core.compute(task)
                finally:
                    self.core.counters.add(running=-1)
            return self._collect(task, request, response, delay)
        finally:
            self.core.end(task)

    def _asked(self, request: Request) -> Asked:
        headers = {"accept": "application/json, text/event-stream"}
        key = _make_key(self._api_key, request.key)
        if key:
            headers["authorization"] = f"Bearer {key}"
        body = b""
        if request.text is not None:
            body = request.text.encode("utf-8", "replace")
        elif request.body is not None:
            body = json.dumps(request.body).encode("ascii")
        return Asked(method=request.method, path=request.path, headers=headers, body=body)

    def _collect(self, task: Task, request: Request, response: Response, delay: float) -> Exchange:
        kept, seconds, error, kind = b"", delay, "", ""
        first = 0.0
        for part in _until_closed(response.parts, request.stop_after_events):
            seconds += part.after_seconds
            if seconds > request.timeout_seconds:
                error, kind = f"no whole reply within {request.timeout_seconds:g} s", "timeout"
                seconds = request.timeout_seconds
                break
            first = first or seconds
            kept += part.data
            self.core.add_tokens(task, part.tokens)
        if len(kept) > _LIMIT_BYTES:
            kept, error = kept[:_LIMIT_BYTES], f"the reply is larger than {_LIMIT_BYTES >> 20} MiB"
            kind = "protocol"
        if response.is_cut and not error:
            error, kind = "the reply broke off or was not HTTP", "protocol"
        headers = {name.lower(): value for name, value in response.headers.items()}
        media = headers.get("content-type", "").partition(";")[0].strip().lower()
        is_stream = request.stream and media == _STREAM
        text, is_utf8 = _decode(kept)
        return Exchange(
            request=request,
            status=response.status,
            media_type=media,
            body="" if is_stream else text,
            events=_read_events(text) if is_stream else (),
            is_utf8=is_utf8 or bool(error),
            seconds=seconds,
            first_seconds=first,
            error=error,
            error_kind=kind,
            retry_after=headers.get("retry-after", ""),
        )


def _make_key(own: str, key: Key) -> str:
    """What stands for each key; another key of the own one only where there is one."""
    near = {Key.NEAR: f"{own}x", Key.OTHER_CASE: own.swapcase()} if own else {}
    made = {Key.OWN: own, Key.NONE: "", **near}.get(key, "sk-wrong")
    return "sk-wrong" if made == own and key is not Key.OWN and own else made


def _until_closed(parts: Iterable[Part], stop_after_events: int) -> Iterable[Part]:
    """The parts until the client has what it wanted and closes."""
    if not stop_after_events:
        yield from parts
        return
    seen = b""
    for part in parts:
        yield part
        seen += part.data
        if len(_EVENT_END.findall(seen)) >= stop_after_events:
            return


def _decode(content: bytes) -> tuple[str, bool]:
    try:
        return content.decode("utf-8"), True
    except UnicodeDecodeError:
        return content.decode("utf-8", "replace"), False


def _read_events(text: str) -> tuple[str, ...]:
    """The data of each whole event; comments are left out."""
    *blocks, _rest = re.split(r"\r?\n\r?\n", text)
    found = ("\n".join(_read_data(block)) for block in blocks)
    return tuple(data for data in found if data)


def _read_data(block: str) -> Iterable[str]:
    for line in block.splitlines():
        if line.startswith("data:"):
            yield line.removeprefix("data:").removeprefix(" ")
