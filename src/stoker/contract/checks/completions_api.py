"""Promise: /v1/completions goes on with a text: plain, streamed, with stop strings, and counted.

Programs for code completion and old clients use it. The prompt is taken as it is: a server that
puts it into a chat template answers another question. A model may end a text at once, so a second
prompt is tried before that means anything.
"""

from __future__ import annotations

from stoker.contract.apis import find_absence, is_refusal, join_reasons
from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_one, judge_of, plan_of
from stoker.contract.reply import describe_status
from stoker.contract.text_completion import (
    Continuation,
    find_continuation_flaw,
    read_continuation,
)
from stoker.model.contract import Exchange, Feature, Request, Subject
from stoker.model.facts import Plain
from stoker.ports import Check

_PATH = "/v1/completions"
_PROMPTS = (
    "The first numbers are one, two, three, four,",
    "Once upon a time there was a small house near the river, and in this house lived",
)
_MAX_TOKENS = 24
_ECHO_TOKENS = 4

#: One token of every tokenizer, with at most a begin and an end mark. Templates add eight or more.
_SHORT_PROMPT = "a"
_SHORT_TOKENS = 6

#: Hardly any text is without it. One alone: of several that stand in one token engines may take
#: any for the first.
_STOP = "e"

_EXPECTED = "texts that go on, plain and streamed"


def _complete(
    subject: Subject,
    prompt: str = _PROMPTS[0],
    *,
    max_tokens: int = _MAX_TOKENS,
    stream: bool = False,
    **more: Plain,
) -> Request:
    streaming = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    body = {"model": subject.published_name, "prompt": prompt, "temperature": 0}
    return Request(
        method="POST",
        path=_PATH,
        body={**body, "max_tokens": max_tokens, **streaming, **more},
        stream=stream,
    )


def _procedure(subject: Subject) -> Steps[Judgement]:
    plain = yield from ask_one(_complete(subject))
    flaw = find_absence(subject, Feature.COMPLETIONS, plain) or _find_flaw(plain)
    if flaw:
        return flaw
    texts = [read_continuation(plain)]
    if not texts[0].text.strip():
        other = yield from ask_one(_complete(subject, _PROMPTS[1]))
        flaw = _find_flaw(other) or _judge_silence(texts[0], read_continuation(other))
        if flaw:
            return flaw
        texts.append(read_continuation(other))
    streamed = yield from ask_one(_complete(subject, stream=True))
    flaw = _find_flaw(streamed)
    if flaw:
        return flaw
    flaw = (yield from _try_prompt(subject)) or (yield from _try_stop(subject))
    if flaw:
        return flaw
    echoed = yield from ask_one(_complete(subject, max_tokens=_ECHO_TOKENS, echo=True))
    found = f"{quote(texts[-1].text)}{join_reasons([_describe_echo(echoed)])}"
    return _find_echo_flaw(echoed) or passed(_EXPECTED, found)


def _find_flaw(exchange: Exchange) -> Judgement | None:
    return find_continuation_flaw(exchange, _MAX_TOKENS)


def _judge_silence(first: Continuation, second: Continuation) -> Judgement | None:
    """Two prompts without a word: the model's own ends, or text that got lost."""
    if second.text.strip():
        return None
    counted = max(first.completion_tokens, second.completion_tokens)
    if counted <= 1:
        return skipped("a model that goes on with a text", "it ended two texts at once")
    found = f"no text at all in {counted} tokens"
    return failed("text in choices[0].text", found, "no_text")


def _try_prompt(subject: Subject) -> Steps[Judgement | None]:
    short = yield from ask_one(_complete(subject, _SHORT_PROMPT, max_tokens=1))
    flaw = find_continuation_flaw(short, 1)
    if flaw:
        return flaw
    tokens = read_continuation(short).prompt_tokens
    if tokens <= _SHORT_TOKENS:
        return None
    return failed(
        "a prompt that is taken as it is",
        f"{tokens} tokens for the prompt {quote(_SHORT_PROMPT)}, as in a chat template",
        "template_on_prompt",
        prompt_tokens=tokens,
    )


def _try_stop(subject: Subject) -> Steps[Judgement | None]:
    stopped = yield from ask_one(_complete(subject, stop=[_STOP]))
    flaw = _find_flaw(stopped)
    text = "" if flaw else read_continuation(stopped).text
    if flaw or _STOP not in text:
        return flaw
    return failed(f"a text that ends before {quote(_STOP)}", quote(text), "stop_ignored")


def _find_echo_flaw(echoed: Exchange) -> Judgement | None:
    """Not every server can repeat the prompt; one that does must put it first, and once."""
    if is_refusal(echoed) or 400 <= echoed.status < 500:
        return None
    flaw = find_continuation_flaw(echoed, _ECHO_TOKENS)
    text = "" if flaw else read_continuation(echoed).text
    if flaw or _PROMPTS[0] not in text or text.lstrip().startswith(_PROMPTS[0]):
        return flaw
    return failed("the prompt before the text, with echo", quote(text), "echo_misplaced")


def _describe_echo(echoed: Exchange) -> str:
    if echoed.status != 200:
        return f"no echo: {describe_status(echoed)}"
    has_echo = read_continuation(echoed).text.lstrip().startswith(_PROMPTS[0])
    return "" if has_echo else "echo is not looked at"


CHECK = Check(
    id="completions_api",
    title="/v1/completions goes on with a text",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
    needs=(Feature.COMPLETIONS,),
)
