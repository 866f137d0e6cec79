"""What is sent to a server under measurement: a workload that comes with Stoker, or one's own.

Called by :mod:`stoker.commands.bench`. Which workloads there are is knowledge; prompts are made
without a tokenizer, so the server is asked first what it makes of our words. A workload that the
server's context cannot hold is refused before anything is sent.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from stoker.bench.prompts import USUAL_TOKENS_PER_WORD, calibrate
from stoker.bench.requests import Planned, judge_lengths, plan_calibration, plan_requests
from stoker.bench.trace import (
    Recorded,
    describe_workload,
    judge_recorded,
    plan_recorded,
    read_requests,
)
from stoker.commands.bench_url import Server
from stoker.contract.reply import describe_status
from stoker.errors import DataError, UsageError
from stoker.knowledge.workloads import load_workloads, parse_workload, whole_length_fields
from stoker.model.benchmark import Arrival, Lengths, Load, Workload
from stoker.model.contract import Exchange, Feature, Offer, Request
from stoker.model.facts import Plain

_LIMIT_BYTES = 1 << 16
_CALIBRATION_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficWish:
    """``workload``: a name, or a file of one's own (.toml, .jsonl). ``prompt_tokens`` and
    ``output_tokens`` replace its lengths. ``extra``: fields of every request's body."""

    workload: str = "chat"
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    extra: Mapping[str, Plain] = field(default_factory=dict)
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """A workload that is ready to be sent. ``recorded``: the user's own requests."""

    workload: Workload
    wish: TrafficWish
    recorded: Recorded | None = None
    notes: tuple[str, ...] = ()


def choose_traffic(wish: TrafficWish) -> Traffic:
    """The workload by its name or from a file. Raises UsageError."""
    known = load_workloads()
    if wish.workload in known:
        return Traffic(workload=_fitted(known[wish.workload], wish), wish=wish)
    if not os.path.exists(wish.workload):
        raise UsageError(
            f"there is no workload {wish.workload}, neither one that comes with Stoker nor a file",
            f"there are: {', '.join(sorted(known))}; or name a .toml or .jsonl file of your own",
        )
    name = os.path.basename(wish.workload)
    if name.endswith(".toml"):
        return Traffic(workload=_fitted(_read_own(wish.workload, name), wish), wish=wish)
    if wish.prompt_tokens or wish.output_tokens:
        raise UsageError(
            f"{name} says itself what is sent", "leave --prompt-tokens and --output-tokens out"
        )
    try:
        with open(wish.workload, "rb") as stream:
            recorded = read_requests(stream, name=name)
    except OSError as error:
        raise UsageError(f"{wish.workload} cannot be read: {error.strerror}") from error
    notes = (f"only the first {len(recorded.lines):,} requests of {name} are sent",)
    return Traffic(
        workload=describe_workload(recorded),
        wish=wish,
        recorded=recorded,
        notes=notes if recorded.is_cut else (),
    )


def check_traffic(traffic: Traffic, server: Server, loads: tuple[Load, ...]) -> None:
    """Refuse what cannot be sent to this server. Raises UsageError."""
    context_tokens = server.subject.context_tokens
    if traffic.recorded is None:
        problem = judge_lengths(traffic.workload, context_tokens)
    else:
        problem = judge_recorded(traffic.recorded, context_tokens)
    if problem:
        raise UsageError(problem)
    is_trace = traffic.recorded is not None and traffic.recorded.is_trace
    for load in loads:
        if load.arrival is Arrival.REPLAY and not is_trace:
            raise UsageError(
                f"{traffic.workload.name} says not when its requests were sent",
                "a trace has a timestamp or timestamp_ms in each line",
            )


