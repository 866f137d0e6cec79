"""Promise: where a call is required there is one, even if the question asks for none.

Agents that plan in steps rely on it: a chat answer instead of a call ends them.
"""

from __future__ import annotations

from stoker.contract.judgement import Judgement, passed
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.contract.token_caps import within_cap
from stoker.contract.tool_questions import (
    CLOCK,
    MANY_TOKENS,
    WEATHER,
    ask_tools,
    schemas_of,
    show_calls,
)
from stoker.contract.tool_trials import Demand, demand_calls
from stoker.model.contract import Feature, Subject
from stoker.ports import Check

_EXPECTED = "a call of one of two tools, since one is required"


def _try(subject: Subject) -> Steps[Judgement]:
    tools = [WEATHER, CLOCK]
    requests = [
        ask_tools(
            subject,
            show_calls(WEATHER, "Say hello."),
            tools,
            "required",
            stream=stream,
            max_tokens=MANY_TOKENS,
            parallel_tool_calls=False,
        )
        for stream in (False, True)
    ]
    demand = Demand(expected=_EXPECTED, schemas=schemas_of(tools))
    tried = yield from demand_calls(subject, requests, demand)
    return tried.flaw or passed(_EXPECTED, f"a call of {tried.turns[0].calls[0].name}")


CHECK = Check(
    id="tools_required",
    title="A required call is made",
    level="full",
    plan=plan_of(within_cap(_try, _EXPECTED)),
    judge=judge_of(within_cap(_try, _EXPECTED)),
    needs=(Feature.TOOLS,),
)
