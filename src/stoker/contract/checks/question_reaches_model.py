"""Promise: what a person writes reaches the model.

A chat template that drops the question, or a server that ignores the messages, gives fluent
answers to nothing. The token counts tell: a longer question makes a longer prompt.
"""

from __future__ import annotations

from stoker.contract.chat import chat, count_tokens, find_form_flaw
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.procedure import Steps, ask_each, judge_of, plan_of
from stoker.model.contract import Subject
from stoker.ports import Check

_SHORT = "Hello."
_LONG = (
    "Hello. Yesterday we walked along the river and saw two white boats, an old stone bridge, a "
    "market with apples, bread and cheese, and many people who were talking about the weather, "
    "the harvest and the music of the evening."
)

#: Some tokenizers hold several words in one token; none holds three on the average.
_WORDS_PER_TOKEN = 3
_LEAST_GROWTH_TOKENS = (_LONG.count(" ") - _SHORT.count(" ")) // _WORDS_PER_TOKEN

_EXPECTED = "a longer question makes a longer prompt"


def _procedure(subject: Subject) -> Steps[Judgement]:
    # One token is enough: the prompt is counted, the answer is not read.
    requests = [chat(subject, text, max_tokens=1) for text in (_SHORT, _LONG)]
    exchanges = yield from ask_each(requests)
    flaw = next(filter(None, map(find_form_flaw, exchanges)), None)
    if flaw:
        return flaw
    short, long = (count_tokens(exchange, "prompt_tokens") for exchange in exchanges)
    if short is None or long is None:
        return skipped(_EXPECTED, "the replies do not count the tokens of the prompt")
    found = f"{short} tokens with a question of one word, {long} with one of {len(_LONG.split())}"
    if long - short >= _LEAST_GROWTH_TOKENS:
        return passed(_EXPECTED, found)
    return failed(_EXPECTED, found, "question_not_in_prompt", short_tokens=short, long_tokens=long)


CHECK = Check(
    id="question_reaches_model",
    title="The question reaches the model",
    level="quick",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
