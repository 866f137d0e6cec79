"""Promise: an answer that must be a JSON object is one, and nothing stands around it."""

from __future__ import annotations

from stoker.contract.json_schema import is_json_beginning
from stoker.contract.judgement import Judgement, failed, passed, quote
from stoker.contract.procedure import Steps, judge_of, plan_of
from stoker.contract.reply import parse_json
from stoker.contract.structured import Formed, answer_formed, ask_formed, find_silence
from stoker.model.contract import Feature, Subject
from stoker.model.facts import Unknown
from stoker.ports import Check

#: Without the word JSON in the question OpenAI's own server refuses it.
_TEXT = 'What is 2+2? Answer with this JSON object and nothing else: {"answer": 4}'
_MAX_TOKENS = 200
_EXPECTED = "an answer that is a JSON object and nothing else"


def _try(subject: Subject) -> Steps[Judgement]:
    fields = {"response_format": {"type": "json_object"}}
    request = ask_formed(subject, _TEXT, fields, max_tokens=_MAX_TOKENS)
    formed = yield from answer_formed(subject, request, Feature.STRUCTURED_OUTPUT)
    if isinstance(formed, Judgement):
        return formed
    return find_silence(formed) or _judge(formed)


def _judge(formed: Formed) -> Judgement:
    content = formed.content.strip()
    value = parse_json(content)
    if isinstance(value, dict):
        return passed(_EXPECTED, quote(content))
    if not isinstance(value, Unknown):
        return failed(_EXPECTED, f"JSON that is no object: {quote(content)}", "no_json_object")
    if formed.was_cut and content[:1] == "{" and is_json_beginning(content):
        return passed(_EXPECTED, f"the beginning of one, up to the token limit: {quote(content)}")
    symptom = "json_in_fence" if content.startswith("```") else "no_json_object"
    return failed(_EXPECTED, f"no JSON: {quote(content)}", symptom)


CHECK = Check(
    id="json_object",
    title="An answer that must be JSON is",
    level="full",
    plan=plan_of(_try),
    judge=judge_of(_try),
    needs=(Feature.STRUCTURED_OUTPUT,),
)
