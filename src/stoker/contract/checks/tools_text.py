"""Promise: text that is no call arrives as it is, though tools are offered.

Parsers look for calls in every answer; one that takes a bracket for the end of a call or waits for
more loses what the model said. The text here has all that calls are written with, and is none.
"""

from __future__ import annotations

from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.token_caps import within_cap
from stoker.contract.tool_calls import Turn, read_turn
from stoker.contract.tool_flaws import cut, find_refusal, find_text_flaw
from stoker.contract.tool_forms import compare_forms
from stoker.contract.tool_questions import CLOCK, MANY_TOKENS, WEATHER, ask_tools, user
from stoker.model.contract import Feature, Request, Subject
from stoker.ports import Check

_EXPECTED = "an answer without calls that has all of its characters"
_TEXT = "if a[0] < b && {x: [1, 2]}: f(y=[3])"
_QUESTION = f"Repeat exactly: {_TEXT}"

#: What calls are written with. That a model leaves out all of one of these and nothing else is
#: hardly possible.
_SIGNS = "[]{}<"


def _try(subject: Subject) -> Steps[Judgement]:
    turns: list[Turn] = []
    requests: list[Request] = []
    for stream in (False, True):
        request = ask_tools(
            subject,
            [user(_QUESTION)],
            [CLOCK, WEATHER],
            "auto",
            stream=stream,
            max_tokens=MANY_TOKENS,
        )
        exchange = yield from ask_one(request)
        turn = read_turn(exchange)
        refusal = find_refusal(subject, exchange, Feature.TOOLS, _EXPECTED)
        flaw = refusal or turn.flaw or find_text_flaw(turn) or _find_loss(turn)
        if flaw:
            return flaw
        turns.append(turn)
        requests.append(request)
    if any(turn.calls for turn in turns):
        return skipped(_EXPECTED, "the model calls a tool where it should not")
    if any(turn.was_cut for turn in turns):
        return cut(turns[0], _EXPECTED)
    if not any(turn.text.strip() for turn in turns):
        return skipped(_EXPECTED, f"no content, but thoughts: {quote(turns[0].thoughts)}")
    flaw = yield from compare_forms(requests, turns)
    return flaw or passed(_EXPECTED, quote(turns[0].text))


def _find_loss(turn: Turn) -> Judgement | None:
    lost = {sign for sign in _SIGNS if sign not in turn.text}
    left = "".join(each for each in _TEXT if each not in lost)
    if not lost or "".join(left.split()) not in "".join(turn.text.split()):
        return None
    found = f"no {' and no '.join(sorted(lost))} in the {turn.form} reply: {quote(turn.text)}"
    return failed(_EXPECTED, found, "tool_text_spoiled", form=turn.form)


CHECK = Check(
    id="tools_text",
    title="Text that is no call arrives as it is",
    level="full",
    plan=plan_of(within_cap(_try, _EXPECTED)),
    judge=judge_of(within_cap(_try, _EXPECTED)),
    needs=(Feature.TOOLS,),
)
