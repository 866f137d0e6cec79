"""Promise: the official openai library reads what the server answers.

Most programs talk through it, and a reply that a person can read may still break it. It is run as
a client: a chat, a stream, tools, an answer in a form, the list of models, and a request that must
be refused. Where it cannot be read the library's own error is told, and which call it was.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.contract.api_tools import NAME, PARAMETERS
from stoker.contract.apis import join_reasons, read_items
from stoker.contract.client_answers import (
    ClientAnswer,
    find_call_flaw,
    find_refusal_flaw,
    read_answer,
    read_count,
)
from stoker.contract.completion import has_text
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.reply import parse_json
from stoker.model.contract import Exchange, Feature, Offer, Request, Subject
from stoker.model.facts import Plain, Unknown
from stoker.ports import Check

_CLIENT = "openai"
_QUESTION = "What is the weather in Paris?"
_FORM_QUESTION = "Is fire hot? Answer yes or no, as JSON."
_CHAT_TOKENS = 32
_TOOL_TOKENS = 96
_TIMEOUT_SECONDS = 60.0
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")

_EXPECTED = "replies that the openai library reads"

Find = Callable[[ClientAnswer], Judgement | None]


def _call(path: str, *, stream: bool = False, **arguments: Plain) -> Request:
    return Request(
        method="CALL",
        path=path,
        body=arguments,
        stream=stream,
        client=_CLIENT,
        timeout_seconds=_TIMEOUT_SECONDS,
    )


def _chat(
    subject: Subject,
    path: str = "chat",
    *,
    question: str = _QUESTION,
    max_tokens: int = _CHAT_TOKENS,
    stream: bool = False,
    **more: Plain,
) -> Request:
    return _call(
        path,
        stream=stream,
        model=subject.published_name,
        messages=[{"role": "user", "content": question}],
        temperature=0,
        max_tokens=max_tokens,
        **more,
    )


def _procedure(subject: Subject) -> Steps[Judgement]:
    chat = yield from ask_one(_chat(subject))
    flaw = find_call_flaw(chat) or _find_answer_flaw(read_answer(chat))
    if flaw:
        return flaw
    models = yield from ask_one(_call("models"))
    flaw = find_call_flaw(models) or _find_names_flaw(read_answer(models))
    if flaw:
        return flaw
    refused = yield from ask_one(_refused(subject))
    flaw = find_refusal_flaw(refused)
    if flaw:
        return flaw
    streamed = yield from ask_one(_chat(subject, "stream", stream_options={"include_usage": True}))
    flaw = find_call_flaw(streamed) or _find_answer_flaw(read_answer(streamed))
    if flaw:
        return flaw
    notes = []
    for optional in (_try_tools, _try_form):
        outcome = yield from optional(subject)
        if isinstance(outcome, Judgement):
            return outcome
        notes.append(outcome)
    answer = read_answer(chat)
    text = quote(answer.result.get("text") or answer.result.get("reasoning"))
    return passed(_EXPECTED, f"{answer.client} reads {text}{join_reasons(notes)}")


def _find_answer_flaw(answer: ClientAnswer) -> Judgement | None:
    result = answer.result
    if not has_text(result.get("text")) and not has_text(result.get("reasoning")):
        found = f"content: {quote(result.get('text'))}"
        expected = f"an answer with text in it (the call {answer.call})"
        return failed(expected, found, "no_text", call=answer.call)
    counts = [read_count(result, f"usage.{name}") for name in _COUNTS]
    if None in counts:
        expected = f"token counts that the library reads (the call {answer.call})"
        found = f"usage: {quote(result.get('usage'))}"
        return failed(expected, found, "no_usage", call=answer.call)
    return None


def _find_names_flaw(answer: ClientAnswer) -> Judgement | None:
    names = answer.result.get("names")
    if isinstance(names, list) and names and all(map(has_text, names)):
        return None
    expected = "names in the list of models (the call models)"
    return failed(expected, quote(names), "client_no_models", call="models")


def _try_tools(subject: Subject) -> Steps[Judgement | str]:
    """Calls of a tool, plain and put together from a stream, where the model makes any."""
    if subject.offered(Feature.TOOLS).offer is Offer.ABSENT:
        return ""
    function = {
        "name": NAME,
        "description": "Tells the weather in a city.",
        "parameters": PARAMETERS,
    }
    tools: dict[str, Plain] = {
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
    }
    for stream in (False, True):
        request = _chat(subject, "tools", stream=stream, max_tokens=_TOOL_TOKENS, **tools)
        exchange = yield from ask_one(request)
        outcome = _judge_optional(subject, Feature.TOOLS, exchange, _find_tool_flaw)
        if outcome is not None:
            return outcome
    return ""


def _find_tool_flaw(answer: ClientAnswer) -> Judgement | None:
    """Programs read the arguments as JSON. Whether they fit the tool is another check's matter."""
    calls = read_items(answer.result, "calls")
    for number, call in enumerate(calls, start=1):
        arguments = call.get("arguments")
        is_cut = answer.was_cut and number == len(calls)
        is_read = isinstance(arguments, str) and (
            is_cut or not isinstance(parse_json(arguments), Unknown)
        )
        if has_text(call.get("name")) and has_text(call.get("id")) and is_read:
            continue
        expected = f"calls with an id, a name and JSON as arguments (the call {answer.call})"
        return failed(expected, quote(dict(call)), "wrong_tool_call", call=answer.call)
    return None


def _try_form(subject: Subject) -> Steps[Judgement | str]:
    """An answer that must have a form, read by the library itself."""
    if subject.offered(Feature.STRUCTURED_OUTPUT).offer is Offer.ABSENT:
        return ""
    exchange = yield from ask_one(_chat(subject, "parse", question=_FORM_QUESTION))
    outcome = _judge_optional(subject, Feature.STRUCTURED_OUTPUT, exchange, _find_form_flaw)
    return "" if outcome is None else outcome


def _find_form_flaw(answer: ClientAnswer) -> Judgement | None:
    if isinstance(answer.result.get("parsed"), dict):
        return None
    expected = f"an answer in the form that was asked for (the call {answer.call})"
    return failed(expected, quote(answer.result.get("text")), "client_not_parsed", call=answer.call)


def _judge_optional(
    subject: Subject, feature: Feature, exchange: Exchange, find: Find
) -> Judgement | str | None:
    """What is wrong; a note where nothing can be said; None where all is right."""
    answer = read_answer(exchange)
    if answer.status in (400, 404, 422, 501) and not subject.promises(feature):
        return f"it refuses {feature.replace('_', ' ')}"
    flaw = find_call_flaw(exchange)
    if flaw:
        return flaw
    if answer.error:
        return f"the token limit ended the call {answer.call}"
    return None if answer.was_cut and not answer.result.get("calls") else find(answer)


def _refused(subject: Subject) -> Request:
    return _call("error", model=subject.published_name, messages=_WRONG_MESSAGES, max_tokens=1)


#: A text where a list must stand.
_WRONG_MESSAGES = "What is 2+2?"


CHECK = Check(
    id="openai_client",
    title="The openai library reads the answers",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
