"""What the replies of all interfaces share: names, counts, and the pieces of a stream.

Pure. :mod:`stoker.fake_engine.core` makes a :class:`Reply` for each request that was computed; the
modules beside this one write it as JSON, whole or in chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from stoker.fake_engine.script import CACHE_REPORT, LLAMACPP, SGLANG, SPECULATION, VLLM, Script
from stoker.fake_engine.tokens import whole_pieces
from stoker.fake_engine.values import Call, Data, Generated, Logprob, Question, call_tokens

#: A piece of a stream, and how many tokens were made since the one before it.
Chunk = tuple[Data, int]
FINGERPRINT = {LLAMACPP: "b0-unknown", VLLM: "vllm-0.32.0-16cf0964"}
END_TEXT = {LLAMACPP: "", SGLANG: "<|im_end|>", VLLM: "<|im_end|>"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A request that was computed. ``model``: what it is called in the reply.

    ``with_usage``: a stream ends with the counts; ``with_counts``: each chunk has them. ``code`` is
    32 hexadecimal digits that make its ids. ``seconds`` is how long computing took.
    """

    script: Script
    question: Question
    choices: tuple[Generated, ...]
    model: str
    code: str
    created: int
    data: Data
    with_usage: bool = False
    with_counts: bool = False
    most_tokens: int = 1
    seconds: float = 0.0

    def sizes(self) -> Iterator[int]:
        """How many tokens go into each chunk of a stream."""
        chance = Random(self.code)
        while True:
            yield chance.randint(1, self.most_tokens)


def pieces(reply: Reply, tokens: Sequence[bytes]) -> Iterator[tuple[str, int]]:
    """The text of a stream in pieces, and of how many tokens each is."""
    return whole_pieces(tokens, reply.sizes())


def argument_pieces(reply: Reply, call: Call) -> Iterator[tuple[str, int]]:
    """The arguments of a call in pieces; its name came before."""
    head = len(call.name.encode()) + 1
    kept: list[bytes] = []
    for token in call_tokens(call):
        cut = min(head, len(token))
        head -= cut
        if token[cut:]:
            kept.append(token[cut:])
    return whole_pieces(kept, reply.sizes())


def name_tokens(call: Call) -> int:
    """How many tokens the name of a call takes, beside those of its arguments."""
    head, count = len(call.name.encode()) + 1, 0
    for token in call_tokens(call):
        if head < len(token):
            break
        head -= len(token)
        count += 1
    return count


def completion_tokens(reply: Reply) -> int:
    """All tokens of all choices; llama.cpp counts those of the first alone."""
    if reply.script.manners == LLAMACPP:
        return reply.choices[0].completion_tokens
    return sum(each.completion_tokens for each in reply.choices)


def write_usage(reply: Reply, made: int | None = None, *, is_streamed: bool = False) -> Data:
    """The counts in the manner of the engine; ``made`` where not all tokens are made yet."""
    first, script = reply.choices[0], reply.script
    completion = completion_tokens(reply) if made is None else made
    prompt = _prompt_tokens(reply)
    if script.manners == LLAMACPP:
        return {
            "completion_tokens": completion,
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": first.cached_tokens},
        }
    usage: Data = {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": _details(first, script),
    }
    thoughts = len(first.reasoning)
    told = {"reasoning_tokens": thoughts} if thoughts else None
    if script.manners == SGLANG:
        return {**usage, "reasoning_tokens": thoughts, "completion_tokens_details": told}
    if is_streamed:
        usage = {name: value for name, value in usage.items() if value is not None}
        return {**usage, **({"completion_tokens_details": told} if told else {})}
    return {**usage, "completion_tokens_details": told}


def _prompt_tokens(reply: Reply) -> int:
    """Those of all prompts of a request, each counted once; llama.cpp tells the first alone."""
    if reply.script.manners == LLAMACPP:
        return reply.choices[0].prompt_tokens
    firsts = reply.choices[:: reply.question.sampling.count]
    return sum(each.prompt_tokens for each in firsts)


