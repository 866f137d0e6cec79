"""One tool that must be called, and judging the call, for interfaces that have forms of their own.

The checks of /v1/responses and /v1/messages use it: each reads its own form into a
:class:`ToolTrial`. Pure and total.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.contract.completion import has_text
from stoker.contract.judgement import Judgement, failed, quote
from stoker.contract.markers import Kind, find_markers
from stoker.contract.reply import parse_json
from stoker.model.contract import Feature, Subject
from stoker.model.facts import Plain, Unknown

NAME = "get_weather"
PARAMETERS: Plain = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "The name of the city."}},
    "required": ["city"],
}

#: A tool's own text is far longer; a template may change a word or two.
_LEAST_EXTRA_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTrial:
    """A question that had to be answered with a call, and what came.

    ``calls``: id, name and arguments of each, as the server sent them. ``has_text_arguments``:
    the interface has arguments as a text of JSON, and not as data. ``was_cut``: the token limit
    may have ended the answer. ``extra_tokens``: how much longer the prompt was than the same
    question without the tool.
    """

    calls: tuple[tuple[Plain, Plain, Plain], ...]
    text: str
    was_cut: bool
    extra_tokens: int
    is_streamed: bool
    has_text_arguments: bool


def judge_tools(subject: Subject, trial: ToolTrial) -> Judgement | str:
    """What is wrong; else why nothing can be said of the calls, empty where they are right."""
    if trial.calls:
        return _find_call_flaw(trial) or ""
    where = "streamed" if trial.is_streamed else "plain"
    marks = find_markers(trial.text, Kind.TOOLS)
    if marks:
        found = f"the call as text ({where}): {quote(trial.text)}"
        return failed("a call in its own place", found, "tool_call_as_text", family=marks[0].family)
    if trial.extra_tokens < _LEAST_EXTRA_TOKENS:
        found = f"the prompt is {trial.extra_tokens} tokens longer with a tool"
        if subject.promises(Feature.TOOLS):
            return failed("tools that reach the model", found, "tools_not_in_prompt")
        return f"tools do not reach the model: {found}"
    if trial.was_cut:
        return "no call before the token limit"
    found = f"no call ({where}): {quote(trial.text)}"
    return failed(f"a call of {NAME}, which was required", found, "required_ignored")


def _find_call_flaw(trial: ToolTrial) -> Judgement | None:
    """What the arguments say is the model's matter, and that of the checks of tools in chats."""
    where = "the stream" if trial.is_streamed else "the reply"
    kind = "a text of JSON" if trial.has_text_arguments else "data"
    expected = f"calls with an id, the name {NAME} and arguments that are {kind}"
    for number, (identity, name, arguments) in enumerate(trial.calls, start=1):
        # The limit may cut a call in the middle; only the last one of them.
        is_open = trial.was_cut and number == len(trial.calls)
        is_right = _are_arguments(arguments, as_text=trial.has_text_arguments)
        if has_text(identity) and name == NAME and (is_right or is_open):
            continue
        shown = {"id": identity, "name": name, "arguments": arguments}
        return failed(expected, f"in {where} {quote(shown)}", "wrong_tool_call")
    return None


def _are_arguments(value: Plain, *, as_text: bool) -> bool:
    if as_text:
        return isinstance(value, str) and not isinstance(parse_json(value), Unknown)
    return isinstance(value, dict | list)
