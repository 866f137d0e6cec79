"""Promise: a stream that is asked for its token counts ends with them, once, and they are right.

Clients that stream have no other bill. Counts that grow with the chunks are fine; the last ones
must be those of the whole answer, the same as in a plain reply with the same text.
"""

from __future__ import annotations

from stoker.contract.chat import (
    all_text,
    ask_long,
    count_tokens,
    find_form_flaw,
    list_choices,
    read_choice,
    read_pieces,
    read_usage,
)
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.procedure import Steps, ask_each, judge_of, plan_of
from stoker.model.contract import Exchange, Subject
from stoker.ports import Check

_EXPECTED = "the token counts once, at the end of the stream, as in the plain reply"
_FIELDS = ("prompt_tokens", "completion_tokens", "total_tokens")

#: The same text may be made of other tokens now and then, so most of the trials count.
_MOST = 2


def _procedure(subject: Subject) -> Steps[Judgement]:
    differences: list[Judgement] = []
    for number in range(2 * _MOST - 1):
        plain, streamed = yield from ask_each(ask_long(subject, is_new=number > 0))
        flaw = find_form_flaw(plain) or find_form_flaw(streamed) or _find_place_flaw(streamed)
        if flaw:
            return flaw
        difference = _find_difference(plain, streamed)
        if difference is None and number <= len(differences):
            break
        differences += [difference] if difference else []
        if len(differences) == _MOST:
            return difference or differences[0]
    tokens = count_tokens(streamed, "completion_tokens")
    return passed(_EXPECTED, f"{tokens} tokens of the answer, told at its end")


def _find_place_flaw(streamed: Exchange) -> Judgement | None:
    pieces = read_pieces(streamed)
    places = [number for number, piece in enumerate(pieces) if isinstance(piece.get("usage"), dict)]
    if not places:
        return failed(_EXPECTED, f"no usage in {len(pieces)} chunks", "no_stream_usage")
    final = [number for number in places if not list_choices(pieces[number])]
    if len(final) > 1:
        found = f"{len(final)} chunks with nothing but counts"
        return failed(_EXPECTED, found, "stream_usage_twice", count=len(final))
    last_words = max(
        (number for number, piece in enumerate(pieces) if list_choices(piece)), default=0
    )
    if places[-1] < last_words:
        found = f"the last ones in chunk {places[-1] + 1} of {len(pieces)}, before the answer ends"
        return failed(_EXPECTED, found, "stream_usage_not_last")
    return None


def _find_difference(plain: Exchange, streamed: Exchange) -> Judgement | None:
    counts = {"plain": read_usage(plain) or {}, "streamed": read_usage(streamed) or {}}
    is_same_text = all_text(read_choice(plain)) == all_text(read_choice(streamed))
    fields = _FIELDS if is_same_text else _FIELDS[:1]
    # Whether a plain reply has counts at all is the matter of another check.
    differing = [
        field
        for field in fields
        if count_tokens(plain, field) is not None
        and counts["plain"].get(field) != counts["streamed"].get(field)
    ]
    if not differing:
        return None
    field = differing[0]
    values = {form: usage.get(field) for form, usage in counts.items()}
    found = ", ".join(f"{form} {quote(value)}" for form, value in values.items())
    return failed(
        "the same token counts, plain and streamed",
        f"{field} for the same text: {found}",
        "stream_usage_differs",
        field=field,
        **values,
    )


CHECK = Check(
    id="stream_usage",
    title="A stream tells its token counts",
    level="full",
    plan=plan_of(_procedure),
    judge=judge_of(_procedure),
)
