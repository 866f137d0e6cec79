"""Promise: /v1/messages answers as Anthropic's interface does, plain and streamed.

Agents that were written for it use it: content blocks, a reason why it stopped, token counts, and
events in a fixed order. The system prompt must reach the model, and tools where there are any. The
key goes as a bearer token, as everywhere.
"""

from __future__ import annotations

from stoker.contract.api_tools import NAME, PARAMETERS, ToolTrial, judge_tools
from stoker.contract.apis import find_absence, is_count, is_refusal, join_reasons, read_object
from stoker.contract.completion import QUESTION
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.messages import find_message_flaw, find_text_flaw, read_message
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.model.contract import Exchange, Feature, Offer, Request, Subject
from stoker.model.facts import Plain, read_path
from stoker.ports import Check

_PATH = "/v1/messages"
_CHAT_PATH = "/v1/chat/completions"
_MAX_TOKENS = 32
_TOOL_TOKENS = 96
_TOOL_QUESTION = "What is the weather in Paris?"
_TOOL: dict[str, Plain] = {
    "name": NAME,
    "description": "Tells the weather in a city.",
    "input_schema": PARAMETERS,
}

#: More to say than anybody says within the limit, for models of any wit.
_LONG_QUESTION = "Count from one to one hundred in words."
_CUT_TOKENS = (8, 5)

#: Two system prompts, so that a default one of the template counts in neither.
_SHORT_SYSTEM = "Be kind."
_LONG_SYSTEM = (
    "You help the visitors of a small museum by the sea. Answer in plain words, name the room where"
    " a picture hangs, and tell the way to the garden, the library and the old harbour."
)
_LEAST_EXTRA_TOKENS = 10

_EXPECTED = "a message with content blocks, plain and streamed"


def _ask(
    subject: Subject,
    question: str = QUESTION,
    *,
    max_tokens: int = _MAX_TOKENS,
    stream: bool = False,
    **more: Plain,
) -> Request:
    streaming = {"stream": True} if stream else {}
    body: dict[str, Plain] = {
        "model": subject.published_name,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": max_tokens,
    }
    return Request(method="POST", path=_PATH, body={**body, **streaming, **more}, stream=stream)


def _procedure(subject: Subject) -> Steps[Judgement]:
    plain = yield from ask_one(_ask(subject))
    flaw = find_absence(subject, Feature.MESSAGES, plain) or _find_flaw(plain)
    if flaw:
        return flaw
    streamed = yield from ask_one(_ask(subject, stream=True))
    flaw = (
        _find_flaw(streamed)
        or _find_difference(plain, streamed)
        or (yield from _try_limit(subject))
        or (yield from _try_system(subject))
    )
    if flaw:
        return flaw
    note = ""
    if subject.offered(Feature.TOOLS).offer is not Offer.ABSENT:
        outcome = yield from _try_tools(subject)
        if isinstance(outcome, Judgement):
            return outcome
        note = outcome
    message = read_message(plain)
    text = message.text if message.text.strip() else message.thoughts
    return passed(_EXPECTED, f"{quote(text)}{join_reasons([note])}")


def _find_flaw(exchange: Exchange) -> Judgement | None:
    return find_message_flaw(exchange, _MAX_TOKENS) or find_text_flaw(read_message(exchange))


def _find_difference(plain: Exchange, streamed: Exchange) -> Judgement | None:
    """The same question is as long in both forms."""
    counts = [read_message(each).prompt_tokens for each in (plain, streamed)]
    if abs(counts[0] - counts[1]) <= 1:
        return None
    found = f"{counts[0]} tokens of the prompt plain, {counts[1]} streamed"
    return failed("the same token counts, plain and streamed", found, "usage_wrong")


def _try_limit(subject: Subject) -> Steps[Judgement | None]:
    """Whoever is cut off by the limit must be told so. Once it may be chance that it fits."""
    ended = []
    for tokens in _CUT_TOKENS:
        exchange = yield from ask_one(_ask(subject, _LONG_QUESTION, max_tokens=tokens))
        flaw = find_message_flaw(exchange, tokens)
        if flaw:
            return flaw
        message = read_message(exchange)
        if message.stop_reason == "max_tokens" or message.output_tokens < tokens:
            return None
        ended.append(f"{message.output_tokens} of {tokens}")
    found = f"end_turn after {' and after '.join(ended)} tokens"
    return failed("stop_reason max_tokens where the limit ended it", found, "wrong_stop_reason")


def _try_system(subject: Subject) -> Steps[Judgement | None]:
    """The system prompt must lengthen the prompt as it does in a chat."""
    counts: list[int] = []
    for system in (_SHORT_SYSTEM, _LONG_SYSTEM):
        exchange = yield from ask_one(_ask(subject, max_tokens=1, system=system))
        if "system" in exchange.body.lower() and exchange.status >= 400:
            return None  # the template has no place for one, and says so
        flaw = find_message_flaw(exchange, 1)
        if flaw:
            return flaw
        counts.append(read_message(exchange).prompt_tokens)
    extra = counts[1] - counts[0]
    if extra >= _LEAST_EXTRA_TOKENS:
        return None
    chats: list[Plain] = []
    for system in (_SHORT_SYSTEM, _LONG_SYSTEM):
        exchange = yield from ask_one(_chat(subject, system))
        chats.append(read_path(read_object(exchange), "usage.prompt_tokens"))
    if not all(map(is_count, chats)):
        return None  # whether chats are counted is the matter of another check
    in_chat = chats[1] - chats[0]
    if in_chat < _LEAST_EXTRA_TOKENS:
        return None
    found = f"a long one adds {extra} tokens here and {in_chat} in a chat"
    return failed("a system prompt that reaches the model", found, "system_ignored")


def _chat(subject: Subject, system: str) -> Request:
    turns = [{"role": "system", "content": system}, {"role": "user", "content": QUESTION}]
    body = {"model": subject.published_name, "messages": turns, "temperature": 0, "max_tokens": 1}
    return Request(method="POST", path=_CHAT_PATH, body=body)


def _try_tools(subject: Subject) -> Steps[Judgement | str]:
    """What is wrong with calls of tools, else a note on them."""
    control = yield from ask_one(_ask(subject, _TOOL_QUESTION))
    flaw = find_message_flaw(control, _MAX_TOKENS)
    if flaw:
        return flaw
    for stream in (False, True):
        request = _ask(
            subject,
            _TOOL_QUESTION,
            max_tokens=_TOOL_TOKENS,
            stream=stream,
            tools=[_TOOL],
            tool_choice={"type": "any"},
        )
        exchange = yield from ask_one(request)
        if is_refusal(exchange) or exchange.status == 400:
            return "it refuses tools"
        flaw = find_message_flaw(exchange, _TOOL_TOKENS)
        if flaw:
            return flaw
        note = judge_tools(subject, _read_trial(control, exchange))
        if note:
            return note
    return f"it calls {NAME}"


def _read_trial(control: Exchange, exchange: Exchange) -> ToolTrial:
    message = read_message(exchange)
    return ToolTrial(
        calls=tuple(
            (call.get("id"), call.get("name"), call.get("input")) for call in message.calls
        ),
        text=message.text,
        was_cut=message.stop_reason == "max_tokens",
        extra_tokens=message.prompt_tokens - read_message(control).prompt_tokens,
        is_streamed=exchange.request.stream,
        has_text_arguments=False,
    )


CHECK = Check(
    id="messages_api",
    title="/v1/messages answers as Anthropic's interface does",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
    needs=(Feature.MESSAGES,),
)
