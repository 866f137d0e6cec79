"""Promise: the same question with the same seed is answered the same way again.

Tests of applications and reports of bugs rely on it. Engines compute a little differently with
each batch, so answers may part now and then; a seed that is ignored makes them part always.
"""

from __future__ import annotations

from stoker.contract.chat import all_text, chat, find_form_flaw, read_choice
from stoker.contract.completion import ask
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.model.contract import Subject
from stoker.ports import Check

_QUESTION = "Write a short poem about something that you like."
_SEED = 4242
_MAX_TOKENS = 24
_TRIALS = 6

_EXPECTED = "the same answer to the same question with the same seed"


def _procedure(subject: Subject) -> Steps[Judgement]:
    if subject.manners.keeps_seed is False:
        # A promise that asks nothing counts as one of a server that could not be reached.
        yield from ask_one(ask(subject.published_name))
        return skipped(_EXPECTED, f"{subject.manners.title} does not promise it")
    request = chat(
        subject, _QUESTION, max_tokens=_MAX_TOKENS, is_new=True, seed=_SEED, temperature=1
    )
    texts: list[str] = []
    for _ in range(_TRIALS):
        exchange = yield from ask_one(request)
        flaw = find_form_flaw(exchange)
        if flaw:
            return flaw
        text = all_text(read_choice(exchange))
        if text in texts:
            return passed(_EXPECTED, quote(text))
        texts.append(text)
    found = f"{_TRIALS} different answers, among them {quote(texts[0])} and {quote(texts[1])}"
    if subject.manners.keeps_seed is None:
        return skipped(_EXPECTED, f"a server that does not say that it keeps seeds: {found}")
    return failed(_EXPECTED, found, "seed_ignored", trials=_TRIALS)


CHECK = Check(
    id="seed_repeats",
    title="A seed makes an answer repeat",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
