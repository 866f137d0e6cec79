"""Promise: /v1/responses answers in output items, counts tokens, and streams its events in order.

OpenAI's newer clients and agents use it. Servers offer it in different depth; what is judged is
what every client rests on. Tools are tried where the server may have them.
"""

from __future__ import annotations

from stoker.contract.api_tools import NAME, PARAMETERS, ToolTrial, judge_tools
from stoker.contract.apis import find_absence, is_refusal, join_reasons
from stoker.contract.completion import QUESTION
from stoker.contract.judgement import Judgement, passed, quote
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.responses import find_response_flaw, find_text_flaw, read_reply
from stoker.model.contract import Exchange, Feature, Offer, Request, Subject
from stoker.model.facts import Plain
from stoker.ports import Check

_PATH = "/v1/responses"
_MAX_TOKENS = 32
_TOOL_TOKENS = 96
_TOOL_QUESTION = "What is the weather in Paris?"
_TOOL: dict[str, Plain] = {
    "type": "function",
    "name": NAME,
    "description": "Tells the weather in a city.",
    "parameters": PARAMETERS,
}

_EXPECTED = "output items with a text, plain and streamed"


def _ask(
    subject: Subject,
    question: str = QUESTION,
    *,
    max_tokens: int = _MAX_TOKENS,
    stream: bool = False,
    **more: Plain,
) -> Request:
    streaming = {"stream": True} if stream else {}
    body = {"model": subject.published_name, "input": question, "temperature": 0}
    return Request(
        method="POST",
        path=_PATH,
        body={**body, "max_output_tokens": max_tokens, **streaming, **more},
        stream=stream,
    )


def _procedure(subject: Subject) -> Steps[Judgement]:
    plain = yield from ask_one(_ask(subject))
    flaw = find_absence(subject, Feature.RESPONSES, plain) or _find_flaw(plain)
    if flaw:
        return flaw
    streamed = yield from ask_one(_ask(subject, stream=True))
    flaw = _find_flaw(streamed)
    if flaw:
        return flaw
    note = ""
    if subject.offered(Feature.TOOLS).offer is not Offer.ABSENT:
        outcome = yield from _try_tools(subject)
        if isinstance(outcome, Judgement):
            return outcome
        note = outcome
    reply = read_reply(plain)
    text = quote(reply.text) if reply.text.strip() else f"thoughts alone: {quote(reply.thoughts)}"
    return passed(_EXPECTED, f"{text}{join_reasons([note])}")


def _find_flaw(exchange: Exchange) -> Judgement | None:
    return find_response_flaw(exchange, _MAX_TOKENS) or find_text_flaw(
        read_reply(exchange), _MAX_TOKENS
    )


def _try_tools(subject: Subject) -> Steps[Judgement | str]:
    """What is wrong with calls of functions, else a note on them."""
    control = yield from ask_one(_ask(subject, _TOOL_QUESTION, max_tokens=_MAX_TOKENS))
    flaw = find_response_flaw(control, _MAX_TOKENS)
    if flaw:
        return flaw
    for stream in (False, True):
        request = _ask(
            subject,
            _TOOL_QUESTION,
            max_tokens=_TOOL_TOKENS,
            stream=stream,
            tools=[_TOOL],
            tool_choice="required",
        )
        exchange = yield from ask_one(request)
        if is_refusal(exchange) or exchange.status == 400:
            return "it refuses tools"
        flaw = find_response_flaw(exchange, _TOOL_TOKENS)
        if flaw:
            return flaw
        note = judge_tools(subject, _read_trial(control, exchange))
        if note:
            return note
    return f"it calls {NAME}"


def _read_trial(control: Exchange, exchange: Exchange) -> ToolTrial:
    reply = read_reply(exchange)
    return ToolTrial(
        calls=tuple(
            (call.get("call_id"), call.get("name"), call.get("arguments")) for call in reply.calls
        ),
        text=reply.text,
        was_cut=reply.was_cut(_TOOL_TOKENS),
        extra_tokens=reply.input_tokens - read_reply(control).input_tokens,
        is_streamed=exchange.request.stream,
        has_text_arguments=True,
    )


CHECK = Check(
    id="responses_api",
    title="/v1/responses answers in output items and events",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
    needs=(Feature.RESPONSES,),
)
