"""The tools that the report of the contract compares, and the kinds of servers they are tried on.

Called by :mod:`stoker.evaluate.contract`. Each tool is asked as a person would ask it.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from stoker.commands.addresses_of import Access, parse_url
from stoker.commands.discovery import find_server
from stoker.contract.run import Selection, verify
from stoker.contract.selection import FULL
from stoker.endpoints.http import HttpEndpoint
from stoker.endpoints.limited import LimitedEndpoint
from stoker.errors import StokerError
from stoker.evaluate.rivals import Package, install, last_line
from stoker.fake_engine.script import Limits, Script
from stoker.fake_engine.server import EngineServer
from stoker.guard.asking import Silent, WallClock
from stoker.hosts.local import LocalHost
from stoker.model.contract import (
    Exchange,
    Feature,
    Offer,
    Offered,
    Request,
    Subject,
    Verdict,
    Verification,
)
from stoker.ports import Command, Endpoint

#: The rival: the nearest tool that tries a live server. It looks at tool calls and reasoning.
RIVAL, _RIVAL_VERSION = "canitoolcall", "0.1.1"
OURS = "Stoker"
_PROBE_SECONDS = 45.0
_TRIAL_SECONDS = 120.0
#: How much every server here holds.
CONTEXT_TOKENS = 4096

#: The checks that come with the command alone.
BY_CLIENT = frozenset({"openai_client"})
#: Of the servers here alone.
KEY = "sk-of-the-report"

#: What one request may take at most; nothing here needs as long.
REQUEST_SECONDS = 10.0

_Found = frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A tool, and the kind of server that it is tried on. ``only``: the checks, empty for all."""

    tool: str
    manners: str
    features: frozenset[str]
    only: frozenset[str] = frozenset()
    level: str = FULL
    request_seconds: float = REQUEST_SECONDS

    @classmethod
    def of_rival(cls, way: Way) -> Way:
        """The same server for the rival, which has one level."""
        return cls(tool=RIVAL, manners=way.manners, features=way.features)

    @property
    def correct(self) -> Way:
        """The way in which the same tool is tried on a correct server, for all levels alike."""
        level = self.level if self.only else FULL
        return replace(self, level=level, request_seconds=REQUEST_SECONDS)

    @property
    def script(self) -> Script:
        """The server of this kind."""
        return Script(
            manners=self.manners,
            features=self.features,
            api_key=KEY,
            limits=Limits(context_tokens=CONTEXT_TOKENS),
        )


def ask(
    rival: str, way: Way, server: EngineServer, suspected: frozenset[str] = frozenset()
) -> _Found:
    """What a tool says is wrong with a server."""
    if way.tool == RIVAL:
        return _ask_rival(rival, server)
    if way.only == BY_CLIENT:
        return _ask_command(server, way.level)
    return _ask_stoker(server, way, suspected)


class _Impatient:
    """An endpoint that gives no request more than so much time."""

    def __init__(self, endpoint: Endpoint, timeout_seconds: float) -> None:
        self._endpoint = endpoint
        self._timeout_seconds = timeout_seconds

    @property
    def url(self) -> str:
        return self._endpoint.url

    def exchange(self, request: Request) -> Exchange:
        timeout_seconds = min(request.timeout_seconds, self._timeout_seconds)
        return self._endpoint.exchange(replace(request, timeout_seconds=timeout_seconds))


def _ask_stoker(server: EngineServer, way: Way, suspected: frozenset[str]) -> _Found:
    """What `stoker verify URL` says: the checks that failed, or the one sentence of a refusal.

    Where it refuses the server at the door, the ``suspected`` checks are tried as on a deployment
    of one's own, whose address nobody has to find.
    """
    key = server.script.api_key or None
    limit = partial(_limit, way.request_seconds)
    try:
        found = find_server(parse_url(server.url), Access(key=key), published_name="", wrap=limit)
    except StokerError as error:
        bare = limit(HttpEndpoint(server.host, server.port, api_key=key), "")
        subject = Subject(published_name=server.script.name)
        tried = _failures(_verify(bare, subject, replace(way, only=suspected)))
        return tried | {error.summary}
    return _failures(_verify(found.endpoint, _declare(found.subject), way))


def _limit(request_seconds: float, endpoint: Endpoint, address: str) -> Endpoint:
    return _Impatient(LimitedEndpoint(endpoint, WallClock(), _TRIAL_SECONDS), request_seconds)


def _verify(endpoint: Endpoint, subject: Subject, way: Way) -> Verification:
    return verify(
        endpoint,
        name=endpoint.url,
        subject=subject,
        clock=WallClock(),
        reporter=Silent(),
        selection=Selection(level=way.level, only=way.only),
    )


def _failures(tried: Verification) -> _Found:
    bad = (Verdict.FAILED, Verdict.ERROR)
    return frozenset(result.check for result in tried.results if result.verdict in bad)


def _declare(subject: Subject) -> Subject:
    """As `contract.promises` of a deployment would: a model that thinks can be told not to."""
    switch = Offered(offer=Offer.PROMISED, reason="declared")
    return replace(subject, features={**subject.features, Feature.THINKING_SWITCH: switch})


def _ask_command(server: EngineServer, level: str) -> _Found:
    """What the command says with the official client library, which it brings itself."""
    argv = (
        *(sys.executable, "-m", "stoker", "verify", server.url, "--json", "--level", level),
        *(word for check in BY_CLIENT for word in ("--only", check)),
        *("--key-file", str(_write_key())),
    )
    folders = {"STOKER_STATE": ".cache/report/state", "STOKER_DATA": ".cache/report/data"}
    env = {**os.environ, **{name: str(Path(path).absolute()) for name, path in folders.items()}}
    ran = LocalHost().run(Command(argv=argv, timeout_seconds=_TRIAL_SECONDS, env=env))
    bad = (Verdict.FAILED, Verdict.ERROR)
    if ran.exit_status not in (0, 5):
        return frozenset({last_line(ran.stderr or ran.stdout)})
    results = json.loads(ran.stdout)["results"]
    return frozenset(each["check"] for each in results if each["verdict"] in bad)


def _write_key() -> Path:
    """The key as a file that only we can read, as the command wants it."""
    path = Path(".cache/report/key").absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_text(KEY, "utf-8")
    return path


def _ask_rival(python: str, server: EngineServer) -> _Found:
    """The scenarios that fail by the probe's own report; it has one level."""
    argv = (
        *(python, "-m", RIVAL, "probe", "--base-url", f"{server.url}/v1"),
        *("--model", server.script.name, "--timeout", "5", "--json", "-"),
    )
    env = {"CANITOOLCALL_API_KEY": server.script.api_key} if server.script.api_key else {}
    ran = LocalHost().run(Command(argv=argv, timeout_seconds=_PROBE_SECONDS, env=env))
    try:
        outcomes = json.loads(ran.stdout)["outcomes"]
        bad = [each for each in outcomes if each["status"] in ("fail", "error")]
        return frozenset(str(each["scenario_id"]) for each in bad)
    except (ValueError, KeyError, TypeError):
        return frozenset({"it could not be probed"})


def install_rival() -> tuple[str, str]:
    """The interpreter that has the rival, or why there is none."""
    check = ("-m", RIVAL, "--version")
    return install(Package(name=RIVAL, version=_RIVAL_VERSION, check=check))
