"""Promise: where a request names the tool to call, this very tool is called.

The question is about another tool, so that a server which forgets the name is found out.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.contract.token_caps import within_cap
from stoker.contract.tool_calls import Turn
from stoker.contract.tool_flaws import CALLS_OR_STOP
from stoker.contract.tool_questions import (
    CLOCK,
    MANY_TOKENS,
    WEATHER,
    WEATHER_QUESTION,
    ask_tools,
    name_of,
    named,
    schemas_of,
    show_calls,
)
from stoker.contract.tool_trials import Demand, demand_calls
from stoker.model.contract import Feature, Subject
from stoker.ports import Check

_TOOL = name_of(CLOCK)
_EXPECTED = f"a call of {_TOOL}, which the request names"


def _try(subject: Subject) -> Steps[Judgement]:
    tools = [WEATHER, CLOCK]
    requests = [
        ask_tools(
            subject,
            show_calls(WEATHER, WEATHER_QUESTION),
            tools,
            named(CLOCK),
            stream=stream,
            max_tokens=MANY_TOKENS,
        )
        for stream in (False, True)
    ]
    demand = Demand(
        expected=_EXPECTED,
        schemas=schemas_of(tools),
        symptom="named_ignored",
        finish_reasons=CALLS_OR_STOP,
    )
    tried = yield from demand_calls(subject, requests, demand)
    return _find_other(tried.turns) or tried.flaw or passed(_EXPECTED, f"calls of {_TOOL} alone")


def _find_other(turns: Sequence[Turn]) -> Judgement | None:
    for turn in turns:
        other = next((call.name for call in turn.calls if call.name != _TOOL), None)
        if other is not None:
            found = f"a call of {quote(other)} in the {turn.form} reply"
            return failed(_EXPECTED, found, "named_ignored", form=turn.form)
    return None


CHECK = Check(
    id="tools_named",
    title="A named tool is called and no other",
    level="full",
    plan=plan_of(within_cap(_try, _EXPECTED)),
    judge=judge_of(within_cap(_try, _EXPECTED)),
    needs=(Feature.TOOLS, Feature.NAMED_TOOLS),
)
