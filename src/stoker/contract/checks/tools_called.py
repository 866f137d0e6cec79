"""Promise: a model that must call a tool calls it, plainly and in a stream alike.

The least that every agent needs: one tool, and a call of it with an id, a name and arguments that
a program can read. Whether the model would have called it by itself is the matter of other checks.
"""

from __future__ import annotations

from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.contract.token_caps import within_cap
from stoker.contract.tool_calls import Turn
from stoker.contract.tool_questions import (
    WEATHER,
    WEATHER_QUESTION,
    ask_tools,
    schemas_of,
    show_calls,
)
from stoker.contract.tool_trials import Demand, demand_calls
from stoker.model.contract import Feature, Subject
from stoker.ports import Check

_EXPECTED = "a call of the tool, plain and streamed, that a program can read"


def _try(subject: Subject) -> Steps[Judgement]:
    requests = [
        ask_tools(
            subject,
            show_calls(WEATHER, WEATHER_QUESTION),
            [WEATHER],
            "required",
            stream=stream,
            parallel_tool_calls=False,
        )
        for stream in (False, True)
    ]
    demand = Demand(expected=_EXPECTED, schemas=schemas_of([WEATHER]))
    tried = yield from demand_calls(subject, requests, demand)
    return tried.flaw or _compare(*tried.turns)


def _compare(plain: Turn, streamed: Turn) -> Judgement:
    counts = len(plain.calls), len(streamed.calls)
    if counts[0] != counts[1]:
        found = f"{counts[0]} calls plain, {counts[1]} streamed"
        return failed("as many calls plain as streamed", found, "tool_forms_differ")
    call = plain.calls[0]
    return passed(_EXPECTED, f"{call.name} with {quote(call.arguments)}")


CHECK = Check(
    id="tools_called",
    title="A model that must call a tool calls it",
    level="quick",
    plan=plan_of(within_cap(_try, _EXPECTED)),
    judge=judge_of(within_cap(_try, _EXPECTED)),
    needs=(Feature.TOOLS,),
)
