"""The official client library of the OpenAI interface: its environment, and calls through it.

``stoker verify`` puts :func:`with_clients` around a server. The environment is made when the first
check asks for the client; where it cannot be made, no call is an error of the server: its exchange
says why, and the check is skipped. The key goes to the child on its standard input and nowhere
else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from threading import Lock

from stoker.builds.environment import environment_path, executable_in, plan_environment
from stoker.commands.prepare import make
from stoker.commands.trust import check_data_folders
from stoker.commands.world import World
from stoker.endpoints.http import REDACTED
from stoker.endpoints.routed import RoutedEndpoint
from stoker.errors import StokerError
from stoker.knowledge.engines import load_environment
from stoker.model.contract import Exchange, Key, Request
from stoker.model.event import Event, EventKind
from stoker.ports import Command, CommandResult, Endpoint
from stoker.preparing.failures import last_line

#: The recipe of the environment, the name by which checks ask for the client, and its command.
CLIENT = "openai"
_COMMAND = "openai-call"

#: The whole environment of the child: what the library would take from ours (proxies, keys,
#: addresses) is not there.
_ENV = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}

#: The library gives up this much sooner than we do, so that it is the one that says so.
_MARGIN_SECONDS = 3.0
_LEAST_SECONDS = 0.5
_ERROR_CHARACTERS = 300

#: Told as the server's own status, so that whoever waits for a limit of requests sees it.
_TOO_MANY = 429


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a server is reached. ``url`` has no trailing slash and no ``/v1``.

    ``address``: where the name in the URL leads; empty where the URL holds an address. ``ca_file``:
    the certificates that the server's must rest on; empty for those of the system.
    """

    url: str
    key: str | None = None
    address: str = ""
    ca_file: str = ""


def with_clients(
    world: World,
    endpoint: Endpoint,
    *,
    url: str,
    key: str | None,
    address: str = "",
    ca_file: str = "",
) -> Endpoint:
    """The endpoint, where checks may also ask for client libraries.

    ``url`` and the rest say how the same server is reached, see :class:`Way`.
    """
    way = Way(url=url, key=key, address=address, ca_file=ca_file)
    return RoutedEndpoint(endpoint, {CLIENT: _Client(world, way).exchange})


class _Client:
    """Calls through the library, each in a child of its own."""

    def __init__(self, world: World, way: Way) -> None:
        self._world = world
        self._way = way
        self._lock = Lock()
        self._absence: str | None = None

    def exchange(self, request: Request) -> Exchange:
        """What the library made of the server's reply, as JSON. Never raises."""
        absence = self._prepare()
        if absence:
            return Exchange(request=request, error=absence, error_kind="client")
        began = self._world.clock.monotonic_seconds()
        try:
            result = self._world.host.run(self._command(request))
        except StokerError as error:
            failure = f"the client {CLIENT} could not be run: {error.summary}"
            return Exchange(request=request, error=failure, error_kind="client")
        seconds = self._world.clock.monotonic_seconds() - began
        return _read(request, result, self._way.key, seconds)

    def _prepare(self) -> str:
        """Make the environment, once; why it is not there, empty where it is."""
        with self._lock:
            if self._absence is None:
                self._absence = _make_environment(self._world)
            return self._absence

    def _command(self, request: Request) -> Command:
        way = self._way
        left_seconds = max(request.timeout_seconds - _MARGIN_SECONDS, _LEAST_SECONDS)
        question = {
            "base_url": f"{way.url}/v1",
            "key": (way.key or "") if request.key is Key.OWN else "",
            "address": way.address,
            "ca_file": way.ca_file,
            "call": request.path,
            "stream": request.stream,
            "arguments": request.body or {},
            "timeout_seconds": left_seconds,
        }
        environment = environment_path(load_environment(CLIENT), self._world.folders)
        return Command(
            argv=(executable_in(environment, _COMMAND),),
            timeout_seconds=request.timeout_seconds,
            env=_ENV,
            stdin=json.dumps(question),
            is_question=True,
        )


def _make_environment(world: World) -> str:
    """Why the environment cannot be had, in a sentence; empty once it is complete."""
    recipe = load_environment(CLIENT)
    try:
        check_data_folders(world)
        preparation = plan_environment(recipe, world.folders, world.host)
        if preparation is not None:
            tell = partial(Event, kind=EventKind.PREPARATION, subject=preparation.target)
            world.reporter.emit(tell(text=preparation.summary))
            make(world, recipe)
    except StokerError as error:
        return f"the client {CLIENT} {recipe.build} cannot be installed: {error.summary}"
    return ""


def _read(request: Request, result: CommandResult, key: str | None, seconds: float) -> Exchange:
    if result.timed_out:
        error = f"the client {CLIENT} had no whole reply within {request.timeout_seconds:g} s"
        return Exchange(request=request, error=error, error_kind="timeout", seconds=seconds)
    body = _redact(result.stdout, key)
    answer = _parse(body)
    if result.exit_status != 0 or answer is None:
        said = _redact(last_line(result.stderr), key) or f"status {result.exit_status}"
        error = f"the client {CLIENT} did not work: {said}"[:_ERROR_CHARACTERS]
        return Exchange(request=request, error=error, error_kind="client", seconds=seconds)
    if _was_refused(answer):
        error = f"the client {CLIENT} could not connect"
        return Exchange(request=request, error=error, error_kind="refused", seconds=seconds)
    status = _TOO_MANY if _find_status(answer) == _TOO_MANY else 200
    return Exchange(
        request=request, status=status, media_type="application/json", body=body, seconds=seconds
    )


def _parse(body: str) -> dict[str, object] | None:
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _find_status(answer: dict[str, object]) -> object:
    """The status that the library was refused with, None where it was not."""
    error = answer.get("error")
    return error.get("status") if isinstance(error, dict) else None


def _was_refused(answer: dict[str, object]) -> bool:
    """Whether nobody listens there, which is no matter of the library."""
    error = answer.get("error")
    return isinstance(error, dict) and error.get("cause") == "ConnectError"


def _redact(text: str, key: str | None) -> str:
    """The text without the key, as it is and as it stands in JSON."""
    for spelling in (key, json.dumps(key)[1:-1]) if key else ():
        text = text.replace(spelling, REDACTED)
    return text
