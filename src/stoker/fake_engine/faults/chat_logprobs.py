"""Broken promises of the probabilities of tokens."""

from __future__ import annotations

from collections.abc import Callable

from stoker.fake_engine.changing import change_choices
from stoker.fake_engine.fault import Data, Fault, Moment

_FULL = "full"


def _on_entries(change: Callable[[list[Data]], list[Data]]) -> Callable[[Data, Moment], Data]:
    def on_choice(choice: Data) -> Data:
        logprobs = choice.get("logprobs")
        if not isinstance(logprobs, dict) or not isinstance(logprobs.get("content"), list):
            return choice
        return {**choice, "logprobs": {**logprobs, "content": change(logprobs["content"])}}

    def reply(data: Data, moment: Moment) -> Data:
        return change_choices(data, on_choice)

    return reply


def _each_entry(change: Callable[[Data], Data]) -> Callable[[Data, Moment], Data]:
    return _on_entries(lambda entries: [change(entry) for entry in entries])


def _positive(entry: Data) -> Data:
    return {**entry, "logprob": -entry["logprob"]}


def _missing(entry: Data) -> Data:
    return {**entry, "logprob": None}


def _shuffled(entry: Data) -> Data:
    return {**entry, "top_logprobs": list(reversed(entry["top_logprobs"]))}


def _too_few(entry: Data) -> Data:
    return {**entry, "top_logprobs": entry["top_logprobs"][:1]}


def _another(entry: Data) -> Data:
    return {**entry, "token": "something"}


def _other_bytes(entry: Data) -> Data:
    return {**entry, "bytes": list(b"other ")}


def _no_logprobs_in_stream(chunks: list[Data], moment: Moment) -> list[Data]:
    return [change_choices(chunk, lambda choice: {**choice, "logprobs": None}) for chunk in chunks]


def _logprob_fault(name: str, title: str, reply: Callable[[Data, Moment], Data]) -> Fault:
    killed_by = frozenset({"logprobs_add_up"})
    return Fault(name=name, title=title, killed_by=killed_by, level=_FULL, reply=reply)


_LOGPROBS = (
    _logprob_fault("logprobs_positive", "logarithms lost their sign", _each_entry(_positive)),
    _logprob_fault("logprobs_null", "the logarithms were no numbers", _each_entry(_missing)),
    _logprob_fault("logprobs_shuffled", "the likeliest tokens last", _each_entry(_shuffled)),
    _logprob_fault("logprobs_too_few", "one likeliest token for three", _each_entry(_too_few)),
    _logprob_fault(
        "logprobs_lost",
        "half of the tokens have no probability",
        _on_entries(lambda entries: entries[::2]),
    ),
    _logprob_fault("logprobs_strange", "tokens of another text", _each_entry(_another)),
    _logprob_fault("logprobs_other_bytes", "bytes of another text", _each_entry(_other_bytes)),
    _logprob_fault(
        "logprobs_rotated",
        "each token has the numbers of its neighbour",
        _on_entries(lambda entries: [*entries[1:], *entries[:1]]),
    ),
    Fault(
        name="logprobs_not_streamed",
        title="a stream has no probabilities",
        killed_by=frozenset({"logprobs_add_up"}),
        level=_FULL,
        chunks=_no_logprobs_in_stream,
    ),
)

FAULTS = _LOGPROBS
