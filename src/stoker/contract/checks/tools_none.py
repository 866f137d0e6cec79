"""Promise: where a request wants no calls there are none, even if tools are there.

The earlier turns make a model call by itself, so that a server which forgets the wish is found
out. A model may then write the call as text; the server has nothing to take out of it.
"""

from __future__ import annotations

from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.token_caps import within_cap
from stoker.contract.tool_calls import Turn, read_turn
from stoker.contract.tool_flaws import find_refusal, find_text_flaw
from stoker.contract.tool_questions import WEATHER, WEATHER_QUESTION, ask_tools, show_calls
from stoker.model.contract import Feature, Subject
from stoker.ports import Check

_EXPECTED = "an answer without calls, since none is wanted"


def _try(subject: Subject) -> Steps[Judgement]:
    messages = show_calls(WEATHER, WEATHER_QUESTION)
    text = ""
    for stream in (False, True):
        request = ask_tools(subject, messages, [WEATHER], "none", stream=stream)
        exchange = yield from ask_one(request)
        turn = read_turn(exchange)
        flaw = find_refusal(subject, exchange, Feature.TOOLS, _EXPECTED) or _find_flaw(turn)
        if flaw:
            return flaw
        text = text or turn.text or turn.thoughts
    return passed(_EXPECTED, quote(text))


def _find_flaw(turn: Turn) -> Judgement | None:
    if turn.flaw:
        return turn.flaw
    if turn.calls:
        names = ", ".join(quote(call.name) for call in turn.calls)
        found = f"a call of {names} in the {turn.form} reply"
        return failed(_EXPECTED, found, "none_ignored", form=turn.form)
    if turn.finish_reason == "tool_calls":
        return failed(_EXPECTED, "finish_reason tool_calls", "none_ignored", form=turn.form)
    return find_text_flaw(turn)


CHECK = Check(
    id="tools_none",
    title="No tool is called where none is wanted",
    level="full",
    plan=plan_of(within_cap(_try, _EXPECTED)),
    judge=judge_of(within_cap(_try, _EXPECTED)),
    needs=(Feature.TOOLS,),
)
