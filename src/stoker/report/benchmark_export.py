"""A benchmark as JSON in the shape that the field's tools read: an object a line for each load.

The keys and units are those of ``vllm bench serve --save-result`` and, where they differ, beside
them those of ``sglang.bench_serving``: milliseconds in the figures, seconds in the lists of single
requests. What both leave open is stated under the key ``stoker``. Where the client was starved the
figures are null, so that no reader takes them for a result.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from math import ceil, floor

from stoker.model.benchmark import Arrival, Benchmark, Objectives, Point, Sample
from stoker.model.facts import Plain
from stoker.report.benchmark_csv import find_e2e_ms, find_span_ms, find_tpot_ms
from stoker.report.benchmark_words import (
    E2E,
    GOOD_SHARE,
    GOODPUT,
    INPUT,
    ITL,
    OUTPUT,
    REQUESTS,
    TPOT,
    TTFT,
    find_figure,
    find_mean,
)

#: Both tools call the interface that Stoker speaks so.
_BACKEND = "openai-chat"
#: A figure, and what the two tools call it.
_LATENCIES = ((TTFT, ("ttft",)), (TPOT, ("tpot",)), (ITL, ("itl",)), (E2E, ("e2el", "e2e_latency")))
_PERCENTILES = ("90", "95", "99")
#: The objectives of which both tools know, and their names for them.
_OBJECTIVES = (("ttft_ms", "ttft"), ("tpot_ms", "tpot"), ("e2e_ms", "e2el"))

Fields = dict[str, Plain]


def render_export(benchmark: Benchmark, samples: Sequence[Sequence[Sample]] = ()) -> str:
    """One line of JSON for each load; with the samples of each also the lists of its requests.

    Those lists are without the warm-up; the drain is in them, so they may be longer than
    ``completed`` says. Texts of answers are not kept, so they are not there.
    """
    lines = []
    for number in range(len(benchmark.points)):
        those = samples[number] if number < len(samples) else ()
        measured = [each for each in those if each.is_measured]
        fields = build_export(benchmark, number, measured)
        lines.append(json.dumps(fields, ensure_ascii=True, allow_nan=False))
    return "".join(f"{line}\n" for line in lines)


def build_export(benchmark: Benchmark, number: int, measured: Sequence[Sample] = ()) -> Fields:
    """The object for one load of a benchmark; ``measured``: its samples without warm-up."""
    point = benchmark.points[number]
    is_result = not point.health.complaints
    fields = {
        **_conditions(benchmark, point),
        **_rates(point),
        **_latencies(point),
        **_by_server(point),
        **_peaks(measured if is_result else ()),
        "rtfx": 0.0,
    }
    if benchmark.objectives != Objectives():
        fields |= _goodput(benchmark.objectives, point, measured if is_result else ())
    fields["stoker"] = _own(benchmark, number)
    return {**fields, **_lists(measured)} if measured and is_result else fields


def _conditions(benchmark: Benchmark, point: Point) -> Fields:
    """What was sent. Neither tool knows a trace at a speed of its own, and no tokenizer is used."""
    load = point.load
    is_open = load.arrival in (Arrival.POISSON, Arrival.CONSTANT)
    rate: Plain = load.rate_per_second if is_open else "inf"
    return {
        "date": _date(benchmark.started),
        "endpoint_type": _BACKEND,
        "backend": _BACKEND,
        "label": benchmark.served.name or None,
        "tag": benchmark.id,
        "model_id": benchmark.served.model,
        "tokenizer_id": None,
        "dataset_name": benchmark.workload.name,
        "num_prompts": point.window.requests + point.window.failed_requests,
        "request_rate": "trace" if load.arrival is Arrival.REPLAY else rate,
        # Of even arrivals it would be infinite, which JSON cannot say.
        "burstiness": None if load.arrival is Arrival.CONSTANT else 1.0,
        "max_concurrency": load.concurrency or None,
        "server_info": None,
    }


def _date(started: str) -> str:
    """A moment as the field writes it: ``20261201-020500``; one that is none stays as it is."""
    try:
        return datetime.fromisoformat(started).strftime("%Y%m%d-%H%M%S")
    except ValueError:
        return started


def _rates(point: Point) -> Fields:
    window = point.window
    completed = window.requests
    tokens_in, tokens_out = find_mean(point, INPUT), find_mean(point, OUTPUT)
    both = None if tokens_in is None or tokens_out is None else tokens_in + tokens_out
    e2e = find_mean(point, E2E)
    busy = None if e2e is None or not window.seconds else e2e / 1000 * completed / window.seconds
    return {
        "duration": window.seconds,
        "completed": completed,
        "failed": window.failed_requests,
        "total_input_tokens": _total(tokens_in, window.seconds),
        "total_output_tokens": _total(tokens_out, window.seconds),
        "request_throughput": find_mean(point, REQUESTS),
        "request_goodput": find_mean(point, GOODPUT),
        "input_throughput": tokens_in,
        "output_throughput": tokens_out,
        "total_token_throughput": both,
        "total_throughput": both,
        "concurrency": busy,
    }


def _total(per_second: float | None, seconds: float) -> int | None:
    return None if per_second is None else round(per_second * seconds)


def _latencies(point: Point) -> Fields:
    fields: Fields = {}
    for name, words in _LATENCIES:
        figure = find_figure(point, name)
        percentiles = {} if figure is None else figure.percentiles
        for word in words:
            fields[f"mean_{word}_ms"] = None if figure is None else figure.mean
            fields[f"median_{word}_ms"] = percentiles.get("50")
            fields[f"std_{word}_ms"] = None if figure is None else figure.deviation
            fields |= {f"p{each}_{word}_ms": percentiles.get(each) for each in _PERCENTILES}
    return fields


def _by_server(point: Point) -> Fields:
    """What the server told of speculation; without any vLLM's tool writes no such key."""
    length = point.server.get("acceptance_length")
    fields: Fields = {"accept_length": length}
    return fields if length is None else {**fields, "spec_decode_acceptance_length": length}


