"""Promise: arguments arrive as they are: nested, with lists, and with every character.

Each value may be but one of a few, and the server is asked to hold the model to that, so what
arrives is known. A tool without parameters gets an empty object.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.contract.token_caps import within_cap
from stoker.contract.tool_calls import Turn, read_arguments
from stoker.contract.tool_questions import (
    HARD_TEXT,
    LIGHT,
    LIGHT_QUESTION,
    MANY_TOKENS,
    NOTE,
    NOTE_QUESTION,
    ORDER,
    ORDER_QUESTION,
    ask_tools,
    name_of,
    schemas_of,
    show_calls,
    strictly,
)
from stoker.contract.tool_trials import Demand, demand_calls
from stoker.model.contract import Feature, Subject
from stoker.model.facts import Plain
from stoker.ports import Check

_EXPECTED = "arguments as they are: nested, with lists, and with every character"
_QUESTIONS = (
    (ORDER, ORDER_QUESTION),
    (NOTE, NOTE_QUESTION),
    (LIGHT, LIGHT_QUESTION),
)
#: How like the text another one is that was the same before it was spoiled.
_LIKE = 0.5


def _try(subject: Subject) -> Steps[Judgement]:
    for tool, question in _QUESTIONS:
        request = ask_tools(
            subject,
            show_calls(tool, question),
            [strictly(tool)],
            "required",
            max_tokens=MANY_TOKENS,
            parallel_tool_calls=False,
        )
        # The schema of the note is looser here: its text is looked at below.
        demand = Demand(expected=_EXPECTED, schemas=_loosen(tool))
        tried = yield from demand_calls(subject, [request], demand)
        flaw = tried.flaw or _find_text_flaw(tried.turns[0])
        if flaw:
            return flaw
    return passed(_EXPECTED, f"{len(_QUESTIONS)} calls with all that was asked for")


def _loosen(tool: Mapping[str, Plain]) -> Mapping[str, Plain]:
    schemas = schemas_of([tool])
    if tool is not NOTE:
        return schemas
    return {name_of(NOTE): {**schemas[name_of(NOTE)], "properties": {"text": {"type": "string"}}}}


def _find_text_flaw(turn: Turn) -> Judgement | None:
    for call in turn.calls:
        arguments = read_arguments(call)
        if call.name != name_of(NOTE) or isinstance(arguments, Judgement):
            continue
        text = arguments["text"]
        if text != HARD_TEXT:
            likeness = SequenceMatcher(None, text, HARD_TEXT, autojunk=False).ratio()
            symptom = "tool_arguments_garbled" if likeness > _LIKE else "tool_arguments_off_schema"
            return failed(f"the text {quote(HARD_TEXT)}", quote(text), symptom, tool=call.name)
    return None


CHECK = Check(
    id="tools_arguments",
    title="Arguments of calls arrive as they are",
    level="full",
    plan=plan_of(within_cap(_try, _EXPECTED)),
    judge=judge_of(within_cap(_try, _EXPECTED)),
    needs=(Feature.TOOLS,),
)