def calibrate_words(traffic: Traffic, server: Server) -> tuple[float, tuple[str, ...]]:
    """The tokens of a word by this server's own usage, and a note where it tells none.

    It sends two requests with answers of one token. Raises UsageError where the server lets none
    in, or knows no such model.
    """
    needs = traffic.recorded is None or any(line.prompt_tokens for line in traffic.recorded.lines)
    if not needs:
        return USUAL_TOKENS_PER_WORD, ()
    workload = traffic.workload if traffic.recorded is None else load_workloads()["chat"]
    asked = plan_calibration(
        workload,
        model=server.served.model,
        rng=random.Random(traffic.wish.seed + 1),
        extra=traffic.wish.extra,
        words=_calibration_words(server.subject.context_tokens),
    )
    words, told = [], []
    for each in asked:
        body = {**json.loads(each.planned.body), "stream": False}
        del body["stream_options"]
        reply = server.endpoint.exchange(
            Request(
                method="POST",
                path=each.planned.path,
                body=body,
                timeout_seconds=_CALIBRATION_SECONDS,
            )
        )
        _refuse_strangers(server, reply)
        tokens = _prompt_tokens(reply.body) if reply.status == 200 and not reply.error else None
        if tokens is not None:
            words.append(each.words)
            told.append(tokens)
    found = calibrate(words, told) if words else None
    if found is None:
        note = (
            f"the server does not tell its tokens of a prompt as expected: prompts have about "
            f"{USUAL_TOKENS_PER_WORD:g} tokens a word"
        )
        return USUAL_TOKENS_PER_WORD, (note,)
    return found.tokens_per_word, ()


def _refuse_strangers(server: Server, reply: Exchange) -> None:
    """A whole load would be refused like this one request."""
    url, said = server.served.url, describe_status(reply)
    if reply.status in (401, 403):
        raise UsageError(
            f"{url} wants an API key: it answers {said}",
            "for a URL, give the right one in a file: --key-file FILE",
        )
    if reply.status == 404:
        raise UsageError(
            f"{url} does not answer a chat with {server.served.model}: {said}",
            "for a URL, --published-name says which model is meant",
        )


def plan_traffic(
    traffic: Traffic, server: Server, load: Load, *, tokens_per_word: float, number: int = 0
) -> Iterator[Planned]:
    """The requests of one load. ``number`` of the load in its sweep: each begins with texts of its
    own, so that none finds what the one before it left in the server's cache."""
    # Any whole number seeds the same generator everywhere.
    chance = random.Random(traffic.wish.seed * 1_000_003 + number)
    whole_length = whole_length_fields(server.served.engine)
    extra = {**_without_calls(traffic, server), **traffic.wish.extra}
    if traffic.recorded is not None:
        return plan_recorded(
            traffic.recorded,
            model=server.served.model,
            rng=chance,
            tokens_per_word=tokens_per_word,
            extra=extra,
            whole_length=whole_length,
            speed=load.speed,
        )
    return plan_requests(
        traffic.workload,
        model=server.served.model,
        rng=chance,
        tokens_per_word=tokens_per_word,
        extra=extra,
        whole_length=whole_length,
    )


def _without_calls(traffic: Traffic, server: Server) -> Mapping[str, Plain]:
    """A server without tools refuses a request that offers some, unless none may be called."""
    offered = server.subject.features.get(Feature.TOOLS)
    is_absent = offered is not None and offered.offer is Offer.ABSENT
    is_loop = traffic.workload.shape == "tool_loop"
    return {"tool_choice": "none"} if is_loop and is_absent else {}


def plan_moments(load: Load, *, seed: int, number: int = 0) -> Iterator[float]:
    """The seconds at which requests of an open loop are due, without end."""
    chance = random.Random(seed * 1_000_003 + number + 500_000)
    moment = 0.0
    while True:
        yield moment
        gap = 1.0 / load.rate_per_second
        moment += chance.expovariate(1.0) * gap if load.arrival is Arrival.POISSON else gap


def _calibration_words(context_tokens: int | None) -> tuple[int, int]:
    """Two lengths that fit into the context with room for the template."""
    most = 512 if context_tokens is None else max(min(512, context_tokens // 8), 16)
    return max(most // 16, 8), most


def _fitted(workload: Workload, wish: TrafficWish) -> Workload:
    if wish.prompt_tokens is None and wish.output_tokens is None:
        return workload
    return replace(
        workload,
        title=f"the texts of {workload.name}, with lengths of one's own",
        prompt_tokens=_fixed(wish.prompt_tokens) or workload.prompt_tokens,
        output_tokens=_fixed(wish.output_tokens) or workload.output_tokens,
    )


def _fixed(tokens: int | None) -> Lengths | None:
    return None if tokens is None else Lengths(median=tokens)


def _read_own(path: str, name: str) -> Workload:
    try:
        with open(path, "rb") as stream:
            text = stream.read(_LIMIT_BYTES).decode()
        return parse_workload(text, name=name.removesuffix(".toml"), origin=path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (DataError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no workload: {error}") from error


def _prompt_tokens(body: str) -> int | None:
    try:
        usage = json.loads(body).get("usage") or {}
    except (ValueError, AttributeError):
        return None
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else None