def _details(first: Generated, script: Script) -> Data | None:
    if not script.has(CACHE_REPORT):
        return None
    if script.manners == SGLANG:
        images = {"image_tokens": first.image_tokens} if first.image_tokens else {}
        return {"cached_tokens": first.cached_tokens, **images}
    weight = first.image_tokens or None
    details: Data = {"cached_tokens": first.cached_tokens, "created_cache_tokens": 0}
    return {**details, "multimodal_tokens": weight}


def write_timings(reply: Reply) -> Data:
    """llama.cpp's own word on what it computed; times in milliseconds."""
    first = reply.choices[0]
    fresh = max(1, first.prompt_tokens - first.cached_tokens)
    made = max(1, first.completion_tokens)
    timing = reply.script.timing
    prompt_ms = 1000 * (timing.first_token_seconds + fresh * timing.seconds_per_prompt_token)
    predicted_ms = 1000 * made * timing.seconds_per_token
    prompt_ms, predicted_ms = max(prompt_ms, 0.5), max(predicted_ms, 0.5)
    timings: Data = {
        "cache_n": first.cached_tokens,
        "prompt_n": fresh,
        "prompt_ms": round(prompt_ms, 3),
        "prompt_per_token_ms": prompt_ms / fresh,
        "prompt_per_second": 1000 * fresh / prompt_ms,
        "predicted_n": made,
        "predicted_ms": round(predicted_ms, 3),
        "predicted_per_token_ms": predicted_ms / made,
        "predicted_per_second": 1000 * made / predicted_ms,
    }
    if reply.script.has(SPECULATION) and reply.question.is_drafted:
        drafted, accepted, _ = count_drafts(made)
        timings |= {"draft_n": drafted, "draft_n_accepted": accepted}
    return timings


#: Of so many tokens that are drafted at a time, so many are taken.
DRAFTED, ACCEPTED = 4, 3


def count_drafts(tokens: int) -> tuple[int, int, int]:
    """How many tokens were drafted for these, how many of them were taken, in how many drafts."""
    drafts = tokens // (ACCEPTED + 1)
    return drafts * DRAFTED, drafts * ACCEPTED, drafts


def write_logprobs(reply: Reply, generated: Generated, first: int, count: int) -> Any:
    """The log-probabilities of some tokens of the content in OpenAI's shape."""
    if generated.logprobs is None:
        return None
    some = generated.logprobs[first : first + count]
    if reply.script.manners == SGLANG:
        return {"content": [_write_token(reply, each, each.token) for each in some]}
    return {"content": list(_write_whole(reply, some))}


def _write_whole(reply: Reply, some: Sequence[Logprob]) -> Iterator[Data]:
    """A token that ends a character is told as the whole of it; the others as nothing."""
    waiting = b""
    for each in some:
        waiting += each.token
        try:
            waiting.decode("utf-8")
        except UnicodeDecodeError:
            if reply.script.manners == VLLM:
                yield _write_token(reply, each, b"")
            continue
        yield _write_token(reply, each, waiting)
        waiting = b""


def _write_token(reply: Reply, each: Logprob, told: bytes) -> Data:
    is_numbered = reply.script.manners == LLAMACPP
    entry = {
        "token": told.decode("utf-8", "replace"),
        "bytes": list(told),
        "logprob": each.logprob,
        "top_logprobs": [
            {
                **({"id": 256 + place} if is_numbered else {}),
                "token": (token if token != each.token else told).decode("utf-8", "replace"),
                "bytes": list(token if token != each.token else told),
                "logprob": logprob,
            }
            for place, (token, logprob) in enumerate(each.top)
        ],
    }
    return {"id": 256, **entry} if is_numbered else entry


def write_end_logprob(reply: Reply, generated: Generated) -> list[Data]:
    """The token that ends an answer is told with the others."""
    if generated.logprobs is None or not generated.has_end or generated.stop_note not in (None, 2):
        return []
    # The likeliest tokens beside it are those of the token before.
    last = generated.logprobs[-1] if generated.logprobs else Logprob(token=b"", logprob=-0.01)
    text = END_TEXT[reply.script.manners].encode()
    others = last.top[1:]
    first = ((text, last.logprob), *others) if last.top else ()
    return [_write_token(reply, replace(last, token=text, top=first), text)]
