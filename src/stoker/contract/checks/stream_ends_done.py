"""Promise: a streamed answer is whole chunks, ends in one [DONE], and is like the plain answer.

Clients read a stream piece by piece and wait for [DONE]; without it they hang or drop the answer.
The same question is asked in both forms. The words may differ, where they stand may not: an
engine that keeps reasoning apart in one form and not in the other breaks half of its clients.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.contract.completion import (
    DONE,
    Answer,
    ask,
    describe_answer,
    find_answer_flaw,
    find_completion_flaw,
    find_shape_flaw,
    has_text,
    join_answer,
    read_answer,
    read_chunks,
)
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.plans import in_order
from stoker.contract.reply import find_reply_flaw, parse_json
from stoker.model.contract import Exchange, Request, Subject
from stoker.model.facts import Plain, Unknown, read_path
from stoker.ports import Check

_EXPECTED = f"a stream of whole chunks that join to an answer and end in one {DONE}"


#: Seconds since 1970 in the year 5138; milliseconds of today are beyond it.
_LATEST_SECONDS = 100_000_000_000


def _requests(subject: Subject) -> Sequence[Request]:
    return (ask(subject.published_name), ask(subject.published_name, stream=True))


def _judge(subject: Subject, exchanges: Sequence[Exchange]) -> Judgement:
    plain, streamed = exchanges
    chunks = read_chunks(streamed.events)
    answer = join_answer(chunks)
    return (
        find_reply_flaw(streamed)
        or _find_ending_flaw(streamed)
        or _find_chunk_flaw(chunks)
        or _find_opening_flaw(chunks)
        or _find_identity_flaw(chunks)
        or _find_late_text(chunks)
        or find_answer_flaw(answer)
        or _find_difference(plain, answer)
        or passed(_EXPECTED, f"{len(chunks)} chunks that join to {describe_answer(answer)}")
    )


def _find_ending_flaw(streamed: Exchange) -> Judgement | None:
    events, expected = streamed.events, f"one {DONE}, as the last event"
    if not events:
        found = f"a plain reply: {quote(streamed.body)}" if streamed.body else "no event at all"
        return failed("a stream of events (text/event-stream)", found, "not_streamed")
    if DONE not in events:
        found = f"no {DONE} in {len(events)} events; the last: {quote(events[-1])}"
        return failed(expected, found, "no_done")
    if events.count(DONE) > 1:
        return failed(expected, f"{events.count(DONE)} times {DONE}", "done_twice")
    if events[-1] != DONE:
        found = f"{quote(events[events.index(DONE) + 1])} after {DONE}"
        return failed(expected, found, "done_too_early")
    return None


def _find_chunk_flaw(chunks: Sequence[Plain | Unknown]) -> Judgement | None:
    for number, chunk in enumerate(chunks, start=1):
        flaw = find_shape_flaw(chunk, "chat.completion.chunk")
        if flaw:
            return failed(flaw.expected, f"in event {number} {flaw.found}", flaw.symptom)
    return None


def _find_identity_flaw(chunks: Sequence[Plain]) -> Judgement | None:
    """All chunks are of one answer, made at one time, which is told in seconds."""
    ids = list(dict.fromkeys(chunk["id"] for chunk in chunks))
    if len(ids) > 1:
        found = f"{len(ids)} of them, among them {quote(ids[0])} and {quote(ids[1])}"
        return failed("the same id in all chunks", found, "stream_id_changes", count=len(ids))
    for chunk in chunks:
        created = read_path(chunk, "created")
        if isinstance(created, (int, float)) and not 0 <= created <= _LATEST_SECONDS:
            found = f"created: {quote(created)}"
            return failed("a time in seconds as created", found, "wrong_created")
    return None


def _find_late_text(chunks: Sequence[Plain]) -> Judgement | None:
    """The chunk that ends the answer may hold its last words, and none may come after it."""
    parts = [join_answer([chunk]) for chunk in chunks]
    end = next((place for place, part in enumerate(parts) if part.finish_reason), len(parts))
    late = next((part.text for part in parts[end + 1 :] if part.text), "")
    if not late:
        return None
    found = f"{quote(late)} after finish_reason {quote(parts[end].finish_reason)}"
    return failed("no words after the end of the answer", found, "text_after_end")


def _find_opening_flaw(chunks: Sequence[Plain]) -> Judgement | None:
    """The first chunk says who speaks; a chunk without choices may come before it."""
    opening = next((chunk for chunk in chunks if chunk["choices"]), None)
    role = read_path(opening, "choices.0.delta.role")
    if role == "assistant":
        return None
    found = "none there" if isinstance(role, Unknown) else quote(role)
    return failed('the role "assistant" in the first chunk', found, "wrong_role")


def _find_difference(plain_exchange: Exchange, streamed: Answer) -> Judgement | None:
    """Compare which fields hold text. The token limit may end either form before its content."""
    if find_completion_flaw(plain_exchange):
        return None  # whether the plain answer is any good is the matter of another check
    plain = read_answer(parse_json(plain_exchange.body))
    both_stopped = plain.finish_reason == streamed.finish_reason == "stop"
    for field in ("reasoning", "content") if both_stopped else ("reasoning",):
        in_plain, in_stream = has_text(getattr(plain, field)), has_text(getattr(streamed, field))
        if in_plain != in_stream:
            form = "plain" if in_plain else "streamed"
            expected = "text in the same fields, plain and streamed"
            found = f"{field} only {form}"
            return failed(expected, found, "fields_differ", field=field, form=form)
    return None


CHECK = Check(
    id="stream_ends_done",
    title="A streamed answer is whole and ends",
    level="quick",
    plan=in_order(_requests),
    judge=_judge,
)
