"""The scripted model: a question becomes what it says, token by token.

Pure but for the chance that it is handed. :mod:`stoker.fake_engine.core` gives it the prompt's
tokens and the cache's word on them, and makes a reply of what comes back.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

from stoker.fake_engine.calling import Caller, decide_calls, find_hint
from stoker.fake_engine.instances import make_instance, make_match
from stoker.fake_engine.pictures import read_picture
from stoker.fake_engine.script import LLAMACPP, REASONING, SGLANG, STRUCTURE, TOOLS, Script
from stoker.fake_engine.tokens import join_tokens, split_tokens
from stoker.fake_engine.values import Call, Generated, Logprob, Question, Turn
from stoker.fake_engine.wit import Mind, answer, ramble

_IMAGE = b"<image>"
#: What the number of the end token is in the small model whose size this one has.
END_TOKEN = 2
_OTHER_WORDS = (b"the ", b"a ", b"it ", b"is ", b"and ", b"of ", b"not ", b"one ", b"so ", b"yes ")
_THOUGHT = "The user says: {said} I will think about this for a moment. Then I answer briefly."
_LONGEST_QUOTE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A question as the model gets it."""

    tokens: tuple[bytes, ...]
    image_tokens: int = 0
    cached_tokens: int = 0


def render_prompt(question: Question) -> tuple[tuple[bytes, ...], int]:
    """The tokens of the prompt by the chat template, and how many of them are pictures."""
    if question.prompt is not None:
        return split_tokens(question.prompt), 0
    tokens: list[bytes] = []
    images = 0
    if question.tools and question.tool_choice != "none":
        text = json.dumps(question.tools, ensure_ascii=False)
        tokens += _frame("system", split_tokens(f"You may call these functions. {text}"))
    for turn in question.turns:
        pictures = [_IMAGE + str(zlib.crc32(url.encode())).encode() for url in turn.images]
        weights = [_weigh(url) for url in turn.images]
        seen = [
            each for name, weight in zip(pictures, weights, strict=True) for each in [name] * weight
        ]
        images += len(seen)
        tokens += _frame(turn.role, (*seen, *split_tokens(turn.text), *_spell_calls(turn)))
    return (*tokens, b"<|im_start|>", b"assistant", b"\n"), images


def _weigh(url: str) -> int:
    picture = read_picture(url)
    return picture.tokens if picture else 1


def _frame(role: str, tokens: Sequence[bytes]) -> list[bytes]:
    return [b"<|im_start|>", role.encode("utf-8", "replace"), b"\n", *tokens, b"<|im_end|>", b"\n"]


def _spell_calls(turn: Turn) -> tuple[bytes, ...]:
    return tuple(
        token for call in turn.calls for token in split_tokens(f"{call.name} {call.arguments}")
    )


def generate(script: Script, question: Question, prompt: Prompt, chance: Random) -> Generated:
    """What the model says for one choice."""
    is_sampled = question.sampling.temperature > 0
    mind = Mind(wits=script.wits, chance=chance if is_sampled else None)
    generated = _say(script, question, mind)
    generated = replace(
        generated,
        prompt_tokens=script.fixed.prompt_tokens or len(prompt.tokens),
        cached_tokens=prompt.cached_tokens,
        image_tokens=prompt.image_tokens,
        extra=script.fixed.extra,
    )
    room = script.limits.context_tokens - len(prompt.tokens)
    generated = _lengthen(generated, question, mind, room)
    generated = _stop_at_words(generated, question, script)
    generated = _limit(generated, question, room)
    if script.fixed.finish_reason:
        generated = replace(generated, finish_reason=script.fixed.finish_reason)
    if question.sampling.top_logprobs is not None:
        generated = replace(
            generated, logprobs=_guess((*generated.reasoning, *generated.content), question, script)
        )
    return generated


def _say(script: Script, question: Question, mind: Mind) -> Generated:
    """All that the model would say, were there no limits."""
    note = END_TOKEN if script.manners == SGLANG else None
    fixed = script.fixed
    if fixed.text is not None:
        return Generated(
            reasoning=split_tokens(fixed.reasoning if question.is_thinking else ""),
            content=split_tokens(fixed.text),
            stop_note=note,
        )
    if question.prompt is not None:
        return Generated(content=split_tokens(_go_on(question.prompt, mind)), stop_note=note)
    said = answer(question.turns, mind)
    asked = next((turn.text for turn in reversed(question.turns) if turn.role == "user"), "")
    thinks = script.has(REASONING) and question.is_thinking
    thoughts = split_tokens(_THOUGHT.format(said=_shorten(asked))) if thinks else ()
    if script.has(TOOLS):
        caller = Caller(text=asked, rules=script.wits.arguments, said=said)
        calls = decide_calls(question, caller)
        if calls:
            named = tuple(
                replace(call, id=_call_id(script, mind, place)) for place, call in enumerate(calls)
            )
            return Generated(
                reasoning=thoughts, calls=named, finish_reason="tool_calls", stop_note=note
            )
    if question.shape and script.has(STRUCTURE):
        said = _fit(question, asked, said, script)
    return Generated(reasoning=thoughts, content=split_tokens(said), stop_note=note)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_QUOTE else f"{line[:_LONGEST_QUOTE]} ..."


