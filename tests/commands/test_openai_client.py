"""The official client library, run for real against a fake engine on the loopback address."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from stoker.builds.environment import digest_recipe, environment_path, is_complete
from stoker.commands.openai_client import CLIENT, with_clients
from stoker.commands.world import World
from stoker.contract.judgement import Judgement
from stoker.endpoints.http import REDACTED, HttpEndpoint
from stoker.fake_engine.fault import Data, Fault, Moment
from stoker.fake_engine.faults.apis import FAULTS
from stoker.fake_engine.script import MANNERS, REASONING, USUAL_FEATURES, Script
from stoker.fake_engine.values import Response
from stoker.hosts.local import LocalHost
from stoker.knowledge.engines import load_environment
from stoker.model.contract import Exchange, Key, Request, Verdict
from stoker.ports import Command, CommandResult, Endpoint
from tests.commands.client_environment import client_world, hostile_variables, served
from tests.contract.hand_made import subject_of, try_check
from tests.contract.trying import NAME, Recorder

KEY = "sk-the-very-secret-key"
OURS = [fault for fault in FAULTS if "openai_client" in fault.killed_by]
#: What never ends is given up after this.
HANGS = {"client_stream_hangs": 8.0}

# The first test may download the library.
pytestmark = pytest.mark.timeout(120, func_only=True)


@pytest.fixture(scope="module")
def world() -> World:
    """This machine, with the library's environment made by the first call of it."""
    recorder = Recorder()
    found = client_world(recorder)
    nowhere = HttpEndpoint("127.0.0.1", closed_port())
    endpoint = with_clients(found, nowhere, url=nowhere.url, key=None)
    exchange = endpoint.exchange(call("models"))
    assert exchange.error_kind == "refused", exchange.error
    return found


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def call(path: str, **arguments: object) -> Request:
    return Request(method="CALL", path=path, client=CLIENT, body=arguments)


def chat(**more: object) -> Request:
    messages = [{"role": "user", "content": "What is 2+2?"}]
    return call("chat", model=NAME, messages=messages, max_tokens=16, **more)


def engine(manners: str, **fields: object) -> Script:
    return Script(manners=manners, names=(NAME,), **fields)  # type: ignore[arg-type]


def judge(endpoint: Endpoint, manners: str) -> Judgement:
    return try_check("openai_client", endpoint.exchange, subject_of(manners))


def test_the_environment_is_made_by_the_first_call(world: World) -> None:
    recipe = load_environment(CLIENT)
    path = environment_path(recipe, world.folders)
    assert is_complete(path, digest_recipe(recipe), world.host)


@pytest.mark.parametrize("manners", MANNERS)
def test_a_correct_engine_is_read(world: World, manners: str) -> None:
    script = engine(manners, api_key=KEY, features=USUAL_FEATURES | {REASONING})
    with hostile_variables(), served(world, script) as (server, endpoint):
        judgement = judge(endpoint, manners)
        asked = [each.headers.get("authorization") for each in server.asked]
    assert judgement.verdict is Verdict.PASSED, judgement.found
    assert "openai " in judgement.found
    assert set(asked) == {f"Bearer {KEY}"}


@pytest.mark.parametrize("fault", OURS, ids=lambda fault: fault.name)
def test_what_the_library_cannot_read_is_noticed(world: World, fault: Fault) -> None:
    manners = MANNERS[OURS.index(fault) % len(MANNERS)]
    seconds = HANGS.get(fault.name, 60.0)
    script = engine(manners)
    with served(world, script, fault=fault, timeout_seconds=seconds) as (_, endpoint):
        judgement = judge(endpoint, manners)
    assert judgement.verdict is Verdict.FAILED, judgement.found
    assert judgement.symptom


@dataclass
class Watched(LocalHost):
    """The machine, which keeps what it was asked to run."""

    commands: list[Command] = field(default_factory=list)

    def __post_init__(self) -> None:
        LocalHost.__init__(self)

    def run(self, command: Command, poll: Callable[[], None] | None = None) -> CommandResult:
        self.commands.append(command)
        return super().run(command, poll)


def _tell_key(data: Data, moment: Moment) -> Data:
    for choice in data.get("choices", ()):
        choice["message"]["content"] = f"Your key is {KEY}"
    return data


def test_the_key_is_seen_by_the_server_alone(world: World) -> None:
    host = Watched()
    fault = Fault(name="tells", title="tells the key", killed_by=frozenset(), reply=_tell_key)
    script = engine("vllm", api_key=KEY)
    with served(replace(world, host=host), script, fault=fault) as (_, endpoint):
        exchange = endpoint.exchange(chat())
        wrong = endpoint.exchange(replace(chat(), key=Key.NONE))
    assert REDACTED in exchange.body
    assert KEY not in repr(exchange)
    assert '"status": 401' in wrong.body
    (command, *_) = host.commands
    assert KEY in command.stdin
    assert KEY not in repr(command)
    assert not any(KEY in text for text in (*command.argv, *command.env.values()))
    assert command.env.keys().isdisjoint(os.environ.keys() - {"PATH", "LC_ALL"})


def _too_many(response: Response, moment: Moment) -> Response:
    return replace(response, status=429)


def test_a_limit_of_requests_is_seen_by_whoever_waits(world: World) -> None:
    fault = Fault(name="limits", title="limits", killed_by=frozenset(), response=_too_many)
    with served(world, engine("vllm"), fault=fault) as (_, endpoint):
        assert endpoint.exchange(call("models")).status == 429


def test_nobody_listens(world: World) -> None:
    plain = HttpEndpoint("127.0.0.1", closed_port())
    judgement = judge(with_clients(world, plain, url=plain.url, key=None), "vllm")
    assert judgement.verdict is Verdict.ERROR


def test_a_name_leads_to_the_address_that_was_judged(world: World) -> None:
    with served(world, engine("sglang")) as (server, _):
        plain = HttpEndpoint(server.host, server.port)
        url = f"http://models.example:{server.port}"
        endpoint = with_clients(world, plain, url=url, key=None, address=server.host)
        exchange = endpoint.exchange(chat())
        assert '"result"' in exchange.body, exchange
        assert server.asked[-1].headers["host"] == f"models.example:{server.port}"


def test_without_an_environment_the_check_is_skipped(world: World, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    host = Watched()
    offline = replace(
        world,
        host=host,
        folders=replace(world.folders, environments=str(tmp_path / "environments")),
        env={"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PATH": os.environ["PATH"]},
    )
    with served(offline, engine("vllm")) as (server, endpoint):
        judgement = judge(endpoint, "vllm")
        tries = len(host.commands)
        again = endpoint.exchange(chat())
        assert server.asked == []
    assert judgement.verdict is Verdict.SKIPPED
    assert "cannot be installed" in judgement.found
    assert again.error_kind == "client"
    assert len(host.commands) == tries


def test_without_a_door_the_check_is_skipped() -> None:
    judgement = judge(HttpEndpoint("127.0.0.1", closed_port()), "vllm")
    assert judgement.verdict is Verdict.SKIPPED


def test_plain_requests_go_the_plain_way(world: World) -> None:
    with served(world, engine("vllm")) as (_, endpoint):
        exchange: Exchange = endpoint.exchange(Request(method="GET", path="/v1/models"))
    assert json.loads(exchange.body)["data"][0]["id"] == NAME
