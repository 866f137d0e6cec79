"""Measuring a server as the command does it: found, refused, loaded, kept and compared."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from stoker.bench import load_failures
from stoker.bench.load_values import Patience, Ran
from stoker.commands.bench import Benched, BenchWish, bench
from stoker.commands.bench_kept import compare_kept, list_kept, read_kept
from stoker.commands.bench_metrics import WatchedMetrics, tell_metrics
from stoker.commands.bench_notes import make_notes
from stoker.commands.bench_server import Which
from stoker.commands.bench_traffic import TrafficWish, plan_moments
from stoker.errors import ContractFailed, HostError, NoSpace, UsageError
from stoker.fake_engine.script import Limits, Script, Timing
from stoker.fake_engine.server import EngineServer
from stoker.model.benchmark import Arrival, Load, Objectives, Point, Sample, Window
from tests.bench.servers import body, chunked, identity, scripted, status
from tests.laws.worlds import ListReporter, Machine

pytestmark = pytest.mark.timeout(60)

FEW = (Load(concurrency=2, requests=4, warmup_requests=1),)
TRAFFIC = TrafficWish(prompt_tokens=20, output_tokens=4)


def wish(url: str, loads: tuple[Load, ...] = FEW, **fields: Any) -> BenchWish:
    which = Which(
        target=url,
        is_unverified=fields.pop("is_unverified", True),
        key_file=fields.pop("key_file", ""),
        published_name=fields.pop("published_name", ""),
    )
    return BenchWish(
        which=which,
        traffic=fields.pop("traffic", TRAFFIC),
        loads=loads,
        patience=Patience(request_seconds=10.0, drain_seconds=1.0),
        **fields,
    )


def measured(url: str, loads: tuple[Load, ...] = FEW, **fields: Any) -> Benched:
    world = fields.pop("world", None) or Machine().world()
    return bench(world, wish(url, loads, **fields))


# --- measured ---


def test_a_sweep_is_measured_and_kept() -> None:
    world = Machine().world()
    loads = (FEW[0], replace(FEW[0], concurrency=3))
    with EngineServer(Script(manners="vllm")) as server:
        done = measured(server.url, loads, world=world, objectives=Objectives(ttft_ms=10_000))
        later = measured(server.url, loads, world=world)
    found = done.benchmark
    assert [point.load.concurrency for point in found.points] == [2, 3]
    assert all(point.window.requests for point in found.points)
    assert all(not point.errors for point in found.points)
    assert [len(samples) for samples in done.samples] == [5, 5]
    assert (done.has_failed, done.was_interrupted) == (False, False)
    assert (found.served.url, found.served.verified) == (server.url, "")
    assert found.served.engine == "vllm"
    assert "running_requests" in found.points[0].server or found.points[0].server
    goodput = found.points[0].find("goodput_share")
    assert goodput is not None
    assert goodput.mean == 1.0

    kept, samples = read_kept(world, found.id)
    assert kept == found
    assert [len(each) for each in samples] == [5, 5]
    assert {each.id for each in list_kept(world, server.url).benchmarks} == {
        found.id,
        later.benchmark.id,
    }
    assert list_kept(world, "http://127.0.0.1:1").benchmarks == ()
    assert compare_kept(world, found.id, later.benchmark.id).a == found.id


def test_the_same_seed_sends_the_same_requests() -> None:
    asked = []
    for seed in (1, 1, 2):
        with EngineServer() as server:
            measured(server.url, traffic=replace(TRAFFIC, seed=seed))
            asked.append(
                sorted(repr(each.body) for each in server.asked if each.path.endswith("ons"))
            )
    assert asked[0] == asked[1] != asked[2]


@pytest.mark.parametrize("arrival", [Arrival.POISSON, Arrival.CONSTANT])
def test_an_open_loop(arrival: Arrival) -> None:
    load = Load(arrival=arrival, concurrency=0, rate_per_second=50, requests=8)
    with EngineServer() as server:
        done = measured(server.url, (load,))
    assert len(done.samples[0]) == 8
    due = [sample.due_seconds for sample in done.samples[0]]
    expected = list(itertools.islice(plan_moments(load, seed=0), 8))
    assert due == pytest.approx(expected, abs=1e-6)


def test_progress_is_told() -> None:
    world = Machine().world()
    with EngineServer(Script(timing=Timing(seconds_per_token=0.01))) as server:
        measured(server.url, (Load(concurrency=1, seconds=1.2),), world=world)
    assert isinstance(world.reporter, ListReporter)
    texts = [event.text for event in world.reporter.events]
    assert any("measuring 1 at once: " in text and "events/s" in text for text in texts)


def test_a_server_that_tells_no_usage() -> None:
    with scripted(chunked(body(3, has_usage=False))) as url:
        done = measured(url)
    (point,) = done.benchmark.points
    assert point.find("output_throughput") is None
    assert point.find("events_throughput") is not None
    assert any("told no usage" in note for note in point.notes)
    assert not done.has_failed


def test_warm_up_alone_says_what_to_do() -> None:
    with scripted(chunked(body())) as url:
        endless = Load(concurrency=2, requests=1, warmup_requests=1 << 20, seconds=0.3)
        done = measured(url, (endless,))
    assert done.lacks_result
    assert any("measure longer (--for)" in note for note in done.benchmark.points[0].notes)


# --- refused ---


def test_a_server_that_breaks_its_contract_is_refused_unless_insisted() -> None:
    with EngineServer(fault="no_done") as server:
        with pytest.raises(ContractFailed) as caught:
            measured(server.url, is_unverified=False)
        assert "breaks its contract, so its speed says nothing" in caught.value.summary
        assert "--unverified" in caught.value.hint
        done = measured(server.url)
    assert done.benchmark.served.verified == ""
    assert done.benchmark.points


def test_a_server_that_keeps_it_is_verified() -> None:
    with EngineServer() as server:
        done = measured(server.url, is_unverified=False)
    assert done.benchmark.served.verified


def test_a_workload_longer_than_the_context_is_refused_before_anything_is_asked() -> None:
    with EngineServer(Script(limits=Limits(context_tokens=256))) as server:
        with pytest.raises(UsageError, match="the server's context holds 256"):
            measured(server.url, traffic=replace(TRAFFIC, prompt_tokens=500), is_unverified=False)
        assert not [each for each in server.asked if "completions" in each.path]


def test_a_wrong_model_name() -> None:
    with EngineServer(Script(manners="vllm")) as server, pytest.raises(UsageError) as caught:
        measured(server.url, published_name="nobody")
    assert "nobody" in caught.value.summary
    assert "--published-name" in caught.value.hint


def test_a_server_that_wants_a_key() -> None:
    with EngineServer(Script(api_key="sk-right")) as server:
        with pytest.raises(UsageError) as caught:
            measured(server.url)
        assert "--key-file" in caught.value.hint
        machine = Machine()
        machine.host.put("/root/right", "sk-right\n", mode=0o600)
        done = measured(server.url, key_file="/root/right", world=machine.world())
        assert not done.benchmark.points[0].errors
        for path in machine.host.list_folder(f"{machine.world().folders.state}/benchmarks"):
            text = machine.host.read_text(
                f"{machine.world().folders.state}/benchmarks/{path}", 1 << 20
            )
            assert "sk-right" not in text


@pytest.mark.parametrize(
    "load",
    [
        Load(concurrency=0, seconds=1),
        Load(concurrency=1),
        Load(concurrency=1, requests=-1),
        Load(arrival=Arrival.POISSON, seconds=1),
    ],
)
def test_loads_that_are_none(load: Load) -> None:
    with pytest.raises(UsageError):
        measured("http://127.0.0.1:9", (load,))


def test_nobody_is_there() -> None:
    with pytest.raises(UsageError, match="cannot be reached"):
        measured("http://127.0.0.1:9")


# --- failing in the middle ---


def test_a_server_that_dies_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_failures, "_GIVE_UP_SECONDS", 0.3)
    world = Machine().world()
    with scripted(*(chunked(body()),) * 12, dies=True) as url:
        loads = (Load(concurrency=1, requests=6), Load(concurrency=2, seconds=60))
        done = measured(url, (*loads, Load(concurrency=4, seconds=60)), world=world)
    assert done.has_failed
    assert [point.window.requests > 0 for point in done.benchmark.points] == [True, True]
    assert done.benchmark.points[0].errors == {}
    assert any("ended early: nothing but errors" in n for n in done.benchmark.points[1].notes)
    assert read_kept(world, done.benchmark.id)[0] == done.benchmark


def test_a_limit_is_said_with_what_to_do() -> None:
    slow = status("429 Slow", b'{"error": "easy"}', "Retry-After: 1")
    with scripted(chunked(body()), slow) as url:
        done = measured(url, (Load(concurrency=2, seconds=0.5),))
    (point,) = done.benchmark.points
    assert point.errors["HTTP status 429: easy"] >= 1
    (note,) = [note for note in point.notes if "limits requests" in note]
    assert "asked to wait 1 s" in note
    assert "ask for fewer at once or at a lower rate" in note


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (identity(b"<html>no"), "the answer is no stream of events but a web page"),
        (status("401 No", b"no"), "HTTP status 401: no"),
        (b"nonsense\r\n\r\n", "the server broke HTTP"),
    ],
)
def test_nothing_but_errors_is_no_result(reply: bytes, error: str) -> None:
    with scripted(reply) as url:
        done = measured(url, (Load(concurrency=2, seconds=30), Load(concurrency=4, seconds=30)))
    assert done.has_failed
    assert done.lacks_result
    (point,) = done.benchmark.points  # the second load was not tried
    assert all(error in each for each in point.errors)


def test_errors_that_are_all_different_are_bounded() -> None:
    replies = [status("500 No", b"request %d" % number) for number in range(40)]
    mixed = [reply for each in replies for reply in (each, chunked(body()))]
    with scripted(*mixed) as url:
        load = Load(arrival=Arrival.CONSTANT, concurrency=0, rate_per_second=500, requests=80)
        done = measured(url, (load,))
    errors = done.benchmark.points[0].errors
    assert len(errors) == 21
    assert sum(errors.values()) == 40
    assert errors["other errors"] == 20


def test_a_key_that_a_server_repeats_is_hidden() -> None:
    machine = Machine()
    machine.host.put("/root/own", "sk-own\n", mode=0o600)
    with scripted(status("500 No", b'{"error": "sk-own is no key of mine"}')) as url:
        done = measured(url, key_file="/root/own", world=machine.world())
    assert set(done.benchmark.points[0].errors) == {"HTTP status 500: [hidden] is no key of mine"}


@pytest.mark.parametrize("error", [NoSpace("the disk is full"), HostError("it is read-only")])
def test_what_cannot_be_kept_is_shown_all_the_same(error: HostError) -> None:
    machine = Machine()
    write = machine.host.write_file

    def refuse(path: str, content: bytes, mode: int, *args: Any, **more: Any) -> None:
        if "/benchmarks/" in path:
            raise error
        write(path, content, mode, *args, **more)

    machine.host.write_file = refuse  # type: ignore[method-assign]
    with scripted(chunked(body())) as url:
        done = measured(url, world=machine.world())
    assert done.kept == ""
    assert done.benchmark.points[0].window.requests
    assert done.benchmark.notes.count(f"the result is not kept: {error.summary}") == 1


# --- words and metrics ---


def point(**fields: Any) -> Point:
    return Point(load=Load(), window=Window(seconds=1.0, requests=3), figures=(), **fields)


def ran(**fields: Any) -> Ran:
    sample = Sample(number=0, due_seconds=0, sent_seconds=0, ended_seconds=1)
    known = {"stopped_seconds": 1.0, "ended_seconds": 1.0, "lags_seconds": (), "busy_share": 0.1}
    return Ran(samples=(sample,), **{**known, **fields})


def test_notes() -> None:
    assert list(make_notes(point(), ran())) == []
    assert list(make_notes(point(), ran(said="ended early: x"))) == ["1 at once ended early: x"]
    assert list(make_notes(point(), ran(said="x", was_interrupted=True))) == []
    (note,) = make_notes(point(errors={"HTTP status 404: no such model": 3}), ran())
    assert "--published-name" in note


def test_metrics_of_a_server_that_was_started_again_are_not_told() -> None:
    name = "vllm:num_preemptions_total"
    watched = WatchedMetrics(before=f"{name} 9\n", between=[], after=f"{name} 2\n")
    assert tell_metrics(watched, "vllm") == {}
    watched.after = f"{name} 11\n"
    assert tell_metrics(watched, "vllm") == {"preemptions": 2.0}


def test_gauges_and_shares() -> None:
    watched = WatchedMetrics(
        before="vllm:prefix_cache_hits_total 0\nvllm:prefix_cache_queries_total 100\n",
        between=["vllm:num_requests_running 2\n", "", "vllm:num_requests_running 4\n"],
        after="vllm:prefix_cache_hits_total 25\nvllm:prefix_cache_queries_total 200\n",
    )
    told = tell_metrics(watched, "vllm")
    assert told["cache_hit_share"] == 0.25
    assert (told["running_requests"], told["running_requests_most"]) == (3.0, 4.0)


def test_a_verification_that_was_interrupted_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """What had passed when the signal came must not stand as "verified"."""
    from stoker.commands import trial

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with EngineServer(Script(manners="vllm")) as server:
        monkeypatch.setattr(trial, "verify", interrupt)
        with pytest.raises(KeyboardInterrupt):
            measured(server.url, is_unverified=False)
