"""The fake engine over HTTP: time, seats, clients that go away, counters, and what it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from stoker.endpoints.http import HttpEndpoint
from stoker.fake_engine.cache import PrefixCache
from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.metrics import read_metric
from stoker.fake_engine.script import (
    ALL_FEATURES,
    LLAMACPP,
    MANNERS,
    SGLANG,
    VLLM,
    Delivery,
    Limits,
    Script,
    Timing,
)
from stoker.fake_engine.server import EngineServer
from stoker.fake_engine.switches import discover_faults
from stoker.knowledge.manners import load_manners
from stoker.model.contract import Exchange, Key, Request
from stoker.model.facts import Plain

CHAT = "/v1/chat/completions"
RUNNING = {manners: load_manners()[manners].manners.running[0] for manners in MANNERS}


def question(**more: Any) -> Request:
    body: dict[str, Plain] = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": "Count from 1 to 40."}],
        "temperature": 0,
        **more,
    }
    return Request(method="POST", path=CHAT, body=body, stream=bool(more.get("stream")))


def get(endpoint: HttpEndpoint | DirectEndpoint, path: str, key: Key = Key.OWN) -> Exchange:
    return endpoint.exchange(Request(method="GET", path=path, key=key))


def metrics(server: EngineServer) -> Mapping[str, float]:
    return read_metric(get(HttpEndpoint(server.host, server.port), "/metrics").body)


# --- time ---


def test_tokens_take_their_time() -> None:
    timing = Timing(first_token_seconds=0.2, seconds_per_token=0.01)
    with EngineServer(Script(timing=timing)) as server:
        endpoint = HttpEndpoint(server.host, server.port)
        streamed = endpoint.exchange(question(stream=True))
        plain = endpoint.exchange(question())
    assert streamed.first_seconds >= 0.2
    assert streamed.seconds >= 0.2 + 39 * 0.01
    assert plain.seconds >= 0.2 + 39 * 0.01


def test_without_a_socket_the_seconds_are_told_and_not_spent() -> None:
    timing = Timing(first_token_seconds=10, seconds_per_token=1)
    exchange = DirectEndpoint(Core(Script(timing=timing))).exchange(question(stream=True))
    assert (exchange.first_seconds, exchange.seconds) == (10, 50)
    assert exchange.events[-1] == "[DONE]"


@pytest.mark.parametrize("manners", MANNERS)
def test_a_client_that_goes_away_leaves_its_seat_at_once(manners: str) -> None:
    script = Script(manners=manners, timing=Timing(seconds_per_token=0.05))
    leaving = question(stream=True, max_tokens=1000, ignore_eos=True)
    leaving = Request(method="POST", path=CHAT, body=leaving.body, stream=True, stop_after_events=3)
    with EngineServer(script) as server:
        exchange = HttpEndpoint(server.host, server.port).exchange(leaving)
        assert len(exchange.events) >= 3
        until = time.monotonic() + 10
        while metrics(server)[RUNNING[manners]] and time.monotonic() < until:
            time.sleep(0.02)
        assert metrics(server)[RUNNING[manners]] == 0


def test_seats_are_few_and_others_wait() -> None:
    script = Script(limits=Limits(parallel_requests=1), timing=Timing(first_token_seconds=0.2))
    with EngineServer(script) as server:
        endpoint = HttpEndpoint(server.host, server.port)
        began = time.monotonic()
        threads = [threading.Thread(target=endpoint.exchange, args=(question(),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.monotonic() - began >= 0.6
        assert metrics(server)[RUNNING[LLAMACPP]] == 0


# --- the stream ---


def test_a_stream_is_cut_anywhere_and_is_the_same() -> None:
    delivery = Delivery(seed=5, most_tokens_per_chunk=4, most_writes_per_event=3, comment_rate=0.5)
    plainly = DirectEndpoint(Core(Script())).exchange(question())
    with EngineServer(Script(delivery=delivery)) as server:
        exchange = HttpEndpoint(server.host, server.port).exchange(question(stream=True))
    chunks = [json.loads(event) for event in exchange.events[:-1]]
    words = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks]
    expected = json.loads(plainly.body)["choices"][0]["message"]["content"]
    assert "".join(words) == expected
    assert len(words) < 40


@pytest.mark.parametrize("manners", MANNERS)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses", "/v1/messages"])
def test_other_interfaces_stream_what_they_say(manners: str, path: str) -> None:
    body: dict[str, Plain] = {
        "model": "smollm2",
        "prompt": "The capital of France is",
        "input": "What is 2+2?",
        "messages": [{"role": "user", "content": "What is 2+2?"}],
        "temperature": 0,
        "max_tokens": 60,
    }
    with EngineServer(Script(manners=manners, features=ALL_FEATURES)) as server:
        endpoint = HttpEndpoint(server.host, server.port)
        plain = endpoint.exchange(Request(method="POST", path=path, body=body))
        streamed = endpoint.exchange(
            Request(method="POST", path=path, body={**body, "stream": True}, stream=True)
        )
    assert (plain.status, streamed.status) == (200, 200)
    assert len(streamed.events) > 3
    assert "Paris" in plain.body or "4" in plain.body


# --- what it counts and keeps ---


@pytest.mark.parametrize("manners", MANNERS)
def test_counters_are_what_was_made(manners: str) -> None:
    with EngineServer(Script(manners=manners)) as server:
        before = metrics(server)
        exchange = HttpEndpoint(server.host, server.port).exchange(question())
        after = metrics(server)
    made = json.loads(exchange.body)["usage"]["completion_tokens"]
    name = next(name for name in after if is_made(name))
    assert after[name] - before[name] == made


def is_made(name: str) -> bool:
    return name.endswith(("generation_tokens_total", "tokens_predicted_total"))


@pytest.mark.parametrize("manners", MANNERS)
def test_the_same_prompt_is_found_again(manners: str) -> None:
    endpoint = DirectEndpoint(Core(Script(manners=manners)))
    long = question(messages=[{"role": "user", "content": "word " * 200}])
    cached = [
        json.loads(endpoint.exchange(long).body)["usage"]["prompt_tokens_details"]["cached_tokens"]
        for _ in range(2)
    ]
    assert cached[0] == 0
    assert cached[1] >= 192


def test_what_leaves_the_device_comes_back_from_the_host() -> None:
    cache = PrefixCache(device_tokens=4, host_tokens=8, block_tokens=2)
    first, second = [b"%d" % n for n in range(4)], [b"x%d" % n for n in range(4)]
    cache.keep(first)
    cache.keep(second)
    match = cache.look_up([*first, b"?"])
    assert (match.cached_tokens, match.is_restored) == (4, True)
    cache.clear()
    assert cache.look_up([*first, b"?"]).cached_tokens == 0


# --- what it is asked besides ---


@pytest.mark.parametrize("manners", MANNERS)
def test_it_lists_its_model_as_its_engine_does(manners: str) -> None:
    endpoint = DirectEndpoint(Core(Script(manners=manners)))
    (model,) = json.loads(get(endpoint, "/v1/models").body)["data"]
    assert (model["id"], model["owned_by"]) == ("smollm2", load_manners()[manners].owner)
    context = model["meta"]["n_ctx"] if manners == LLAMACPP else model["max_model_len"]
    assert context == 2048


@pytest.mark.parametrize("manners", MANNERS)
def test_a_key_guards_what_it_guards_there(manners: str) -> None:
    endpoint = DirectEndpoint(Core(Script(manners=manners, api_key="sk-a")))
    rules = load_manners()[manners].manners
    for path in (*rules.health_paths, "/metrics", "/v1/models"):
        expected = 200 if path in rules.open_paths else 401
        assert get(endpoint, path, Key.NONE).status == expected, path
        assert get(endpoint, path, Key.OWN).status == 200
    assert get(endpoint, "/v1/models", Key.WRONG).status == 401


@pytest.mark.parametrize(
    ("manners", "body", "status", "words"),
    [
        (VLLM, {"model": "other"}, 404, "does not exist"),
        (SGLANG, {"model": "other"}, 200, ""),
        (LLAMACPP, {"model": "other"}, 200, ""),
        (VLLM, {"temperature": -1}, 400, "non-negative"),
        (SGLANG, {"temperature": "hot"}, 400, "valid number"),
        (LLAMACPP, {"max_tokens": "many"}, 400, "type must be number"),
        (VLLM, {"messages": "hi"}, 400, "valid list"),
        (SGLANG, {"messages": []}, 400, "cannot be empty"),
    ],
)
def test_it_refuses_what_its_engine_refuses(
    manners: str, body: dict[str, Any], status: int, words: str
) -> None:
    exchange = DirectEndpoint(Core(Script(manners=manners))).exchange(question(**body))
    assert exchange.status == status
    assert words in exchange.body


@pytest.mark.parametrize("manners", MANNERS)
def test_what_is_too_long_is_refused(manners: str) -> None:
    long = question(messages=[{"role": "user", "content": "word " * 3000}])
    exchange = DirectEndpoint(Core(Script(manners=manners))).exchange(long)
    assert exchange.status == 400
    assert "2048" in exchange.body


@pytest.mark.parametrize("manners", MANNERS)
def test_what_is_no_json_is_refused(manners: str) -> None:
    endpoint = DirectEndpoint(Core(Script(manners=manners)))
    exchange = endpoint.exchange(Request(method="POST", path=CHAT, text='{"model": '))
    assert exchange.status == 400
    assert json.loads(exchange.body)


@pytest.mark.parametrize("manners", MANNERS)
def test_numbers_of_tokens_mean_the_same_text(manners: str) -> None:
    endpoint = DirectEndpoint(Core(Script(manners=manners)))
    field = "content" if manners == LLAMACPP else "prompt"
    body: dict[str, Plain] = {"model": "smollm2", field: "The capital of France is"}
    asked = Request(method="POST", path="/tokenize", body=body)
    ids = json.loads(endpoint.exchange(asked).body)["tokens"]
    texts = []
    for prompt in ("The capital of France is", ids):
        body = {"model": "smollm2", "prompt": prompt, "max_tokens": 4, "temperature": 0}
        exchange = endpoint.exchange(Request(method="POST", path="/v1/completions", body=body))
        texts.append(json.loads(exchange.body)["choices"][0]["text"])
    assert texts[0] == texts[1]


# --- faults ---


def test_a_fault_can_be_switched_on_and_off_while_it_runs() -> None:
    with EngineServer() as server:
        endpoint = HttpEndpoint(server.host, server.port)
        server.break_with("no_models")
        assert json.loads(get(endpoint, "/v1/models").body)["data"] == []
        server.break_with()
        assert len(json.loads(get(endpoint, "/v1/models").body)["data"]) == 1


def test_an_unknown_fault_is_an_error() -> None:
    with pytest.raises(KeyError):
        EngineServer(fault="there-is-none")


def test_every_fault_has_one_name_and_half_a_sentence() -> None:
    for name, fault in discover_faults().items():
        assert name == fault.name
        assert name == name.lower()
        assert not fault.title.endswith(".")
