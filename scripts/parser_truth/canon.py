"""Canonical outputs of models, written from the table of formats.

A *format* says how a family writes calls and thoughts, a *shape* what it says: which thought, text
and calls. Together they are one output, of which it is known what a parser must make.
Runs in an engine's interpreter as well, so it needs the standard library alone.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMATS = Path(__file__).resolve().parents[2] / "tests/contract/parser_truth/formats.toml"

Format = Mapping[str, Any]
Call = tuple[str, dict[str, Any]]


def _tool(name: str, properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    description = "What the tests of parsers call."
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


_PLACE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "height": {"type": "number"}},
}
TOOLS = (
    _tool("get_weather", {"city": {"type": "string"}, "days": {"type": "integer"}}, ["city"]),
    _tool(
        "file_report",
        {
            "title": {"type": "string"},
            "place": _PLACE,
            "tags": {"type": "array", "items": {"type": "string"}},
            "is_urgent": {"type": "boolean"},
        },
        ["title"],
    ),
    _tool("get_time", {}, []),
)

_WEATHER: Call = ("get_weather", {"city": "Paris", "days": 3})
_THOUGHT = "The user wants the weather."
_TEXT = "I will look it up."


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a model says in one turn. ``is_cut``: it ran out of tokens within its thought."""

    id: str
    thought: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()
    is_cut: bool = False


SHAPES = (
    Shape(id="one_call", calls=(_WEATHER,)),
    Shape(id="two_calls", calls=(_WEATHER, ("get_weather", {"city": "Oslo", "days": 1}))),
    Shape(id="text_call", text=_TEXT, calls=(_WEATHER,)),
    Shape(
        id="nested_call",
        calls=(
            (
                "file_report",
                {
                    "title": "Überflug \u6771\u4eac \U0001f326",
                    "place": {"name": "Tromsø", "height": 8.5},
                    "tags": ["ice", "wind, north"],
                    "is_urgent": True,
                },
            ),
        ),
    ),
    Shape(
        id="signs_call",
        calls=(("get_weather", {"city": 'a "b" & 5 < 6 {x} [y]\nC:\\d', "days": 3}),),
    ),
    Shape(id="empty_call", calls=(("get_time", {}),)),
    Shape(id="thought_call", thought=_THOUGHT, calls=(_WEATHER,)),
    Shape(id="thought_text", thought=_THOUGHT, text="It is sunny."),
    Shape(id="thought_text_call", thought=_THOUGHT, text=_TEXT, calls=(_WEATHER,)),
    Shape(id="open_thought", thought=_THOUGHT, is_cut=True),
    Shape(id="plain", text="It is sunny in \u6771\u4eac \U0001f31e."),
    Shape(id="signs", text="Use a[0] < b && {x: [1, 2]} or <b>so</b>: f(y=1)."),
)


def load_formats() -> tuple[Format, ...]:
    """Every format of the table."""
    return tuple(tomllib.loads(FORMATS.read_text("utf-8"))["format"])


def has_shape(layout: Format, shape: Shape) -> bool:
    """Whether a family writes this at all."""
    if shape.calls and "tool" not in layout:
        return False
    if shape.thought and "think" not in layout:
        return False
    if layout.get("is_exclusive") and shape.text and shape.calls:
        return False
    return not (layout.get("is_single") and len(shape.calls) > 1)


def write_output(layout: Format, shape: Shape) -> str:
    """What the engine gets from the model, without the token that ends the turn."""
    thought = _write_thought(layout, shape)
    if shape.is_cut:
        return _begin(layout, thought)
    key = "preamble" if shape.calls and "preamble" in layout else "text"
    before, after = layout.get(key, ("", "")) if shape.text else ("", "")
    text = f"{before}{shape.text}{after}"
    calls = _write_calls(layout, shape.calls) if shape.calls else ""
    if calls and shape.text:
        text += str(layout.get("before_calls", ""))
    if thought and (text or calls):
        thought += str(layout.get("after_thought", ""))
    return _begin(layout, f"{thought}{text}{calls}{layout.get('ending', '')}")


def _begin(layout: Format, output: str) -> str:
    return output.removeprefix(str(layout.get("opening", "")))


def _write_thought(layout: Format, shape: Shape) -> str:
    if not shape.thought:
        return ""
    before, after = layout["think"]
    before = "" if layout.get("is_prefilled") else before
    return f"{before}{shape.thought}{'' if shape.is_cut else after}"


def _write_calls(layout: Format, calls: Sequence[Call]) -> str:
    before, between, after = map(str, layout.get("calls", ("", "", "")))
    written = [
        layout["call"].format(
            name=name,
            index=index,
            number=index + 1,
            arguments=_write_arguments(layout, arguments),
        )
        for index, (name, arguments) in enumerate(calls)
    ]
    return before + between.join(written) + after


def _write_arguments(layout: Format, arguments: Mapping[str, Any]) -> str:
    match layout.get("arguments", "json"):
        case "pairs":
            return "".join(_write_pair(layout, *each) for each in arguments.items())
        case "python":
            return ", ".join(f"{key}={_write_python(value)}" for key, value in arguments.items())
        case "gemma":
            return ",".join(f"{key}:{_write_gemma(value)}" for key, value in arguments.items())
        case "tags":
            return "".join(_write_tags(layout["prefix"], *each) for each in arguments.items())
        case _:
            return _write_json(dict(arguments))


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_TYPES = {bool: "boolean", str: "string", int: "number", float: "number", list: "array"}


def _write_pair(layout: Format, key: str, value: Any) -> str:
    is_text = isinstance(value, str)
    written = value if is_text else _write_json(value)
    is_marked_up = any(sign in written for sign in "<>&")
    return str(
        layout["pair"].format(
            key=key,
            value=written,
            data=f"<![CDATA[{written}]]>" if is_marked_up else written,
            type=_TYPES.get(type(value), "object"),
            is_text="true" if is_text else "false",
        )
    )


def _write_python(value: Any) -> str:
    match value:
        case bool():
            return str(value)
        case dict():
            inner = (f"{_write_json(key)}: {_write_python(each)}" for key, each in value.items())
            return "{" + ", ".join(inner) + "}"
        case list():
            return "[" + ", ".join(map(_write_python, value)) + "]"
        case _:
            return _write_json(value)


def _write_gemma(value: Any) -> str:
    match value:
        case str():
            return f'<|"|>{value}<|"|>'
        case dict():
            inner = (f"{key}:{_write_gemma(each)}" for key, each in value.items())
            return "{" + ",".join(inner) + "}"
        case list():
            return "[" + ",".join(map(_write_gemma, value)) + "]"
        case _:
            return _write_json(value)


def _write_tags(prefix: str, key: str, value: Any) -> str:
    match value:
        case dict():
            inner = "".join(_write_tags(prefix, *each) for each in value.items())
        case list():
            inner = "".join(_write_tags(prefix, "item", each) for each in value)
        case str():
            inner = value
        case _:
            inner = _write_json(value)
    return f"{prefix}<{key}>{inner}{prefix}</{key}>"
