"""The replies of /v1/completions, whole and in chunks, in the manners of each engine. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stoker.fake_engine.replies import (
    FINGERPRINT,
    Chunk,
    Reply,
    pieces,
    write_logprobs,
    write_timings,
    write_usage,
)
from stoker.fake_engine.replies_chat import stop_note
from stoker.fake_engine.script import LLAMACPP, SGLANG, VLLM
from stoker.fake_engine.tokens import split_tokens
from stoker.fake_engine.values import Data, Generated, Logprob


def write_completion(reply: Reply) -> Data:
    """The plain reply."""
    choices = [
        _write_choice(reply, place, _shown_text(reply, each), each)
        for place, each in enumerate(reply.choices)
    ]
    return {**_head(reply, choices), "usage": write_usage(reply), **_timings(reply)}


def _shown_text(reply: Reply, generated: Generated) -> str:
    """With ``echo`` the prompt stands before what was made of it."""
    asked = reply.question.prompt or "" if reply.question.is_echoed else ""
    return asked + generated.text


def _timings(reply: Reply) -> Data:
    return {"timings": write_timings(reply)} if reply.script.manners == LLAMACPP else {}


def _head(reply: Reply, choices: list[Data]) -> Data:
    manners = reply.script.manners
    code = {LLAMACPP: f"chatcmpl-{reply.code}", SGLANG: reply.code}
    return {
        "id": code.get(manners, f"cmpl-{reply.code[:16]}"),
        "object": "text_completion",
        "created": reply.created,
        "model": reply.model,
        "choices": choices,
        **({"system_fingerprint": FINGERPRINT[manners]} if manners in FINGERPRINT else {}),
    }


def _write_choice(reply: Reply, place: int, text: str, generated: Generated) -> Data:
    return {
        "text": text,
        "index": place,
        "logprobs": _write_logprobs(reply, generated, 0, len(generated.content)),
        "finish_reason": "stop" if generated.calls else generated.finish_reason,
        **stop_note(reply, generated),
        **generated.extra,
    }


def _write_logprobs(reply: Reply, generated: Generated, first: int, count: int) -> Any:
    """In the older shape of lists; llama.cpp has the chat's here as well."""
    if reply.script.manners == LLAMACPP or generated.logprobs is None:
        return write_logprobs(reply, generated, first, count)
    some = generated.logprobs[first : first + count]
    offset = sum(len(each.token.decode("utf-8", "replace")) for each in generated.logprobs[:first])
    if reply.question.is_echoed and not first:
        asked = split_tokens(reply.question.prompt or "")
        some = (*(Logprob(token=token, logprob=-1.0) for token in asked), *some)
    offsets: list[int] = []
    for each in some:
        offsets.append(-1 if reply.script.manners == SGLANG else offset)
        offset += len(each.token.decode("utf-8", "replace"))
    return {
        "text_offset": offsets,
        "token_logprobs": [
            # Nothing stands before the first token of a prompt that would make it likely.
            None if reply.question.is_echoed and not place else each.logprob
            for place, each in enumerate(some)
        ],
        "tokens": [each.token.decode("utf-8", "replace") for each in some],
        "top_logprobs": [
            {token.decode("utf-8", "replace"): logprob for token, logprob in each.top}
            for each in some
        ],
    }


def write_completion_chunks(reply: Reply) -> list[Chunk]:
    """The chunks of the streamed reply, the closing [DONE] left out."""
    chunks = [
        chunk for place in range(len(reply.choices)) for chunk in _stream_choice(reply, place)
    ]
    if reply.script.manners == LLAMACPP:
        last, tokens = chunks[-1]
        # llama.cpp tells the counts in the last chunk, whether they were asked for or not.
        chunks[-1] = ({**last, "usage": write_usage(reply), **_timings(reply)}, tokens)
    elif reply.with_usage:
        chunks.append(({**_head(reply, []), "usage": write_usage(reply, is_streamed=True)}, 0))
    return chunks


def _stream_choice(reply: Reply, place: int) -> Iterator[Chunk]:
    generated = reply.choices[place]
    ending = {"finish_reason": generated.finish_reason, **stop_note(reply, generated)}
    none = dict.fromkeys(ending)
    made = list(pieces(reply, generated.content))
    if reply.question.is_echoed:
        made.insert(0, (reply.question.prompt or "", 0))
    done = 0
    joins = reply.script.manners in (SGLANG, VLLM) and bool(made) and not generated.has_end
    for number, (text, tokens) in enumerate(made, start=1):
        logprobs = _write_logprobs(reply, generated, done, tokens) if tokens else None
        done += tokens
        last = ending if joins and number == len(made) else none
        choice = {"text": text, "index": place, "logprobs": logprobs, **last}
        yield _head(reply, [choice]), tokens
    if not joins:
        choice = {"text": "", "index": place, "logprobs": None, **ending, **generated.extra}
        yield _head(reply, [choice]), int(generated.has_end)