def _go_on(prompt: str, mind: Mind) -> str:
    """How the model goes on with a text that is no conversation."""
    said = answer((Turn(role="user", text=f"What is {prompt.strip()}?"),), mind)
    if "I do not know much" in said:
        said = answer((Turn(role="user", text=prompt),), mind)
    more = " ".join(islice(ramble(mind), 3))
    return f" {said.rstrip('.')}. {more}"


def _call_id(script: Script, mind: Mind, place: int) -> str:
    chance = mind.chance or Random()
    code = f"{chance.getrandbits(96):024x}"
    if script.manners == SGLANG:
        return f"call_{code}"
    return (
        code[:32] + f"{place:08d}" if script.manners == LLAMACPP else f"chatcmpl-tool-{code[:16]}"
    )


def _fit(question: Question, asked: str, said: str, script: Script) -> str:
    """The answer in the shape that was asked for. Raises ValueError where no text can have it."""
    shape = question.shape
    if shape is None:
        return said
    if shape.pattern:
        return make_match(shape.pattern, said.rstrip("."))
    caller = Caller(text=asked, rules=script.wits.arguments, said=said.rstrip("."))
    return json.dumps(make_instance(shape.schema, find_hint(caller)), ensure_ascii=False)


def _lengthen(generated: Generated, question: Question, mind: Mind, room: int) -> Generated:
    """Where the end is not to be heeded, or not yet, the model rambles on."""
    sampling = question.sampling
    most = min(room, sampling.max_tokens if sampling.max_tokens is not None else room)
    wanted = most if sampling.ignores_end else min(most, sampling.min_tokens)
    missing = wanted - generated.completion_tokens + generated.has_end
    if missing <= 0 or generated.calls or question.shape:
        return generated
    more: list[bytes] = []
    sentences = ramble(mind)
    while len(more) < missing:
        more += split_tokens(f" {next(sentences)}")
    return replace(generated, content=(*generated.content, *more[:missing]))


def _stop_at_words(generated: Generated, question: Question, script: Script) -> Generated:
    """End before the first of the stop texts, wherever the tokens are cut."""
    text = generated.text
    places = [(text.find(stop), stop) for stop in question.sampling.stops if stop and stop in text]
    if not places or generated.calls:
        return generated
    place, stop = min(places)
    needed = len(text[: place + len(stop)].encode())
    made, seen = 0, 0
    while seen < needed:
        seen += len(generated.content[made])
        made += 1
    kept = split_text_at(generated.content, len(text[:place].encode()))
    # What was made of the stop text is counted, though it is not shown.
    hidden = made - len(kept)
    return replace(
        generated,
        content=kept,
        finish_reason="stop",
        stop_note=stop if script.manners != LLAMACPP else None,
        has_end=hidden > 0,
    )


def split_text_at(tokens: Sequence[bytes], size: int) -> tuple[bytes, ...]:
    """The tokens up to so many bytes; the last one may be cut."""
    kept: list[bytes] = []
    for token in tokens:
        if size <= 0:
            break
        kept.append(token[:size])
        size -= len(token)
    return tuple(kept)


def _limit(generated: Generated, question: Question, room: int) -> Generated:
    """Cut what is beyond the limit: thoughts and words are told apart by where they stand."""
    wanted = question.sampling.max_tokens
    limit = max(1, min(room, wanted if wanted is not None else room))
    if question.sampling.ignores_end and not generated.calls and not question.shape:
        generated = replace(generated, has_end=False)
        if generated.completion_tokens >= limit and generated.finish_reason == "stop":
            generated = replace(generated, finish_reason="length", stop_note=None)
    if generated.completion_tokens <= limit:
        return generated
    thoughts = generated.reasoning[:limit]
    room_left = limit - len(thoughts)
    return replace(
        generated,
        reasoning=thoughts,
        content=generated.content[:room_left],
        calls=_limit_calls(generated.calls, room_left),
        finish_reason="length",
        stop_note=None,
        has_end=False,
    )


def _limit_calls(calls: Sequence[Call], room: int) -> tuple[Call, ...]:
    kept: list[Call] = []
    for call in calls:
        head = split_tokens(f"{call.name} ")
        tokens = split_tokens(f"{call.name} {call.arguments}")
        if room < len(head):
            break
        text = join_tokens(tokens[:room]).removeprefix(f"{call.name} ")
        kept.append(replace(call, arguments=text))
        room -= len(tokens)
    return tuple(kept)


def _guess(tokens: Sequence[bytes], question: Question, script: Script) -> tuple[Logprob, ...]:
    """Log-probabilities that add up to no more than certainty at each place."""
    count = question.sampling.top_logprobs or 0
    if script.manners == LLAMACPP and not count:
        count = 10  # llama.cpp tells the ten likeliest where no number is named
    return tuple(_guess_one(place, token, count) for place, token in enumerate(tokens))


def _guess_one(place: int, token: bytes, count: int) -> Logprob:
    share = 0.55 + (zlib.crc32(token + str(place).encode()) % 400) / 1000
    left = 1 - share
    others = [word for word in _OTHER_WORDS if word != token]
    others += [b"w%d " % number for number in range(max(0, count - 1 - len(others)))]
    top = [(token, math.log(share))]
    for word in others[: max(0, count - 1)]:
        top.append((word, math.log(left * 0.5)))
        left *= 0.5
    return Logprob(token=token, logprob=math.log(share), top=tuple(top[:count]))
