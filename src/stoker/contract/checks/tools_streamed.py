"""Promise: the pieces of a streamed call join to the call that a plain reply has.

The id and the name come once, in the first piece, and the arguments in pieces that may be cut
anywhere, also within an escaped character. A call without arguments has pieces, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.contract.reply import parse_json
from stoker.contract.token_caps import within_cap
from stoker.contract.tool_calls import Turn
from stoker.contract.tool_forms import compare_forms
from stoker.contract.tool_questions import (
    LIGHT,
    LIGHT_QUESTION,
    MANY_TOKENS,
    NOTE,
    NOTE_QUESTION,
    ask_tools,
    schemas_of,
    show_calls,
    strictly,
)
from stoker.contract.tool_trials import Demand, demand_calls
from stoker.model.contract import Feature, Subject
from stoker.model.facts import Plain
from stoker.ports import Check

_EXPECTED = "the same call in pieces as in a plain reply"
_QUESTIONS = (
    (NOTE, NOTE_QUESTION),
    (LIGHT, LIGHT_QUESTION),
)


def _try(subject: Subject) -> Steps[Judgement]:
    for tool, question in _QUESTIONS:
        requests = [
            ask_tools(
                subject,
                show_calls(tool, question),
                [strictly(tool)],
                "required",
                stream=stream,
                max_tokens=MANY_TOKENS,
                parallel_tool_calls=False,
            )
            for stream in (False, True)
        ]
        demand = Demand(expected=_EXPECTED, schemas=schemas_of([tool]))
        tried = yield from demand_calls(subject, requests, demand)
        flaw = tried.flaw or _find_difference(tried.turns)
        flaw = flaw or (yield from compare_forms(requests, tried.turns))
        if flaw:
            return flaw
    return passed(_EXPECTED, f"{len(_QUESTIONS)} calls that join to the same")


def _find_difference(turns: Sequence[Turn]) -> Judgement | None:
    plain, streamed = (_read_all(turn) for turn in turns)
    if plain == streamed:
        return None
    found = f"plain {quote(plain)}, streamed {quote(streamed)}"
    return failed(_EXPECTED, found, "tool_forms_differ")


def _read_all(turn: Turn) -> list[Plain]:
    return [[call.name, parse_json(call.arguments)] for call in turn.calls]


CHECK = Check(
    id="tools_streamed",
    title="The pieces of a streamed call join to a call",
    level="full",
    plan=plan_of(within_cap(_try, _EXPECTED)),
    judge=judge_of(within_cap(_try, _EXPECTED)),
    needs=(Feature.TOOLS,),
)
