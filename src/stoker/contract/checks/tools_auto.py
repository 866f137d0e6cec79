"""Promise: a call that the model makes by itself is taken out of its text.

Earlier turns show how the tool is called, which makes even a small model do it again. One that
does not is no fault of the server; a call that is left in the text is.
"""

from __future__ import annotations

from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.contract.token_caps import within_cap
from stoker.contract.tool_calls import Turn, read_turn
from stoker.contract.tool_flaws import cut, find_raw_call, find_refusal, find_turn_flaw
from stoker.contract.tool_forms import compare_forms
from stoker.contract.tool_questions import (
    CLOCK,
    MANY_TOKENS,
    WEATHER,
    WEATHER_QUESTION,
    ask_tools,
    schemas_of,
    show_calls,
)
from stoker.contract.tool_trials import ask_turn, explain
from stoker.model.contract import Exchange, Feature, Request, Subject, Verdict
from stoker.ports import Check

_EXPECTED = "a call that the model makes by itself, apart from its text"
#: The tool that is called is not the first, so that its place is not taken for that of the call.
_TOOLS = (CLOCK, WEATHER)
_SCHEMAS = schemas_of(_TOOLS)


def _try(subject: Subject) -> Steps[Judgement]:
    messages = show_calls(WEATHER, WEATHER_QUESTION)
    turns: list[Turn] = []
    requests: list[Request] = []
    silent: tuple[Exchange, Turn, Judgement] | None = None
    for choice in (None, "auto"):
        request = ask_tools(
            subject,
            messages,
            _TOOLS,
            choice,
            stream=choice is not None,
            max_tokens=MANY_TOKENS,
        )
        exchange = yield from ask_turn(subject, request)
        turn = read_turn(exchange)
        flaw = find_refusal(subject, exchange, Feature.TOOLS, _EXPECTED) or _find_flaw(turn)
        if flaw and (turn.flaw or flaw.verdict is Verdict.FAILED or exchange.status != 200):
            return (yield from explain(subject, exchange, turn, flaw))
        if flaw and silent is None:
            silent = exchange, turn, flaw
        turns.append(turn)
        requests.append(exchange.request)
    difference = yield from compare_forms(requests, turns)
    if difference:
        return difference
    if silent:
        return (yield from explain(subject, *silent))
    return _find_difference(turns) or passed(_EXPECTED, _describe(turns))


def _find_flaw(turn: Turn) -> Judgement | None:
    flaw = find_turn_flaw(turn, _SCHEMAS)
    # What a model puts into a call that it makes freely is its own matter.
    if flaw and flaw.symptom in ("tool_arguments_off_schema", "tool_name_wrong"):
        return None if turn.calls and _is_readable(turn) else flaw
    if flaw or turn.calls:
        return flaw
    if turn.was_cut:
        return cut(turn, _EXPECTED)
    if not turn.text.strip() and not turn.thoughts.strip():
        found = f"no call and no text in the {turn.form} reply"
        return failed(_EXPECTED, found, "tool_call_lost", form=turn.form)
    found = f"the model answered without a call: {quote(turn.text or turn.thoughts)}"
    return find_raw_call(turn, _SCHEMAS) or skipped(_EXPECTED, found)


def _is_readable(turn: Turn) -> bool:
    return all(isinstance(call.name, str) and call.name.strip() for call in turn.calls)


def _find_difference(turns: list[Turn]) -> Judgement | None:
    names = [{str(call.name) for call in turn.calls} for turn in turns]
    if names[0] == names[1]:
        return None
    found = f"{', '.join(sorted(names[0]))} plain, {', '.join(sorted(names[1]))} streamed"
    return failed("the same tool plain and streamed", found, "tool_forms_differ")


def _describe(turns: list[Turn]) -> str:
    call = turns[0].calls[0]
    return f"{quote(call.name)} with {quote(call.arguments)}"


CHECK = Check(
    id="tools_auto",
    title="A call that the model makes by itself is taken out of its text",
    level="full",
    plan=plan_of(within_cap(_try, _EXPECTED)),
    judge=judge_of(within_cap(_try, _EXPECTED)),
    needs=(Feature.TOOLS,),
)
