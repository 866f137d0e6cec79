"""Promise: a picture in a question reaches the model, or is refused.

A server may take a picture and drop it: the model then answers about nothing. A prompt with a
picture has more tokens than the same words alone, and an answer about its colour follows the
colour. A server that has no eyes says so.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.contract.chat import count_tokens, find_form_flaw
from stoker.contract.interview import Heard, Style, find_style, hear
from stoker.contract.judgement import Judgement, failed, passed, skipped
from stoker.contract.pictures import write_picture
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.questions import Question, Sort
from stoker.contract.reply import describe_status, find_message
from stoker.model.contract import Exchange, Feature, Request, Subject
from stoker.ports import Check

_EXPECTED = "a picture that reaches the model"
_TEXT = "What colour is this picture? Answer with one word."
_COLOURS = {"red": (230, 20, 20), "blue": (20, 40, 230)}

#: How servers refuse what they do not offer; some do it with a server error and a sentence.
_REFUSED = (400, 404, 415, 422, 501)
_REFUSED_WITH_WORDS = 500
_WORDS = ("image", "multimodal", "multi-modal", "vision", "mmproj", "not support")


def _try_pictures(subject: Subject) -> Steps[Judgement]:
    style = yield from find_style(subject)
    control = yield from ask_one(_ask(subject, style, ""))
    flaw = find_form_flaw(control)
    if flaw:
        return flaw
    heard: list[Heard] = []
    for name, colour in _COLOURS.items():
        exchange = yield from ask_one(_ask(subject, style, write_picture(colour)))
        if _is_refused(exchange):
            return _judge_refusal(subject, exchange)
        heard.append(hear(Question(sort=Sort.COPY, text=_TEXT, answers=(name,)), exchange))
        if heard[-1].fault:
            return heard[-1].fault
    return _judge_sight(control, heard)


def _ask(subject: Subject, style: Style, url: str) -> Request:
    """The question with a picture; without one where the URL is empty."""
    request = style.ask(subject, Question(sort=Sort.COPY, text=_TEXT, answers=()))
    parts = [{"type": "text", "text": _TEXT}]
    picture = [{"type": "image_url", "image_url": {"url": url}}] if url else []
    messages = [{"role": "user", "content": [*picture, *parts] if url else _TEXT}]
    return replace(request, body={**(request.body or {}), "messages": messages})


def _is_refused(exchange: Exchange) -> bool:
    if exchange.error:
        return False
    if exchange.status in _REFUSED:
        return True
    message = find_message(exchange.body).lower()
    return exchange.status == _REFUSED_WITH_WORDS and any(word in message for word in _WORDS)


def _judge_refusal(subject: Subject, exchange: Exchange) -> Judgement:
    found = f"refused: {describe_status(exchange)}"
    if subject.promises(Feature.VISION):
        return failed(_EXPECTED, found, "image_refused", status=exchange.status)
    return skipped(_EXPECTED, found)


def _judge_sight(control: Exchange, heard: list[Heard]) -> Judgement:
    alone = count_tokens(control, "prompt_tokens")
    counts = [each.prompt_tokens for each in heard]
    texts = ", ".join(each.quoted for each in heard)
    named = [each.question.answers[0] for each in heard if each.is_right]
    is_seen = len(named) == len(heard) or len({each.text for each in heard}) == len(heard)
    more = [count - alone for count in counts if count is not None and alone is not None]
    if more and max(more) <= 0:
        found = f"taken and dropped: {counts[0]} tokens with a picture, {alone} without; {texts}"
        return failed(_EXPECTED, found, "image_ignored", answers=texts)
    nonsense = next((each.nonsense for each in heard if each.nonsense), None)
    if nonsense:
        return failed(_EXPECTED, nonsense.found, "image_nonsense", kind=nonsense.symptom)
    if not is_seen and not named:
        found = f"the same answer to a red and to a blue picture, and neither colour: {texts}"
        return failed(_EXPECTED, found, "image_not_seen", answers=texts)
    grown = f"{max(more)} tokens more with a picture; " if more else ""
    return passed(_EXPECTED, f"{grown}red and blue were called {texts}")


CHECK = Check(
    id="images_seen",
    title="A picture reaches the model or is refused",
    level="full",
    plan=plan_of(_try_pictures),
    judge=judge_of(_try_pictures),
    needs=(Feature.VISION,),
)
