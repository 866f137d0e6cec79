"""Promise: who asks for two answers gets two, numbered, and each can be read.

Clients that vote among answers or let a person choose rely on it. A server may refuse, then the
promise is none.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.contract.chat import (
    chat,
    find_form_flaw,
    is_declined,
    list_choices,
    read_choice,
    read_pieces,
)
from stoker.contract.completion import QUESTION, find_answer_flaw
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_each, judge_of, plan_of
from stoker.contract.reply import describe_status
from stoker.model.contract import Exchange, Subject
from stoker.model.facts import Plain
from stoker.ports import Check

_COUNT = 2
_MAX_TOKENS = 16
#: vLLM gives several answers only where they are drawn; a low temperature keeps them sensible.
_TEMPERATURE = 0.5

_EXPECTED = f"{_COUNT} readable answers, numbered from 0, plain and streamed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    name: str
    exchange: Exchange


def _procedure(subject: Subject) -> Steps[Judgement]:
    requests = [
        chat(
            subject,
            QUESTION,
            max_tokens=_MAX_TOKENS,
            stream=stream,
            n=_COUNT,
            temperature=_TEMPERATURE,
        )
        for stream in (False, True)
    ]
    plain, streamed = yield from ask_each(requests)
    if is_declined(plain) and is_declined(streamed):
        return skipped(_EXPECTED, f"not offered: {describe_status(plain)}")
    forms = [_Form(name="plain", exchange=plain), _Form(name="streamed", exchange=streamed)]
    flaw = next(filter(None, map(_find_flaw, forms)), None)
    if flaw is None:
        return passed(
            _EXPECTED,
            " and ".join(quote(read_choice(plain, index).text) for index in range(_COUNT)),
        )
    if flaw.symptom == "too_few_choices" and not subject.manners.engine:
        # A stranger that gives one answer whatever is asked does not offer more.
        is_single = all(_list_indices(form.exchange) == [0] for form in forms)
        return skipped(_EXPECTED, "not offered: one answer in both forms") if is_single else flaw
    return flaw


def _list_indices(exchange: Exchange) -> list[Plain]:
    """The numbers of the choices; in a stream each once, in a plain reply as they stand."""
    found = [
        choice.get("index") for piece in read_pieces(exchange) for choice in list_choices(piece)
    ]
    return (
        found
        if not exchange.request.stream
        else [index for number, index in enumerate(found) if index not in found[:number]]
    )


def _find_flaw(form: _Form) -> Judgement | None:
    flaw = find_form_flaw(form.exchange)
    if flaw:
        return flaw
    indices = _list_indices(form.exchange)
    wanted = list(range(_COUNT))
    if any(index not in wanted for index in indices) or len(indices) > _COUNT:
        found = f"{form.name}: numbered {quote(indices)}"
        return failed(_EXPECTED, found, "wrong_choice_index", form=form.name)
    if len(indices) < _COUNT:
        return failed(
            _EXPECTED, f"{form.name}: {len(indices)} of {_COUNT}", "too_few_choices", form=form.name
        )
    if sorted(indices) != wanted:
        found = f"{form.name}: numbered {quote(indices)}"
        return failed(_EXPECTED, found, "wrong_choice_index", form=form.name)
    for index in wanted:
        flaw = find_answer_flaw(read_choice(form.exchange, index))
        if flaw:
            found = f"in the {form.name} answer {index} {flaw.found}"
            return failed(flaw.expected, found, flaw.symptom or "unreadable_choice", form=form.name)
    return None


CHECK = Check(
    id="several_choices",
    title="Two answers are two",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
