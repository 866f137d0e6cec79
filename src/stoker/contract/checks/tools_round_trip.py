"""Promise: the result of a call goes back to the model by the id that the server gave.

The turn of the call goes back as the server sent it, without content, as clients do. A longer
result must make a longer prompt, else the model never sees it; what it makes of it is its own
matter, but it must be readable.
"""

from __future__ import annotations

from stoker.contract.completion import describe_answer, find_answer_flaw, read_answer
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.reply import describe_status, parse_json
from stoker.contract.token_caps import within_cap
from stoker.contract.tool_calls import Call, Turn, read_turn
from stoker.contract.tool_flaws import find_turn_flaw
from stoker.contract.tool_questions import (
    MANY_TOKENS,
    WEATHER,
    WEATHER_QUESTION,
    Messages,
    ask_tools,
    call_turn,
    result_turn,
    schemas_of,
    show_calls,
)
from stoker.contract.tool_trials import Demand, demand_calls
from stoker.model.contract import Exchange, Feature, Request, Subject
from stoker.model.facts import Plain
from stoker.ports import Check

_EXPECTED = "an answer once the result of a call has gone back"
_ASKED = show_calls(WEATHER, WEATHER_QUESTION)
_RESULT = '{"weather": "rainy"}'
_LONG_RESULT = (
    '{"weather": "rainy", "wind": "light", "sea": "calm", "tomorrow": "rainy again, with '
    'a little sun in the evening", "day after tomorrow": "sunny all day"}'
)


def _try(subject: Subject) -> Steps[Judgement]:
    request = ask_tools(
        subject,
        _ASKED,
        [WEATHER],
        "required",
        parallel_tool_calls=False,
    )
    demand = Demand(expected="a call whose result can go back", schemas=schemas_of([WEATHER]))
    tried = yield from demand_calls(subject, [request], demand)
    if tried.flaw:
        return tried.flaw
    call = tried.turns[0].calls[0]
    answered = yield from ask_one(_answer(subject, call, _RESULT, content=None))
    longer = yield from ask_one(_answer(subject, call, _LONG_RESULT, content="", max_tokens=1))
    return (
        _find_refusal(answered, "without content")
        or _find_answer_flaw(answered)
        or _find_refusal(longer, "with an empty content")
        or _find_loss(read_turn(answered), read_turn(longer))
        or passed(_EXPECTED, _describe(answered))
    )


def _answer(
    subject: Subject, call: Call, result: str, *, content: Plain, max_tokens: int = MANY_TOKENS
) -> Request:
    messages: Messages = [
        *_ASKED,
        call_turn(str(call.id), str(call.name), str(call.arguments), content),
        result_turn(str(call.id), result),
    ]
    return ask_tools(subject, messages, [WEATHER], "auto", max_tokens=max_tokens)


def _find_refusal(exchange: Exchange, how: str) -> Judgement | None:
    if exchange.error or exchange.status in (200, 401, 403, 429):
        return read_turn(exchange).flaw
    expected = f"a turn that calls a tool {how}, and its result, to be taken back"
    found = describe_status(exchange)
    return failed(expected, found, "tool_result_refused", status=exchange.status)


def _find_answer_flaw(exchange: Exchange) -> Judgement | None:
    """Another call is no flaw as long as it is a whole one."""
    turn = read_turn(exchange)
    flaw = find_turn_flaw(turn, schemas_of([WEATHER]))
    if flaw and flaw.symptom not in ("tool_arguments_off_schema", "tool_name_wrong"):
        return flaw
    if turn.calls:
        return None
    if turn.finish_reason == "stop" and not (turn.text.strip() or turn.thoughts.strip()):
        return skipped(_EXPECTED, "the model says nothing more")
    return find_answer_flaw(read_answer(parse_json(exchange.body)))


def _find_loss(short: Turn, long: Turn) -> Judgement | None:
    counts = short.prompt_tokens, long.prompt_tokens
    if counts[0] is None or counts[1] is None or counts[0] < counts[1]:
        return None
    found = f"{counts[0]} tokens in the prompt, and {counts[1]} with a longer result"
    expected = "a result that reaches the model"
    return failed(expected, found, "tool_result_dropped", prompt_tokens=counts[1])


def _describe(exchange: Exchange) -> str:
    calls = read_turn(exchange).calls
    return "another call" if calls else describe_answer(read_answer(parse_json(exchange.body)))


CHECK = Check(
    id="tools_round_trip",
    title="The result of a call goes back to the model",
    level="full",
    plan=plan_of(within_cap(_try, _EXPECTED)),
    judge=judge_of(within_cap(_try, _EXPECTED)),
    needs=(Feature.TOOLS,),
)
