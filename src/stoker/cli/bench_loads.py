"""The options of `stoker bench` as loads: which at once, at which rate, for how long."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from stoker.errors import UsageError
from stoker.model.benchmark import Arrival, Load, Objectives
from stoker.model.facts import Plain

Number = TypeVar("Number", int, float)

DEFAULT_CONCURRENCY, DEFAULT_SECONDS = 8, 30.0
#: More places than this are more connections than a machine usually gives one process.
_MOST_CONCURRENCY = 16384


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options as they were written."""

    concurrency: str | None = None
    rate: str | None = None
    is_constant: bool = False
    replay: float | None = None
    seconds: str | None = None
    requests: int | None = None
    warmup: int | None = None


def make_loads(asked: Asked) -> tuple[Load, ...]:
    """The loads of a sweep, in their order. Raises UsageError."""
    kinds = (asked.rate is not None) + (asked.replay is not None)
    if kinds > 1:
        raise UsageError("--rate and --replay are two ways to send", "give one of them")
    if asked.is_constant and asked.rate is None:
        raise UsageError("--constant says how --rate is meant", "give --rate too")
    if asked.replay is not None and not 0 < asked.replay < math.inf:
        raise UsageError(
            f"--replay takes a speed above 0, not {asked.replay:g}", "--replay 1 is as recorded"
        )
    seconds = _parse_seconds(asked.seconds)
    requests = asked.requests or 0
    if asked.replay is not None:
        most = _counts(_given(asked.concurrency, "0"), least=0)
        return tuple(
            Load(
                arrival=Arrival.REPLAY,
                concurrency=count,
                requests=requests,
                seconds=seconds,
                warmup_requests=asked.warmup or 0,
                speed=asked.replay,
            )
            for count in most
        )
    if not seconds and not requests:
        seconds = DEFAULT_SECONDS
    if asked.rate is not None:
        rates = _numbers(asked.rate, float, "--rate takes requests a second, such as 0.5,2,8")
        if any(not 0 < rate < math.inf for rate in rates):
            raise UsageError("--rate takes requests a second above 0", "--rate 0.5,2,8")
        arrival = Arrival.CONSTANT if asked.is_constant else Arrival.POISSON
        bounds = _counts(_given(asked.concurrency, "0"), least=0)
        if len(bounds) > 1:
            raise UsageError(
                "with --rate, --concurrency is the most at once, one number for all rates",
                "sweep one of them at a time",
            )
        return tuple(
            Load(
                arrival=arrival,
                concurrency=bounds[0],
                rate_per_second=rate,
                requests=requests,
                seconds=seconds,
                warmup_requests=asked.warmup or 0,
            )
            for rate in rates
        )
    return tuple(
        Load(
            concurrency=count,
            requests=requests,
            seconds=seconds,
            warmup_requests=count if asked.warmup is None else asked.warmup,
        )
        for count in _counts(_given(asked.concurrency, str(DEFAULT_CONCURRENCY)), least=1)
    )


def _given(text: str | None, usual: str) -> str:
    return usual if text is None else text


def _parse_seconds(text: str | None) -> float:
    if text is None:
        return 0.0
    from stoker.commands.soaking import parse_duration

    return parse_duration(text)


def make_objectives(*, ttft: float | None, tpot: float | None, e2e: float | None) -> Objectives:
    """What a request must keep, in milliseconds. Raises UsageError."""
    for option, value in (("--ttft", ttft), ("--tpot", tpot), ("--e2e", e2e)):
        if value is not None and not 0 < value < math.inf:
            raise UsageError(
                f"{option} takes milliseconds above 0, not {value:g}",
                f"{option} 500 is half a second",
            )
    return Objectives(ttft_ms=ttft, tpot_ms=tpot, e2e_ms=e2e)


def parse_counts(text: str) -> tuple[int, ...]:
    """Numbers of requests at once, such as ``1,8``. Raises UsageError."""
    return _counts(text, least=1)


def parse_body(text: str | None) -> Mapping[str, Plain]:
    """The fields of `--body`. Raises UsageError."""
    if not text:
        return {}
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise UsageError(f"--body is no JSON: {error}", "--body '{\"temperature\": 1}'") from error
    if not isinstance(found, dict):
        raise UsageError("--body is no JSON object", "--body '{\"temperature\": 1}'")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _counts(text: str, *, least: int) -> tuple[int, ...]:
    hint = f"--concurrency takes whole numbers from {least} to {_MOST_CONCURRENCY}, such as 1,8,32"
    found = _numbers(text, int, hint)
    if any(not least <= count <= _MOST_CONCURRENCY for count in found):
        raise UsageError(f"{text} is out of range", hint)
    return found


def _numbers(text: str, kind: Callable[[str], Number], hint: str) -> tuple[Number, ...]:
    try:
        return tuple(dict.fromkeys(kind(word) for word in text.split(",")))
    except ValueError as error:
        raise UsageError(f"{text} is no list of numbers", hint) from error
