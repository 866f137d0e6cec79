"""Promise: behind the thoughts there is an answer.

A parser that never sees the end of the thoughts takes the answer for one, and clients get nothing.
Where the token limit ends the thoughts there is none to expect.
"""

from __future__ import annotations

from stoker.contract.judgement import Judgement, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.thoughts import (
    MANY_TOKENS,
    ask_for_thoughts,
    find_swallowed_answer,
    find_thought_flaw,
)
from stoker.contract.token_caps import within_cap
from stoker.contract.tool_calls import Turn, read_turn
from stoker.contract.tool_flaws import find_short_context
from stoker.model.contract import Feature, Request, Subject
from stoker.ports import Check

_EXPECTED = "an answer behind the thoughts"


def _try(subject: Subject) -> Steps[Judgement]:
    turns: list[Turn] = []
    for stream in (False, True):
        request = ask_for_thoughts(subject, stream=stream, max_tokens=MANY_TOKENS)
        exchange = yield from ask_one(request)
        turn = read_turn(exchange)
        flaw = (
            find_short_context(exchange, _EXPECTED)
            or find_thought_flaw(turn)
            or find_swallowed_answer(turn, _EXPECTED)
            or _find_cut(turn, exchange.request)
        )
        if flaw:
            return flaw
        turns.append(turn)
    return passed(_EXPECTED, quote(turns[0].text))


def _find_cut(turn: Turn, request: Request) -> Judgement | None:
    if not turn.was_cut or turn.text.strip():
        return None
    tokens = quote((request.body or {}).get("max_tokens"))
    found = f"all {tokens} tokens went into thoughts; a client has to allow more max_tokens"
    return skipped(_EXPECTED, f"{found}: {quote(turn.thoughts)}")


CHECK = Check(
    id="reasoning_not_empty",
    title="Behind the thoughts there is an answer",
    level="full",
    plan=plan_of(within_cap(_try, _EXPECTED)),
    judge=judge_of(within_cap(_try, _EXPECTED)),
    needs=(Feature.REASONING,),
)