def _goodput(objectives: Objectives, point: Point, measured: Sequence[Sample]) -> Fields:
    """Shares of all requests that were sent, as the field counts attainment."""
    asked = {word: getattr(objectives, name) for name, word in _OBJECTIVES}
    limits = {word: limit for word, limit in asked.items() if limit is not None}
    by_metric = {
        word: sum(_is_kept(each, word, limit) for each in measured) / len(measured)
        for word, limit in limits.items()
        if measured
    }
    return {
        "goodput_slos_ms": limits,
        "slo_attainment": find_mean(point, GOOD_SHARE),
        "slo_attainment_by_metric": by_metric or None,
    }


def _is_kept(sample: Sample, word: str, limit_ms: float) -> bool:
    """Whether a request kept one objective. An answer of one token has no TPOT and keeps any."""
    if not sample.is_good:
        return False
    found = {
        "ttft": find_span_ms(sample, sample.first_seconds),
        "tpot": find_tpot_ms(sample) or 0.0,
        "e2el": find_e2e_ms(sample),
    }[word]
    return found is not None and found <= limit_ms


def _peaks(measured: Sequence[Sample]) -> Fields:
    """The most of one second; null without samples.

    The field counts each event as one token. Here a request's tokens are spread over its events.
    """
    good = [each for each in measured if each.is_good and each.first_seconds is not None]
    if not good:
        return {"max_output_tokens_per_s": None, "max_concurrent_requests": None}
    begin = min(each.sent_seconds for each in good)
    count = ceil(max(each.ended_seconds for each in good) - begin) + 1
    tokens, busy = [0.0] * count, [0] * count
    for each in good:
        for moment, share in _events(each):
            tokens[min(count - 1, max(0, floor(moment - begin)))] += share
        for second in range(
            floor(each.sent_seconds - begin), floor(each.ended_seconds - begin) + 1
        ):
            busy[second] += 1
    return {"max_output_tokens_per_s": max(tokens), "max_concurrent_requests": max(busy)}


def _events(sample: Sample) -> list[tuple[float, float]]:
    """Each event's moment and its part of the tokens."""
    moment = sample.first_seconds or 0.0
    moments = [moment]
    for gap in sample.gaps_us:
        moment += gap / 1e6
        moments.append(moment)
    share = (sample.tokens.output or 0) / len(moments)
    return [(each, share) for each in moments]


def _lists(measured: Sequence[Sample]) -> Fields:
    """A value for each request, in seconds; 0 where there is none, as the field writes it."""
    return {
        "input_lens": [each.tokens.prompt or 0 for each in measured],
        "output_lens": [(each.tokens.output or 0) * each.is_good for each in measured],
        "ttfts": [(find_span_ms(each, each.first_seconds) or 0.0) / 1000 for each in measured],
        "itls": [[gap / 1e6 for gap in each.gaps_us] for each in measured],
        "latencies": [(find_e2e_ms(each) or 0.0) / 1000 for each in measured],
        "start_times": [each.sent_seconds for each in measured],
        "queue_times": [max(0.0, each.sent_seconds - each.due_seconds) for each in measured],
        "cached_tokens": [each.tokens.cached or 0 for each in measured],
        "errors": [each.error for each in measured],
    }


def _own(benchmark: Benchmark, number: int) -> Fields:
    """What neither tool states."""
    point, served = benchmark.points[number], benchmark.served
    window = point.window
    return {
        "schema": benchmark.SCHEMA,
        "benchmark": benchmark.id,
        "point": number,
        "url": served.url,
        "engine": served.engine,
        "release": served.release,
        "digest": served.digest,
        "verified": served.verified,
        "arrival": point.load.arrival.value,
        "seed": benchmark.seed,
        "tokens_counted_by": "the server's usage",
        "left_out": {
            "warmup_seconds": window.warmup_seconds,
            "warmup_requests": window.warmup_requests,
            "drain_seconds": window.drain_seconds,
            "drain_requests": window.drain_requests,
        },
        "was_interrupted": point.was_interrupted,
        "complaints": list(point.health.complaints),
        "server": dict(point.server),
        "notes": [*point.notes, *benchmark.notes],
    }
