"""Whether what stands earlier in a conversation reaches the model: by tokens, and by a code word.

The checks of history and of system prompts use it. The count of the prompt's tokens tells most
surely. A code word tells it of any server, but small models forget: so the same word is told in
the question itself too, and only who heeds it there again and again, and never here, does not get
to hear it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stoker.contract.chat import (
    Message,
    all_text,
    chat,
    count_tokens,
    find_form_flaw,
    no_thoughts,
    read_choice,
    user,
)
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.left_marks import find_mark_flaw
from stoker.contract.procedure import Steps, ask_each, ask_one
from stoker.contract.questions import Fact, holds_word, make_facts
from stoker.model.contract import Exchange, Subject

#: Who never heeds the word in so many trials, and does in most of the controls, does not hear it.
_ROUNDS = 5
_LEAST_CONTROLS = 3

#: Room for a few words before the one that counts; thoughts take more.
_MAX_TOKENS = 160

_SEED = 7

#: Two sentences of many words, to see whether the prompt grows by them.
_MORE_TEXT = (
    " In the old town people bake bread before the sun is up, the carpenter opens his windows, "
    "children carry baskets of apples over the bridge, and a clerk writes letters until the lamps "
    "are lit in the evening."
)
#: No token holds more than a few words on the average.
_LEAST_GROWTH_TOKENS = len(_MORE_TEXT.split()) // 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a conversation. ``tell`` puts a text there and a question behind it.

    ``title``: what the place is called, as the subject of a sentence. ``symptom``: what a judgement
    says where the model does not get to hear it.
    """

    title: str
    symptom: str
    tell: Callable[[str, str], Sequence[Message]]


def ask_for(fact: Fact) -> str:
    """The question for a code word."""
    return f"What is the code word of {fact.name}? Answer with the code word only."


def try_growth(subject: Subject, place: Place) -> Steps[Judgement | bool]:
    """True where the prompt grows by what is told there, False where nobody counts its tokens."""
    (fact,) = make_facts(_SEED, 1)
    texts = (fact.sentence, fact.sentence + _MORE_TEXT)
    exchanges = yield from ask_each(
        [chat(subject, place.tell(text, ask_for(fact)), max_tokens=1) for text in texts]
    )
    flaw = next(filter(None, map(find_form_flaw, exchanges)), None)
    if flaw:
        return flaw
    short, long = (count_tokens(exchange, "prompt_tokens") for exchange in exchanges)
    if short is None or long is None:
        return False
    if long - short >= _LEAST_GROWTH_TOKENS:
        return True
    return failed(
        f"a prompt that grows with {place.title}",
        f"{short} tokens, and {long} with {len(_MORE_TEXT.split())} words more",
        place.symptom,
        short_tokens=short,
        long_tokens=long,
    )


def try_recall(subject: Subject, place: Place, *, has_grown: bool) -> Steps[Judgement]:
    """Ask for code words until one is known, else judge by how the controls went."""
    expected = f"a model that hears {place.title}"
    control_count, answers = 0, []
    for fact in make_facts(_SEED, _ROUNDS):
        exchange = yield from _ask(subject, place.tell(fact.sentence, ask_for(fact)))
        flaw = find_form_flaw(exchange) or find_mark_flaw(subject, read_choice(exchange))
        if flaw:
            return flaw
        if holds_word(all_text(read_choice(exchange)), fact.word):
            return passed(expected, f"the code word {fact.word}, told there")
        control = yield from _ask(subject, [user(f"{fact.sentence}\n\n{ask_for(fact)}")])
        # Thoughts begin by repeating the question, and an answer that was cut off proves nothing.
        if _has_answer(exchange):
            answers.append(all_text(read_choice(exchange)))
            control_count += holds_word(_read_content(control), fact.word)
    if len(answers) == _ROUNDS and control_count >= _LEAST_CONTROLS:
        found = (
            f"none of {_ROUNDS} code words known ({quote(answers[-1])}), but {control_count} of "
            "them when they stood in the question"
        )
        return failed(expected, found, place.symptom, controls=control_count)
    if has_grown:
        return passed(expected, "a prompt that grows with it; the model tells no code word")
    return skipped(expected, "a model that tells no code word even from the question itself")


def _ask(subject: Subject, messages: Sequence[Message]) -> Steps[Exchange]:
    return ask_one(chat(subject, messages, max_tokens=_MAX_TOKENS, **no_thoughts(subject)))


def _read_content(exchange: Exchange) -> str:
    content = read_choice(exchange).content
    return content if isinstance(content, str) else ""


def _has_answer(exchange: Exchange) -> bool:
    return bool(_read_content(exchange).strip())
