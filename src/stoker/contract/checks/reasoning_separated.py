"""Promise: thoughts stand in a field of their own and never in the answer, in either form.

Whether the model thinks is its own matter; a server that shows its thoughts has to keep them
apart, in a stream as in a plain reply and in the same field.
"""

from __future__ import annotations

from stoker.contract.judgement import Judgement, failed, passed, quote, skipped
from stoker.contract.procedure import Steps, ask_all, judge_of, plan_of
from stoker.contract.thoughts import ask_for_thoughts, find_count_flaw, find_thought_flaw
from stoker.contract.tool_calls import Turn, read_turn
from stoker.model.contract import Feature, Subject
from stoker.ports import Check

_EXPECTED = "thoughts in a field of their own, plain and streamed"


def _try(subject: Subject) -> Steps[Judgement]:
    exchanges = yield from ask_all(
        [ask_for_thoughts(subject, stream=stream) for stream in (False, True)]
    )
    plain, streamed = map(read_turn, exchanges)
    return (
        find_thought_flaw(plain)
        or find_thought_flaw(streamed)
        or _find_difference(plain, streamed)
        or find_count_flaw(exchanges[0])
        or _sum_up(plain)
    )


def _find_difference(plain: Turn, streamed: Turn) -> Judgement | None:
    fields = set(plain.reasoning_fields), set(streamed.reasoning_fields)
    if fields[0] & fields[1] or not (fields[0] or fields[1]):
        return None
    if fields[0] and fields[1]:
        found = f"{', '.join(sorted(fields[0]))} plain, {', '.join(sorted(fields[1]))} streamed"
        return failed("thoughts in the same field", found, "reasoning_field_differs")
    form, other = ("plain", streamed) if fields[0] else ("streamed", plain)
    found = f"thoughts only in the {form} reply; the {other.form} one says {quote(other.text)}"
    return failed(_EXPECTED, found, "reasoning_only_in_one_form", form=form)


def _sum_up(plain: Turn) -> Judgement:
    if not plain.thoughts.strip():
        return skipped(_EXPECTED, "the model shows no thoughts")
    return passed(_EXPECTED, f"{plain.reasoning_fields[0]}: {quote(plain.thoughts)}")


CHECK = Check(
    id="reasoning_separated",
    title="Thoughts are kept apart from the answer",
    level="quick",
    plan=plan_of(_try),
    judge=judge_of(_try),
    needs=(Feature.REASONING,),
)
