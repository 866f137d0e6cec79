"""Benchmarks as they might be measured: one point or a sweep, with requests that agree."""

from __future__ import annotations

from stoker.model.benchmark import (
    Arrival,
    Benchmark,
    ClientHealth,
    Figure,
    Lengths,
    Load,
    Objectives,
    Point,
    Sample,
    Served,
    TokenCount,
    Window,
    Workload,
)

WORKLOAD = Workload(
    name="chat",
    title="questions of a chat",
    prompt_tokens=Lengths(median=256),
    output_tokens=Lengths(median=128),
)
SERVED = Served(
    url="http://127.0.0.1:30000",
    model="acme/large",
    name="kimi",
    engine="sglang",
    release="0.5.23",
    digest="ab" * 32,
    settings={"max-running-requests": 64},
    verified="2026-12-01T02:00:00Z",
)


def latency(name: str, mean: float, *, count: int = 200) -> Figure:
    """A figure in milliseconds with percentiles and intervals around its mean."""
    percentiles = {"50": mean * 0.95, "90": mean * 1.4, "95": mean * 1.6, "99": mean * 2.2}
    return Figure(
        name=name,
        unit="ms",
        count=count,
        mean=mean,
        deviation=mean * 0.3,
        low=mean * 0.97,
        high=mean * 1.03,
        percentiles=percentiles,
        intervals={key: (value * 0.95, value * 1.05) for key, value in percentiles.items()},
    )


def rate(name: str, value: float, unit: str, *, count: int = 200) -> Figure:
    """A rate with an interval of 2 % to both sides."""
    return Figure(
        name=name,
        unit=unit,
        count=count,
        mean=value,
        low=value * 0.98,
        high=value * 1.02,
        batches=(value * 0.99, value * 1.01),
    )


def figures(concurrency: int) -> tuple[Figure, ...]:
    """What a server that saturates slowly would show."""
    output = 6000 * concurrency / (concurrency + 24)
    itl = 1000 * concurrency / output
    return (
        latency("ttft", 40 + 3.5 * concurrency),
        latency("tpot", itl * 1.02),
        latency("itl", itl, count=25_000),
        latency("e2e", 40 + 3.5 * concurrency + 127 * itl),
        rate("output_throughput", output, "tokens/s"),
        rate("input_throughput", output * 2, "tokens/s"),
        rate("total_throughput", output * 3, "tokens/s"),
        rate("request_throughput", output / 128, "requests/s"),
        rate("goodput", output / 160, "requests/s"),
        Figure(name="goodput_share", unit="share", count=200, mean=0.8),
        Figure(name="prompt_tokens", unit="tokens", count=200, mean=256.0),
        Figure(name="output_tokens", unit="tokens", count=200, mean=128.0),
        Figure(name="cached_share", unit="share", count=200, mean=0.5),
    )


def point(
    concurrency: int = 8,
    *,
    load: Load | None = None,
    found: tuple[Figure, ...] | None = None,
    health: ClientHealth | None = None,
    failed: int = 0,
    was_interrupted: bool = False,
) -> Point:
    """A closed load of 200 measured requests."""
    return Point(
        load=load or Load(concurrency=concurrency, requests=200, warmup_requests=concurrency),
        window=Window(
            seconds=30.0,
            warmup_seconds=2.5,
            drain_seconds=1.25,
            requests=200,
            warmup_requests=concurrency,
            drain_requests=concurrency,
            failed_requests=failed,
        ),
        figures=figures(concurrency) if found is None else found,
        health=health or ClientHealth(lag_p99_ms=0.4, busy_share=0.12),
        errors={"the server closed the connection": failed} if failed else {},
        was_interrupted=was_interrupted,
    )


def poisson(per_second: float) -> Load:
    """An open load."""
    return Load(arrival=Arrival.POISSON, concurrency=0, rate_per_second=per_second, seconds=60)


def benchmark(
    *points: Point, name: str = "20261201-020500-a1b2", served: Served = SERVED
) -> Benchmark:
    """What was measured; one point where none is given."""
    return Benchmark(
        id=name,
        started="2026-12-01T02:05:00Z",
        served=served,
        workload=WORKLOAD,
        points=points or (point(),),
        objectives=Objectives(ttft_ms=500, tpot_ms=30),
        seed=7,
        client="stoker 0.4",
    )


def sample(number: int = 0, *, error: str = "", is_measured: bool = True) -> Sample:
    """A request of five tokens in four events."""
    if error:
        return Sample(
            number=number,
            due_seconds=number * 0.1,
            sent_seconds=number * 0.1,
            ended_seconds=number * 0.1 + 0.02,
            status=500,
            error=error,
            is_measured=is_measured,
        )
    sent = number * 0.1
    return Sample(
        number=number,
        session=number % 3,
        due_seconds=sent,
        sent_seconds=sent + 0.001,
        first_seconds=sent + 0.101,
        last_seconds=sent + 0.141,
        ended_seconds=sent + 0.142,
        gaps_us=(10_000, 20_000, 10_000),
        tokens=TokenCount(prompt=256, output=5, cached=128, asked=5),
        status=200,
        is_measured=is_measured,
    )
