"""Asking a model for calls and judging the turns: what most checks of tools have in common.

Each is a part of a procedure (see :mod:`stoker.contract.procedure`). Where no call comes, the same
messages are sent without tools: a prompt that is as long then shows that the tools never reach
the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.contract.judgement import Judgement
from stoker.contract.markers import Kind, find_markers
from stoker.contract.procedure import Steps, ask_one
from stoker.contract.tool_calls import Turn, read_turn
from stoker.contract.tool_flaws import (
    CALLS,
    find_blindness,
    find_forced_flaw,
    find_refusal,
    find_reused_id,
)
from stoker.contract.tool_questions import Schema, ask_without_tools, without_thoughts
from stoker.model.contract import Exchange, Feature, Request, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Calls that a request demands: ``schemas`` are those of the only tools that may be called.

    ``expected`` is the promise in a sentence, ``symptom`` names that no call came.
    """

    expected: str
    schemas: Mapping[str, Schema]
    symptom: str = "required_ignored"
    finish_reasons: Sequence[str] = CALLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The turns up to the first flaw, and that flaw."""

    turns: tuple[Turn, ...] = ()
    flaw: Judgement | None = None


def demand_calls(subject: Subject, requests: Sequence[Request], demand: Demand) -> Steps[Turns]:
    """Send requests that demand a call, one after the other, until one is not met."""
    turns: tuple[Turn, ...] = ()
    for request in requests:
        exchange = yield from ask_turn(subject, request)
        flaw = find_refusal(subject, exchange, Feature.TOOLS, demand.expected)
        if flaw:
            return Turns(turns=turns, flaw=flaw)
        turn = read_turn(exchange)
        flaw = find_forced_flaw(
            turn,
            demand.schemas,
            symptom=demand.symptom,
            finish_reasons=demand.finish_reasons,
        )
        if flaw:
            flaw = yield from explain(subject, exchange, turn, flaw)
            return Turns(turns=turns, flaw=flaw)
        turns += (turn,)
    return Turns(turns=turns, flaw=find_reused_id(turns))


def ask_turn(subject: Subject, request: Request) -> Steps[Exchange]:
    """The answer to a request with tools; without thoughts where they left no room for a call."""
    exchange = yield from ask_one(request)
    turn = read_turn(exchange)
    is_thinking = turn.thoughts.strip() or find_markers(turn.text, Kind.REASONING)
    calmer = without_thoughts(subject, request)
    if not (turn.was_cut and is_thinking and not turn.calls) or calmer == request:
        return exchange
    return (yield from ask_one(calmer))


def explain(subject: Subject, exchange: Exchange, turn: Turn, flaw: Judgement) -> Steps[Judgement]:
    """The flaw, or what lies beneath it: a model that is never told of the tools.

    A server that makes the model write some JSON all the same gets no object.
    """
    is_explained = not turn.calls or flaw.symptom == "tool_arguments_not_object"
    if turn.flaw or not is_explained:
        return flaw
    messages = (exchange.request.body or {}).get("messages", [])
    without = yield from ask_one(ask_without_tools(subject, messages))
    return find_blindness(subject, exchange, without, flaw.expected) or flaw
