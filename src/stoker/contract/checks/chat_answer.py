"""Promise: a chat question gets a readable answer in the shape that clients expect.

200 and a body are not enough: broken kernels answer with one character or one word over and over,
and a server with the wrong parser or the wrong end of turn leaves its marks in the answer. The
words are not judged, a small model may say anything.
"""

from __future__ import annotations

import re

from stoker.contract.chat import chat, find_form_flaw, read_choice
from stoker.contract.completion import (
    Answer,
    ask,
    describe_answer,
    find_completion_flaw,
    read_answer,
)
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.markers import Kind, find_markers
from stoker.contract.nonsense import Loop, find_loop
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.reply import parse_json
from stoker.model.contract import Feature, Offer, Subject
from stoker.ports import Check

#: Another question, asked only of a model that answers the first one with a loop.
_OTHER_QUESTION = "Name a fruit and say in a sentence what it tastes like."
_OTHER_MAX_TOKENS = 96

#: A piece so often in a row is looked into; so many words alike are no answer.
_SUSPICIOUS_COUNT = 4
_LEAST_WORDS = 24

#: Marks of chat templates, from the tokenizers of Qwen, Llama, Gemma, Mistral, Phi, DeepSeek and
#: gpt-oss. No prose holds them; they show where an engine did not see the end of a turn.
_TURN_MARK = re.compile(
    r"<\|(im_start|im_end|im_sep|eot_id|eom_id|start_header_id|end_header_id|endoftext|end_of_text"
    r"|begin_of_text|return|channel|message|assistant|user|system|end|eot|start)\|>"
    r"|<(start|end)_of_turn>|\[/?INST\]|<\uff5c(User|Assistant|end\u2581of\u2581sentence)\uff5c>"
)

#: Which feature takes marks of this kind out of an answer.
_TAKEN_OUT_BY = {Kind.TOOLS: Feature.TOOLS, Kind.REASONING: Feature.REASONING}

_EXPECTED = "a readable answer to a chat question"


def _procedure(subject: Subject) -> Steps[Judgement]:
    exchange = yield from ask_one(ask(subject.published_name))
    flaw = find_completion_flaw(exchange)
    if flaw:
        return flaw
    answer = read_answer(parse_json(exchange.body))
    flaw = _find_mark_flaw(subject, answer) or (yield from _look_into_loop(subject, answer))
    return flaw or passed(_EXPECTED, describe_answer(answer))


def _find_mark_flaw(subject: Subject, answer: Answer) -> Judgement | None:
    content = answer.content if isinstance(answer.content, str) else ""
    for marker in find_markers(content):
        # Who runs without a parser has chosen so; what is left is then as it should be.
        if subject.offered(_TAKEN_OUT_BY[marker.kind]).offer is Offer.ABSENT:
            continue
        found = f"{quote(marker.text)}, a mark of {marker.kind}, for a parser to take out"
        return failed(
            "words alone in content",
            found,
            f"{marker.kind}_marks_in_content",
            marker=marker.text,
            family=marker.family,
            parsers=list(marker.parsers),
        )
    turn = _TURN_MARK.search(content)
    if turn is None:
        return None
    found = f"the mark {quote(turn[0])} of a chat template: {quote(content)}"
    return failed("words alone in content", found, "turn_marks_in_content", marker=turn[0])


def _look_into_loop(subject: Subject, answer: Answer) -> Steps[Judgement | None]:
    """Whether a model that loops does so whatever it is asked, to the very limit."""
    first = _find_endless_loop(answer)
    if first is None:
        return None
    request = chat(subject, _OTHER_QUESTION, max_tokens=_OTHER_MAX_TOKENS)
    exchange = yield from ask_one(request)
    second = None if find_form_flaw(exchange) else _find_endless_loop(read_choice(exchange))
    if second is None:
        return None
    is_one_word = " " not in f"{first.unit}{second.unit}" and second.count >= _LEAST_WORDS
    if first.unit != second.unit and not is_one_word:
        return None
    found = f"the same words over and over to two different questions: {quote(second.unit)}"
    return failed("an answer to the question", found, "repetition", unit=second.unit[:80])


def _find_endless_loop(answer: Answer) -> Loop | None:
    loop = find_loop(answer.text, _SUSPICIOUS_COUNT)
    return loop if loop and loop.is_whole and answer.finish_reason == "length" else None


CHECK = Check(
    id="chat_answer",
    title="A chat question gets a readable answer",
    level="quick",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
