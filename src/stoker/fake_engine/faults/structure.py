"""Broken promises of answers in a form: JSON, a schema, a regular expression."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stoker.fake_engine.changing import say_within_limit
from stoker.fake_engine.fault import Fault, Moment
from stoker.fake_engine.values import Generated

_FULL = "full"
_PROSE = "It is a warm summer day in Paris, and the sky is clear."

_SCHEMA = frozenset({"json_schema"})
_OBJECT = frozenset({"json_object"})
_REGEX = frozenset({"regex_followed"})

Answer = Callable[[Generated, Moment], Generated]


def _form_of(moment: Moment) -> str:
    """What form the question demands: json_schema, json_object, regex or none."""
    question = moment.question
    wanted = question.get("response_format")
    if isinstance(wanted, dict):
        return str(wanted.get("type"))
    structured = question.get("structured_outputs")
    has_pattern = isinstance(structured, dict) and structured.get("regex")
    return "regex" if has_pattern or question.get("regex") else ""


def _saying(form: str, change: Callable[[str], str], *, only_streamed: bool = False) -> Answer:
    """Answers that demand this form, with their text changed."""

    def answer(generated: Generated, moment: Moment) -> Generated:
        if _form_of(moment) != form or (only_streamed and not moment.is_streamed):
            return generated
        return say_within_limit(generated, change(generated.text), moment)

    return answer


def _changing(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    """A change of the object that the text is; anything else becomes a list."""

    def change_text(text: str) -> str:
        try:
            value = json.loads(text)
        except ValueError:
            return text
        if isinstance(value, dict):
            change(value)
        return json.dumps(value)

    return change_text


def _break_number(value: dict[str, Any]) -> None:
    for key, each in value.items():
        if isinstance(each, int) and not isinstance(each, bool):
            value[key] = 100_000 + each


def _break_choice(value: dict[str, Any]) -> None:
    for key, each in value.items():
        if isinstance(each, str):
            value[key] = f"{each}?"


def _fault(name: str, title: str, killed_by: frozenset[str], answer: Answer) -> Fault:
    return Fault(name=name, title=title, killed_by=killed_by, level=_FULL, answer=answer)


FAULTS = (
    _fault(
        "schema_ignored",
        "a JSON schema is ignored",
        _SCHEMA,
        _saying("json_schema", lambda text: _PROSE),
    ),
    _fault(
        "schema_ignored_streamed",
        "a JSON schema is ignored in streams",
        _SCHEMA,
        _saying("json_schema", lambda text: _PROSE, only_streamed=True),
    ),
    _fault(
        "schema_in_fence",
        "JSON by a schema stands in a fence",
        _SCHEMA,
        _saying("json_schema", lambda text: f"```json\n{text}\n```"),
    ),
    _fault(
        "schema_extra_key",
        "a key that the schema forbids is there",
        _SCHEMA,
        _saying("json_schema", _changing(lambda value: value.update(note="sunny"))),
    ),
    _fault(
        "schema_key_missing",
        "a key that the schema requires is missing",
        _SCHEMA,
        _saying("json_schema", _changing(lambda value: value.popitem())),
    ),
    _fault(
        "schema_bounds_ignored",
        "the bounds of numbers are ignored",
        _SCHEMA,
        _saying("json_schema", _changing(_break_number)),
    ),
    _fault(
        "schema_choice_ignored",
        "what may be chosen from is ignored",
        _SCHEMA,
        _saying("json_schema", _changing(_break_choice)),
    ),
    _fault(
        "schema_unfinished",
        "JSON by a schema stops before its end",
        _SCHEMA,
        _saying("json_schema", lambda text: text[:-2]),
    ),
    _fault(
        "json_ignored",
        "the demand for a JSON object is ignored",
        _OBJECT,
        _saying("json_object", lambda text: "The answer is 4."),
    ),
    _fault(
        "json_in_fence",
        "a JSON object stands in a fence",
        _OBJECT,
        _saying("json_object", lambda text: f"```json\n{text}\n```"),
    ),
    _fault(
        "json_with_words",
        "words stand before a JSON object",
        _OBJECT,
        _saying("json_object", lambda text: f"Here it is: {text}"),
    ),
    _fault(
        "regex_ignored",
        "a regular expression is ignored",
        _REGEX,
        _saying("regex", lambda text: "The part number is A-7."),
    ),
    _fault(
        "regex_within_words",
        "what a regular expression allows stands among words",
        _REGEX,
        _saying("regex", lambda text: f"It is {text}."),
    ),
    _fault(
        "regex_unfinished",
        "what a regular expression allows stops before its end",
        _REGEX,
        _saying("regex", lambda text: text[:-1]),
    ),
)
