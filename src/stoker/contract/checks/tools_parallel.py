"""Promise: several calls of one turn are told apart, and there is but one where one is wanted.

Results go back by the ids of their calls, so two calls with one id get mixed up. A model that
makes one call where two would do is no fault of the server.
"""

from __future__ import annotations

from stoker.contract.judgement import Judgement, failed, passed
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.token_caps import within_cap
from stoker.contract.tool_calls import Turn, read_turn
from stoker.contract.tool_flaws import find_refusal, find_reused_id, find_turn_flaw
from stoker.contract.tool_forms import compare_forms
from stoker.contract.tool_questions import (
    CLOCK,
    MANY_TOKENS,
    WEATHER,
    ask_tools,
    schemas_of,
    show_calls,
)
from stoker.contract.tool_trials import Demand, demand_calls
from stoker.model.contract import Feature, Request, Subject, Verdict
from stoker.model.facts import Plain
from stoker.ports import Check

_EXPECTED = "calls with ids of their own, and one alone where parallel calls are switched off"
_QUESTION = "Look up the weather in Paris and the weather in Rome."
_TOOLS = (WEATHER, CLOCK)


def _try(subject: Subject) -> Steps[Judgement]:
    demand = Demand(expected=_EXPECTED, schemas=schemas_of(_TOOLS))
    many = [_ask(subject, stream=stream, parallel_tool_calls=True) for stream in (False, True)]
    tried = yield from demand_calls(subject, many, demand)
    flaw = tried.flaw or (yield from compare_forms(many, tried.turns))
    if flaw:
        return flaw
    one = [_ask(subject, stream=False, parallel_tool_calls=False)]
    alone = yield from demand_calls(subject, one, demand)
    turns = (*tried.turns, *alone.turns)
    flaw = alone.flaw or _find_second(alone.turns[0]) or find_reused_id(turns)
    flaw = flaw or (yield from _try_freely(subject))
    return flaw or passed(
        _EXPECTED, f"{' and '.join(str(len(turn.calls)) for turn in turns)} calls"
    )


def _try_freely(subject: Subject) -> Steps[Judgement | None]:
    """Calls that the model makes by itself, which some servers read in another way.

    Whether it makes any is its own matter, and so is what it puts into them.
    """
    requests = [_ask(subject, stream=stream, choice="auto") for stream in (False, True)]
    turns: list[Turn] = []
    for request in requests:
        exchange = yield from ask_one(request)
        if find_refusal(subject, exchange, Feature.TOOLS, _EXPECTED):
            return None
        turn = read_turn(exchange)
        flaw = find_turn_flaw(turn, schemas_of(_TOOLS))
        if flaw and flaw.symptom not in ("tool_arguments_off_schema", "tool_name_wrong"):
            return flaw if flaw.verdict is Verdict.FAILED else None
        turns.append(turn)
    if not any(turn.calls for turn in turns):
        return None
    return (yield from compare_forms(requests, turns))


def _ask(subject: Subject, *, stream: bool, choice: str = "required", **fields: Plain) -> Request:
    return ask_tools(
        subject,
        show_calls(WEATHER, _QUESTION),
        _TOOLS,
        choice,
        stream=stream,
        max_tokens=MANY_TOKENS,
        **fields,
    )


def _find_second(turn: Turn) -> Judgement | None:
    if len(turn.calls) <= 1:
        return None
    found = f"{len(turn.calls)} calls"
    expected = "at most one call with parallel_tool_calls: false"
    return failed(expected, found, "parallel_off_ignored", calls=len(turn.calls))


CHECK = Check(
    id="tools_parallel",
    title="Calls of one turn are told apart",
    level="full",
    plan=plan_of(within_cap(_try, _EXPECTED)),
    judge=judge_of(within_cap(_try, _EXPECTED)),
    needs=(Feature.TOOLS,),
)
