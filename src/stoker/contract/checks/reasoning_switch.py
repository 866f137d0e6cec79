"""Promise: a request can ask for an answer without thoughts and gets one.

Clients that want short answers rely on it. A parser that takes all for thought until the thoughts
end swallows such an answer.
"""

from __future__ import annotations

from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.thoughts import (
    MANY_TOKENS,
    ask_for_thoughts,
    find_swallowed_answer,
    find_thought_flaw,
)
from stoker.contract.token_caps import within_cap
from stoker.contract.tool_calls import Turn, read_turn
from stoker.contract.tool_flaws import find_refusal, find_short_context
from stoker.model.contract import Feature, Subject
from stoker.ports import Check

_EXPECTED = "an answer without thoughts where none are wanted"


def _try(subject: Subject) -> Steps[Judgement]:
    is_promised = subject.promises(Feature.THINKING_SWITCH)
    if not is_promised:
        usual = yield from ask_one(ask_for_thoughts(subject, max_tokens=MANY_TOKENS))
        turn = read_turn(usual)
        room = find_short_context(usual, _EXPECTED)
        flaw = room or turn.flaw or (None if turn.thoughts.strip() else _no_thoughts())
        if flaw:
            return flaw
    fields = subject.manners.thinking_off
    for stream in (False, True):
        request = ask_for_thoughts(subject, stream=stream, max_tokens=MANY_TOKENS, **fields)
        exchange = yield from ask_one(request)
        turn = read_turn(exchange)
        flaw = (
            find_refusal(subject, exchange, Feature.THINKING_SWITCH, _EXPECTED)
            or turn.flaw
            or find_swallowed_answer(turn, _EXPECTED)
            or _find_thoughts(turn, is_promised=is_promised)
            or find_thought_flaw(turn)
        )
        if flaw:
            return flaw
    return passed(_EXPECTED, quote(turn.text))


def _no_thoughts() -> Judgement:
    return skipped(_EXPECTED, "the model shows no thoughts that could be switched off")


def _find_thoughts(turn: Turn, *, is_promised: bool) -> Judgement | None:
    if not turn.thoughts.strip():
        return None
    found = f"thoughts all the same in the {turn.form} reply: {quote(turn.thoughts)}"
    if not is_promised:
        return skipped(_EXPECTED, f"{found}; nobody says that this model has such a switch")
    return failed(_EXPECTED, found, "thinking_switch_ignored", form=turn.form)


CHECK = Check(
    id="reasoning_switch",
    title="Thoughts can be switched off",
    level="full",
    plan=plan_of(within_cap(_try, _EXPECTED)),
    judge=judge_of(within_cap(_try, _EXPECTED)),
    needs=(Feature.REASONING, Feature.THINKING_SWITCH),
)
