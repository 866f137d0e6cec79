"""Promise: an answer that must follow a JSON schema follows it, plain and streamed.

Programs read such answers without looking. A fence around the JSON, a key too many or a number out
of bounds breaks them. The schema has what programs use: an object within another, a choice, a list
and bounds of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.contract.json_schema import Schema, find_schema_flaw, is_json_beginning
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.contract.reply import parse_json
from stoker.contract.structured import (
    Formed,
    answer_formed,
    ask_formed,
    find_silence,
    stream_of,
)
from stoker.model.contract import Feature, Subject
from stoker.model.facts import Plain, Unknown
from stoker.ports import Check

_TEXT = (
    "Describe the weather on a summer day in Paris as one line of JSON with the keys sky,"
    " degrees, winds and place. Do not explain it."
)

#: Nothing in it can grow without end, so that the smallest model comes to one.
_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "sky": {"type": "string", "enum": ["clear", "cloudy", "overcast"]},
        "degrees": {"type": "integer", "minimum": 15, "maximum": 39},
        "winds": {
            "type": "array",
            "items": {"type": "string", "enum": ["north", "east", "south", "west"]},
            "minItems": 1,
            "maxItems": 2,
        },
        "place": {
            "type": "object",
            "properties": {
                "country": {"type": "string", "enum": ["France", "Spain"]},
                "is_capital": {"type": "boolean"},
            },
            "required": ["country", "is_capital"],
            "additionalProperties": False,
        },
    },
    "required": ["sky", "degrees", "winds", "place"],
    "additionalProperties": False,
}
_MAX_TOKENS = 400
_FENCE = "```"
_CUT = " up to the token limit"


def _format() -> Mapping[str, Plain]:
    schema: dict[str, Plain] = {"name": "weather", "strict": True, "schema": dict(_SCHEMA)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _try(subject: Subject) -> Steps[Judgement]:
    request = ask_formed(subject, _TEXT, _format(), max_tokens=_MAX_TOKENS)
    contents: list[str] = []
    for each in (request, stream_of(request)):
        formed = yield from answer_formed(subject, each, Feature.STRUCTURED_OUTPUT)
        if isinstance(formed, Judgement):
            return formed
        flaw = find_silence(formed) or _find_flaw(formed)
        if flaw:
            return flaw
        is_cut = isinstance(parse_json(formed.content), Unknown)
        contents.append(f"{formed.form} {quote(formed.content)}{_CUT if is_cut else ''}")
    return passed("an answer by the schema, plain and streamed", "; ".join(contents))


def _find_flaw(formed: Formed) -> Judgement | None:
    content, form = formed.content.strip(), formed.form
    expected = f"a {form} answer that is JSON by the schema and nothing else"
    value = parse_json(content)
    if isinstance(value, Unknown):
        if formed.was_cut and is_json_beginning(content) and content[:1] == "{":
            return None
        symptom = "json_in_fence" if content.startswith(_FENCE) else "schema_ignored"
        return failed(expected, f"no JSON: {quote(content)}", symptom, form=form)
    flaw = find_schema_flaw(value, _SCHEMA)
    if flaw:
        return failed(expected, f"{flaw}: {quote(content)}", "schema_broken", form=form)
    return None


CHECK = Check(
    id="json_schema",
    title="An answer follows its JSON schema",
    level="full",
    plan=plan_of(_try),
    judge=judge_of(_try),
    needs=(Feature.STRUCTURED_OUTPUT,),
)
