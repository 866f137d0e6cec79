"""Each engine: planned, started, read, verified, stopped; in this order."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from stoker.engines.phases import read_phase
from stoker.knowledge.engines import load_engine_table
from tests.engines_real.conftest import Case
from tests.system.runner import Stoker

#: What every start goes through, in this order; others may lie between.
_ORDER = ("starting", "loading-weights", "allocating", "warming-up")
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]


@pytest.fixture(scope="session")
def planned(running: Stoker) -> Any:
    """The plan of the deployment on an empty machine."""
    return running.succeed("plan", "real.yaml", "--json").document


@pytest.fixture(scope="session")
def applied(running: Stoker, planned: Any) -> list[Any]:
    """The events of the apply that follows it."""
    result = running.succeed("apply", "real.yaml", "--json")
    return [json.loads(line) for line in result.stderr.splitlines()]


@pytest.fixture(scope="session")
def log(running: Stoker, applied: list[Any]) -> list[str]:
    """What the engine wrote."""
    (path,) = (running.state / "logs").glob("real.log")
    return path.read_text("utf-8", "replace").replace("\r", "\n").splitlines()


def test_it_starts_with_what_the_plan_rendered(
    running: Stoker, planned: Any, applied: list[Any]
) -> None:
    argv = planned["launch"]["argv"]
    command_lines = [process.argv for process in running.stamped()]
    # A script is run by its interpreter, which stands before it.
    assert any(list(words[-len(argv) + 1 :]) == argv[1:] for words in command_lines)
    assert not [finding for finding in planned["findings"] if finding.get("blocks")]


def test_it_is_verified(running: Stoker, applied: list[Any]) -> None:
    status = running.status()
    assert (status["phase"], status["verified"]) == ("ready", True)
    results = running.succeed("verify", "--json").document["results"]
    verdicts = {result["check"]: result["verdict"] for result in results}
    assert verdicts.pop("reasoning_separated") == "skipped"  # the model shows no thoughts
    assert set(verdicts.values()) == {"passed"}, results


def test_its_phases_come_in_order(case: Case, log: list[str]) -> None:
    table = load_engine_table(case.kind)
    seen = [
        phase.phase
        for line in log
        if (phase := read_phase([line], table)).title != phase.phase or phase.phase != "starting"
    ]
    places = [seen.index(phase) if phase in seen else -1 for phase in _ORDER]
    assert -1 not in places, seen
    assert places == sorted(places), seen
    assert "failed" not in seen


def test_it_resolved_what_was_planned(case: Case, running: Stoker, applied: list[Any]) -> None:
    found = running.succeed("resolved", "--json").document
    values = {name: value["value"] for name, value in found["values"].items()}
    assert {name: values.get(name) for name in case.resolved} == case.resolved
    assert values["kv_tokens"] >= values["context_tokens"]
    if case.kind != "sglang":  # where there is no GPU it measures what the whole machine has free
        assert values["weight_bytes"] > 50 << 20
    assert values["kv_bytes"] > 0
    assert found["phase"] in ("warming-up", "listening")
    assert "real" not in running.succeed("resolved").stderr


def test_only_the_key_opens_and_no_word_holds_it(
    running: Stoker, key: Path, applied: list[Any]
) -> None:
    word = key.read_text().strip()
    url = running.status()["url"]
    assert ask(url, key=None) is None
    assert ask(url, key="wrong") is None
    assert ask(url, key=word)
    for process in running.stamped():
        assert word not in " ".join(process.argv)
    assert word not in running.text_of("logs")


def test_it_calls_a_tool(running: Stoker, key: Path, applied: list[Any]) -> None:
    shots: list[dict[str, Any]] = []
    for city in ("Rome", "Berlin", "Oslo", "Madrid"):
        arguments = json.dumps({"city": city})
        call = {"name": "get_weather", "arguments": arguments}
        shots += [
            {"role": "user", "content": f"What is the weather in {city}?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": f"call-{city}", "type": "function", "function": call}],
            },
        ]
    messages = [*shots, {"role": "user", "content": "What is the weather in Paris?"}]
    reply = ask(
        running.status()["url"],
        key=key.read_text().strip(),
        messages=messages,
        tools=_TOOLS,
        max_tokens=60,
    )
    assert reply is not None
    (call,) = reply["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert set(json.loads(call["function"]["arguments"])) == {"city"}


def test_a_plan_after_it_is_empty_and_it_stops(running: Stoker, applied: list[Any]) -> None:
    plan = running.succeed("plan", "real.yaml", "--json").document
    assert plan["changes"] == []
    assert plan["activations"] == []
    running.succeed("down")
    assert not running.stamped()


def ask(url: str, *, key: str | None, **changes: Any) -> Any:
    """A chat request: the answer, or None where it is refused."""
    body = {
        "model": "real-model",
        "messages": [{"role": "user", "content": "What is 2+2?"}],
        "max_tokens": 8,
        "temperature": 0,
        **changes,
    }
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(
        f"{url.removesuffix('/v1')}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers=headers,
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise AssertionError(error.read()) from error
        return None
