"""What the checks of tools ask: the tools, and questions that make a model call them or not.

The tools are small and closed (each value one of a few), so that an answer is short and any server
that holds to the schema answers the same. Earlier turns show how such a call goes, which makes
even a small model call by itself. Nothing here is judged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.model.contract import Feature, Request, Subject
from stoker.model.facts import Plain

#: Enough for a call and some words before it.
MAX_TOKENS = 256

#: For the promises that are tried at leisure: room for thoughts, too.
MANY_TOKENS = 512
LONG_SECONDS = 180.0

#: What the longest of the prompts below may have, counted generously.
_PROMPT_TOKENS = 1200

Messages = Sequence[Mapping[str, Plain]]
Schema = Mapping[str, Plain]


def _tool(name: str, description: str, **properties: Plain) -> Mapping[str, Plain]:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            },
        },
    }


_CITIES = ["Paris", "Oslo", "Rome", "Berlin", "Madrid"]

WEATHER = _tool("get_weather", "The weather in a city", city={"type": "string", "enum": _CITIES})
CLOCK = _tool("get_time", "The time in a city", city={"type": "string", "enum": _CITIES})
LIGHT = _tool("switch_light_off", "Switch the light off")

#: All that JSON has to escape and much that text encodings lose; it neither begins nor ends in
#: white space, which some models' formats do not keep.
HARD_TEXT = 'Crème brûlée für 2 €: "très bon" \\ 日本 🍮\nBon appétit!'
NOTE = _tool(
    "save_note",
    "Save a note",
    text={"type": "string", "enum": [HARD_TEXT]},
)
ORDER = _tool(
    "order_meal",
    "Order a meal",
    customer={
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": ["Ada", "Alan"]},
            "table": {"type": "integer", "enum": [4, 7]},
        },
        "required": ["name", "table"],
        "additionalProperties": False,
    },
    dishes={
        "type": "array",
        "items": {"type": "string", "enum": ["soup", "salad"]},
        "minItems": 1,
        "maxItems": 2,
    },
    hurry={"type": "boolean"},
)

WEATHER_QUESTION = "Look up the weather in Paris."
ORDER_QUESTION = "Order soup and salad for Ada at table 4. She is in a hurry."
NOTE_QUESTION = f"Save this note exactly as it is: {HARD_TEXT}"
LIGHT_QUESTION = "Switch the light off."


def name_of(tool: Mapping[str, Plain]) -> str:
    """The name of a tool."""
    return str(tool["function"]["name"])


def schemas_of(tools: Sequence[Mapping[str, Plain]]) -> Mapping[str, Schema]:
    """The schemas of tools by their names."""
    return {name_of(tool): tool["function"]["parameters"] for tool in tools}


def strictly(tool: Mapping[str, Plain]) -> Mapping[str, Plain]:
    """The tool with the wish that the server holds the model to its schema."""
    return {**tool, "function": {**tool["function"], "strict": True}}


def named(tool: Mapping[str, Plain]) -> Plain:
    """The choice of this very tool."""
    return {"type": "function", "function": {"name": name_of(tool)}}


def user(text: str) -> Mapping[str, Plain]:
    """A turn of the user."""
    return {"role": "user", "content": text}


def call_turn(call_id: str, name: str, arguments: str, content: Plain = "") -> Mapping[str, Plain]:
    """A turn of the model that calls one tool."""
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def result_turn(call_id: str, result: str) -> Mapping[str, Plain]:
    """What a tool answered to a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": result}


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One question of the user and all that follows from it: a call, its result, an answer."""

    question: str
    arguments: Plain
    result: Plain
    answer: str


def _look_up(city: str, weather: str) -> Round:
    return Round(
        question=WEATHER_QUESTION.replace("Paris", city),
        arguments={"city": city},
        result={"weather": weather},
        answer=f"It is {weather} in {city}.",
    )


_ROUNDS: Mapping[str, tuple[Round, ...]] = {
    name_of(WEATHER): (
        _look_up("Rome", "sunny"),
        _look_up("Berlin", "cloudy"),
        _look_up("Oslo", "snowy"),
        _look_up("Madrid", "windy"),
    ),
    name_of(ORDER): (
        Round(
            question="Order soup for Alan at table 7. He has time.",
            arguments={
                "customer": {"name": "Alan", "table": 7},
                "dishes": ["soup"],
                "hurry": False,
            },
            result={"ordered": True},
            answer="The meal for Alan is ordered.",
        ),
        Round(
            question="Order salad for Ada at table 4. She is in a hurry.",
            arguments={
                "customer": {"name": "Ada", "table": 4},
                "dishes": ["salad"],
                "hurry": True,
            },
            result={"ordered": True},
            answer="The meal for Ada is ordered.",
        ),
    ),
    name_of(NOTE): (
        Round(
            question=NOTE_QUESTION,
            arguments={"text": HARD_TEXT},
            result={"saved": True},
            answer="The note is saved.",
        ),
    )
    * 2,
    name_of(LIGHT): (
        Round(
            question=LIGHT_QUESTION,
            arguments={},
            result={"light": "off"},
            answer="The light is off.",
        ),
    )
    * 3,
}


def show_calls(tool: Mapping[str, Plain], question: str) -> Messages:
    """A question after earlier ones of its kind, each answered with the help of a call.

    The ids have the nine letters and digits that some chat templates insist on.
    """
    turns: list[Mapping[str, Plain]] = []
    for number, each in enumerate(_ROUNDS[name_of(tool)]):
        call_id = f"earlier0{number}"
        arguments = json.dumps(each.arguments, ensure_ascii=False)
        turns += [
            user(each.question),
            call_turn(call_id, name_of(tool), arguments),
            result_turn(call_id, json.dumps(each.result)),
            {"role": "assistant", "content": each.answer},
        ]
    return [*turns, user(question)]


def ask_tools(
    subject: Subject,
    messages: Messages,
    tools: Sequence[Mapping[str, Plain]],
    choice: Plain = None,
    *,
    stream: bool = False,
    max_tokens: int = MAX_TOKENS,
    is_new: bool = False,
    **fields: Plain,
) -> Request:
    """A chat request with tools, without thoughts where the server is known to show them.

    ``choice`` None leaves the choice out, which means auto. ``fields`` are further ones.
    """
    streaming = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    chosen = {} if choice is None else {"tool_choice": choice}
    return Request(
        method="POST",
        path="/v1/chat/completions",
        body={
            "model": subject.published_name,
            "messages": list(messages),
            "tools": list(tools),
            **chosen,
            "temperature": 0,
            "max_tokens": fit_tokens(subject, max_tokens),
            **streaming,
            **_thoughtless(subject),
            **fields,
        },
        stream=stream,
        timeout_seconds=60.0 if max_tokens <= MAX_TOKENS else LONG_SECONDS,
        is_new=is_new,
    )


def ask_without_tools(subject: Subject, messages: Messages) -> Request:
    """The same messages without tools, to see how many tokens the prompt has then."""
    return Request(
        method="POST",
        path="/v1/chat/completions",
        body={
            "model": subject.published_name,
            "messages": list(messages),
            "temperature": 0,
            "max_tokens": 1,
            **_thoughtless(subject),
        },
    )


def fit_tokens(subject: Subject, max_tokens: int, prompt_tokens: int = _PROMPT_TOKENS) -> int:
    """So many tokens, or what is left of a small context."""
    if subject.context_tokens is None:
        return max_tokens
    return max(1, min(max_tokens, subject.context_tokens - prompt_tokens))


def _thoughtless(subject: Subject) -> Mapping[str, Plain]:
    """Nothing where the model may not think: a template can mislead one that never does."""
    return subject.manners.thinking_off if subject.promises(Feature.REASONING) else {}


def without_thoughts(subject: Subject, request: Request) -> Request:
    """The same request with the wish that the model does not think."""
    return replace(request, body={**(request.body or {}), **subject.manners.thinking_off})
