"""Which tools the model calls, and with what: by the words of the text and the schemas.

Pure. :mod:`stoker.fake_engine.model` asks for it before it answers in words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stoker.fake_engine.instances import Hint, make_instance
from stoker.fake_engine.script import ArgumentRule
from stoker.fake_engine.values import Call, Data, Question

#: Words of names and descriptions that say nothing of what a tool is for.
# fmt: off
_EMPTY_WORDS = frozenset(
    [
        "a", "an", "and", "any", "are", "as", "at", "by", "call", "can", "compute", "create",
        "current", "do", "does", "each", "find", "for", "from", "function", "get", "give",
        "given", "has", "have", "in", "into", "is", "it", "its", "look", "make", "new", "no",
        "number", "of", "on", "one", "or", "return", "returns", "run", "send", "set", "show",
        "some", "takes", "tell", "that", "the", "this", "to", "tool", "up", "use", "uses",
        "value", "what", "when", "with", "your", "arguments", "argument", "name", "city",
    ]
)
# fmt: on
_FORBIDDEN = re.compile(
    r"\b(?:do not|don't|never|without) (?:call|use|using|calling|invoke)[^.]{0,20}?"
    r"\b(?:tools?|functions?)\b|\bwithout (?:any |a |the )?(?:tools?|functions?)\b|\bno tools?\b",
    re.IGNORECASE,
)
_WANTED = re.compile(
    r"\b(?:use|call|with|using|invoke)\b[^.]*\b(?:tools?|functions?)\b", re.IGNORECASE
)
_QUOTED = re.compile(r"[\"'\u201c]([^\"'\u201d]+)[\"'\u201d]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """How the model fills in arguments: by rules over the text, else by what it would ``say``."""

    text: str
    rules: tuple[ArgumentRule, ...] = ()
    said: str = ""


def decide_calls(question: Question, caller: Caller) -> tuple[Call, ...]:
    """The calls that the model makes, none where it answers in words. Ids are set later."""
    tools = [tool for tool in map(_function, question.tools) if tool.get("name")]
    if question.tool_choice == "none" or not tools:
        return ()
    if question.tool_choice.startswith("="):
        named = [tool for tool in tools if tool["name"] == question.tool_choice[1:]]
        return _call_all(named[:1], question, caller)
    fitting = _find_fitting(tools, caller.text)
    if question.tool_choice == "required":
        return _call_all(fitting or tools[:1], question, caller)
    if _FORBIDDEN.search(caller.text):
        return ()
    if not question.turns or question.turns[-1].role == "tool":
        return ()
    if not fitting and _WANTED.search(caller.text):
        fitting = tools[:1]
    return _call_all(fitting, question, caller)


def _function(tool: Data) -> Data:
    """The function of a tool, in either way to write one."""
    inner = tool.get("function")
    return inner if isinstance(inner, dict) else tool


def _find_fitting(tools: Sequence[Data], text: str) -> list[Data]:
    """The tools that the text speaks of, the best of them first; of equals by their order."""
    words = _words(text)
    scores = [(_score(tool, words, text), tool) for tool in tools]
    best = max((score for score, _ in scores), default=0)
    return [tool for score, tool in scores if score and score >= max(2, best - 1)]


def _score(tool: Data, words: frozenset[str], text: str) -> int:
    if re.search(rf"\b{re.escape(tool['name'])}\b", text):
        return 8
    named = _words(re.sub(r"(?<=[a-z])(?=[A-Z])|_|-", " ", tool["name"]))
    described = _words(str(tool.get("description", "")))
    return 2 * len(named & words) + min(1, len(described & words))


def _words(text: str) -> frozenset[str]:
    found = (word.removesuffix("s") for word in re.findall(r"[^\W\d_]+", text.lower()))
    return frozenset(found) - _EMPTY_WORDS


def _call_all(tools: Sequence[Data], question: Question, caller: Caller) -> tuple[Call, ...]:
    calls = [
        Call(id="", name=tool["name"], arguments=json.dumps(arguments, ensure_ascii=False))
        for tool in tools
        for arguments in _fill_in(tool, caller)
    ]
    return tuple(calls if question.is_parallel else calls[:1])


def _fill_in(tool: Data, caller: Caller) -> list[dict[str, Any]]:
    """The arguments of one call, or of one for each of several values that the text names."""
    schema = tool.get("parameters") or tool.get("input_schema") or {}
    properties = schema.get("properties") or {}
    several = [
        (key, values)
        for key in properties
        if properties[key].get("type") in (None, "string")
        and key in (schema.get("required") or ())
        and len(values := _find_values(key, caller)) > 1
        and _is_listed(key)
    ]
    first = _make_arguments(schema, caller)
    if not several or not isinstance(first, dict):
        return [first if isinstance(first, dict) else {}]
    key, values = several[0]
    return [{**first, key: value} for value in values]


def _is_listed(key: str) -> bool:
    """Whether several values of a key in one text mean several calls."""
    return key.lower() in ("city", "location", "place", "town")


def _make_arguments(schema: Any, caller: Caller) -> Any:
    return make_instance(schema or {"type": "object"}, find_hint(caller), is_full=False)


def find_hint(caller: Caller) -> Hint:
    """What the model would like to say for a key, by the text."""

    def hint(key: str, part: Any) -> Any:
        found = _find_values(key, caller)
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "array":
            return _as_list(found, part)
        if found and not isinstance(found[0], dict):
            return found[0]
        return _find_loosely(key, part, caller)

    return hint


def _as_list(found: Sequence[Any], schema: Data) -> list[Any] | None:
    items = schema.get("items")
    wants_objects = isinstance(items, dict) and items.get("type") == "object"
    fitting = [each for each in found if isinstance(each, dict) == wants_objects]
    return fitting or None


def _find_values(key: str, caller: Caller) -> list[Any]:
    """What the text says for a key, each value once, by the first rule that finds any."""
    for rule in caller.rules:
        if not rule.key.search(key):
            continue
        matches = list(rule.pattern.finditer(caller.text))
        found = [match.groupdict() or match[1].strip() for match in matches]
        if found:
            return [each for place, each in enumerate(found) if each not in found[:place]]
    return []


def _find_loosely(key: str, part: Any, caller: Caller) -> Any:
    """What the text says near the key's name; else what the model would say itself."""
    if not isinstance(part, dict):
        return None
    for value in part.get("enum") or ():
        if re.search(rf"\b{re.escape(str(value))}\b", caller.text, re.IGNORECASE):
            return value
    if part.get("type") in ("object", "boolean", "null"):
        return None
    name = re.escape(key.replace("_", " "))
    near = re.search(
        rf"\b{name}\b(?: is| are| of| to|:|=)? ['\"\u201c]?([\w@.:+-]*\w)",
        caller.text,
        re.IGNORECASE,
    )
    if near:
        return near[1]
    if key in ("answer", "result", "response", "reply"):
        return caller.said
    quoted = _QUOTED.search(caller.text)
    if quoted:
        return quoted[1]
    capital = re.search(r"(?<=[a-z,] )([A-Z][\w-]+)", caller.text)
    return capital[1] if capital and part.get("type") == "string" else None
