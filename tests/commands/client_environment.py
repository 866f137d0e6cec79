"""The client library's environment for tests, made once by the command layer itself and kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from stoker.cli.world import build_world
from stoker.commands.openai_client import with_clients
from stoker.commands.world import World
from stoker.endpoints.http import HttpEndpoint
from stoker.fake_engine.fault import Fault
from stoker.fake_engine.script import Script
from stoker.fake_engine.server import EngineServer
from stoker.ports import Endpoint
from tests.conftest import PROJECT
from tests.contract.trying import Impatient, Recorder

_WHEELS = PROJECT / ".cache" / "wheels"
_VARIABLES = {"OPENAI_API_KEY": "sk-of-the-person", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
_PROXIES = {"http_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}


def client_world(recorder: Recorder | None = None) -> World:
    """This machine's world; environments lie where downloads of tests are kept.

    The person's variables would lead the library elsewhere, were they heeded.
    """
    world = build_world(recorder or Recorder())
    index = {} if not _WHEELS.is_dir() else {"PIP_FIND_LINKS": str(_WHEELS)}
    return replace(world, env={**world.env, **index}, python=sys.executable)


@contextmanager
def hostile_variables() -> Iterator[None]:
    """The environment of a person who uses the library elsewhere, behind a proxy."""
    before = dict(os.environ)
    os.environ.update({**_VARIABLES, **_PROXIES})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def served(
    world: World,
    script: Script,
    *,
    fault: Fault | None = None,
    timeout_seconds: float = 60.0,
) -> Iterator[tuple[EngineServer, Endpoint]]:
    """A fake engine and the endpoint that reaches it also through the library."""
    with EngineServer(script, fault=fault) as server:
        plain = HttpEndpoint(server.host, server.port, api_key=script.api_key or None)
        key = script.api_key or None
        endpoint = with_clients(world, plain, url=plain.url, key=key)
        yield server, Impatient(endpoint, timeout_seconds)
