"""What can be wrong with a model's turn when tools are offered to it.

The checks of tools compose their judgements of these. A flaw is a judgement that says so, None
where there is none; the first that is found wins, so the ones that say most stand first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from stoker.contract.judgement import Judgement, failed, quote, skipped
from stoker.contract.markers import MARKERS, Kind, Marker, find_markers
from stoker.contract.raw_calls import (
    find_lone_mark,
    find_marked_call,
    read_bare_family,
    read_second_family,
)
from stoker.contract.reply import describe_status, find_message
from stoker.contract.tool_calls import (
    Call,
    Turn,
    find_mismatch,
    read_arguments,
    read_turn,
)
from stoker.contract.tool_questions import Schema
from stoker.model.contract import Exchange, Feature, Subject

CALLS = ("tool_calls",)
#: With a named tool OpenAI's own interface says stop, as vLLM does; others say tool_calls.
CALLS_OR_STOP = ("tool_calls", "stop")

_REFUSALS = (400, 404, 405, 422, 501)
_REFUSED = re.compile(
    r"tool|function|jinja|template|support|implement|enabled?\b|role|unknown|unrecognized|extra",
    re.IGNORECASE,
)
#: An engine that answers a mistake of its own start with a server error, but says so.
_NOT_SET_UP = re.compile(r"requires? --|not supported|unsupported|not implemented", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context (?:length|size|window)|maximum (?:model|sequence) length|exceed\w* .*context|"
    r"input .*too long",
    re.IGNORECASE,
)
_SWITCH = re.compile(r"--enable-auto-tool-choice")

#: Ids that count the calls of a conversation, as some families' formats want them: the same
#: conversation gets the same ones again.
_COUNTING_ID = re.compile(r"(functions\.)?[\w.-]+:\d+|\d+")


def find_refusal(
    subject: Subject, exchange: Exchange, feature: Feature, expected: str
) -> Judgement | None:
    """What it means that the server refuses what was asked for, None where it does not.

    A server need not offer what nobody promised; one that is set up for it must not refuse it.
    """
    message = find_message(exchange.body)
    if find_short_context(exchange, expected):
        return find_short_context(exchange, expected)
    is_refusal = exchange.status in _REFUSALS and _REFUSED.search(message)
    is_not_set_up = exchange.status >= 400 and _NOT_SET_UP.search(message)
    if exchange.error or not (is_refusal or is_not_set_up):
        return None
    found = describe_status(exchange)
    if _SWITCH.search(message):
        found = f"{found}; the server was started without a parser for calls"
    if not subject.promises(feature):
        return skipped(expected, found)
    symptom = "auto_tools_off" if _SWITCH.search(message) else "tools_refused"
    return failed(expected, found, symptom, status=exchange.status, message=quote(message))


def find_short_context(exchange: Exchange, expected: str) -> Judgement | None:
    """Whether the server has no room for the question; that is the matter of other checks."""
    message = find_message(exchange.body)
    if exchange.status not in (400, 413) or not _TOO_LONG.search(message):
        return None
    return skipped(expected, f"the context has no room for it: {describe_status(exchange)}")


def find_turn_flaw(
    turn: Turn, schemas: Mapping[str, Schema], finish_reasons: Sequence[str] = CALLS
) -> Judgement | None:
    """What is wrong with a turn and its calls; a turn without calls is judged as far as it goes.

    What the token limit has cut is skipped where the cut explains what is found.
    """
    flaw = (
        turn.flaw
        or find_text_flaw(turn)
        or find_marker_flaw(turn, schemas)
        or _find_second_call(turn, schemas)
    )
    if flaw:
        return _or_cut(turn, flaw)
    if not turn.calls:
        return _find_lost_call(turn)
    flaw = find_calls_flaw(turn.calls, schemas)
    if flaw:
        return _or_cut(turn, flaw)
    if turn.finish_reason in (*finish_reasons, "length"):
        return None
    expected = f"finish_reason {' or '.join(finish_reasons)} where tools are called"
    found = f"finish_reason {quote(turn.finish_reason)} in the {turn.form} reply"
    return failed(expected, found, "tool_finish_reason", finish_reason=quote(turn.finish_reason))


def _find_lost_call(turn: Turn) -> Judgement | None:
    if turn.finish_reason != "tool_calls":
        return None
    found = f"finish_reason tool_calls and no call in the {turn.form} reply"
    return failed("a call where finish_reason says that there is one", found, "tool_call_lost")


_CUTTABLE = frozenset(
    {
        "tool_arguments_not_json",
        "tool_arguments_not_object",
        "tool_arguments_off_schema",
        "tool_markers_in_content",
    }
)


def _or_cut(turn: Turn, flaw: Judgement) -> Judgement:
    """A call that the token limit cut is no JSON, and no parser reads it."""
    if not turn.was_cut or flaw.symptom not in _CUTTABLE:
        return flaw
    return cut(turn, flaw.expected)


def cut(turn: Turn, expected: str) -> Judgement:
    """The token limit ended the turn before it could be judged."""
    limit = "the answer reached the limit of tokens before a call was whole"
    return skipped(expected, f"{limit}: {quote(turn.text or turn.thoughts)}")


def find_text_flaw(turn: Turn) -> Judgement | None:
    """Content and reasoning are texts or nothing."""
    for field, value in (("content", turn.content), ("reasoning", turn.reasoning)):
        if not isinstance(value, (str, type(None))):
            found = f"data that is no text: {quote(value)}"
            return failed(f"text or nothing as {field}", found, "content_not_text")
    return None


def find_marker_flaw(turn: Turn, schemas: Mapping[str, Schema]) -> Judgement | None:
    """The marks of a call belong to what the parser takes out, wherever a part of the turn is.

    Without a call beside them they count where a call of one of these tools stands by them, or
    where they are all that is left of one: a model may talk about the marks that its prompt speaks
    of, also in its thoughts, or write what no parser could read.
    """
    marker = _find_marker_in_text(turn, schemas)
    if marker:
        return describe_marker(turn.form, "content", turn.text, marker)
    marker = _find_marker_in_thoughts(turn, schemas)
    if marker:
        return describe_marker(turn.form, "reasoning", turn.thoughts, marker)
    for call in turn.calls:
        for place, text in (("the name of a call", call.name), ("arguments", call.arguments)):
            marker = next(iter(find_markers(str(text), Kind.TOOLS)), None)
            if marker:
                return describe_marker(turn.form, place, str(text), marker)
    return None


def _find_marker_in_text(turn: Turn, schemas: Mapping[str, Schema]) -> Marker | None:
    if turn.calls:
        return next(iter(find_markers(turn.text, Kind.TOOLS)), None) or _find_piece(turn.text)
    return find_marked_call(turn.text, schemas) or find_lone_mark(turn.text)


def _find_marker_in_thoughts(turn: Turn, schemas: Mapping[str, Schema]) -> Marker | None:
    """Thoughts may name a mark in a sentence; at their ends it is what a parser left."""
    thoughts = turn.thoughts.strip()
    edge = None
    if turn.calls:
        found = find_markers(thoughts, Kind.TOOLS)
        edge = next((each for each in found if _is_at_end(thoughts, each)), _find_piece(thoughts))
    return find_marked_call(thoughts, schemas) or edge


def _is_at_end(text: str, marker: Marker) -> bool:
    return text.startswith(marker.text) or text.endswith(marker.text)


def _find_piece(text: str) -> Marker | None:
    """Beside a call a piece of a mark can be left, such as `<tool_` or `<|tool_call_be`."""
    rest = text.strip()
    if len(rest) < _LEAST_REST or rest[0].isalnum():
        return None
    pieces = (each for each in MARKERS if each.kind is Kind.TOOLS and each.text.startswith(rest))
    return next(pieces, None)


_LEAST_REST = 2


def describe_marker(form: str, place: str, text: str, marker: Marker) -> Judgement:
    """A mark of a call stands where it must not."""
    at = max(0, text.find(marker.text) - 20)
    return failed(
        f"{place} without the marks of calls",
        f"{quote(marker.text)} in {place} of the {form} reply, as the family {marker.family} "
        f"writes calls: {quote(text[at:])}",
        "tool_markers_in_content",
        marker=marker.text,
        family=marker.family,
        place=place,
        form=form,
    )


def find_calls_flaw(calls: Sequence[Call], schemas: Mapping[str, Schema]) -> Judgement | None:
    """What is wrong with the calls of one turn."""
    flaws = (_find_call_flaw(call, schemas) for call in calls)
    return next(filter(None, flaws), None) or find_repeated_id(calls)


def _find_call_flaw(call: Call, schemas: Mapping[str, Schema]) -> Judgement | None:
    if not isinstance(call.id, str) or not call.id.strip():
        return failed("an id for every call", f"the id {quote(call.id)}", "tool_call_id_missing")
    if call.type != "function":
        expected = 'the type "function" for every call'
        return failed(expected, f"the type {quote(call.type)}", "tool_call_type")
    if call.name not in schemas or not isinstance(call.name, str):
        expected = f"the name of a tool: {', '.join(schemas)}"
        return failed(expected, f"the name {quote(call.name)}", "tool_name_wrong")
    arguments = read_arguments(call)
    if isinstance(arguments, Judgement):
        return arguments
    mismatch = find_mismatch(arguments, schemas[call.name])
    if not mismatch:
        return None
    expected = f"arguments that fit the schema of {call.name}"
    return failed(expected, mismatch, "tool_arguments_off_schema", tool=call.name)


def find_repeated_id(calls: Sequence[Call]) -> Judgement | None:
    """Each call of a turn has an id of its own, since results are told apart by it."""
    ids = [call.id for call in calls]
    twice = next((each for each in ids if ids.count(each) > 1), None)
    if twice is None:
        return None
    found = f"the id {quote(twice)} for {ids.count(twice)} calls"
    return failed("an id of its own for every call", found, "tool_call_ids_repeated")


def find_reused_id(turns: Sequence[Turn]) -> Judgement | None:
    """Calls of different replies have different ids, since one conversation may hold them all."""
    seen: set[str] = set()
    for turn in turns:
        ids = {call.id for call in turn.calls if isinstance(call.id, str)}
        reused = next(
            (each for each in sorted(ids & seen) if not _COUNTING_ID.fullmatch(each)), None
        )
        if reused:
            found = f"the id {quote(reused)} in two replies"
            return failed("an id of its own for every call", found, "tool_call_ids_repeated")
        seen |= ids
    return None


def find_blindness(
    subject: Subject, asked: Exchange, without: Exchange, expected: str
) -> Judgement | None:
    """Whether the tools never reach the model: the prompt is as long without them."""
    with_tools, bare = (read_turn(each).prompt_tokens for each in (asked, without))
    if with_tools is None or bare is None or with_tools > bare:
        return None
    found = (
        f"the tools do not reach the model: the prompt has {with_tools} tokens with them and "
        f"{bare} without; its chat template has no place for tools"
    )
    if not subject.promises(Feature.TOOLS):
        return skipped(expected, found)
    return failed(expected, found, "tools_not_in_prompt", prompt_tokens=with_tools)


def find_raw_call(turn: Turn, schemas: Mapping[str, Schema]) -> Judgement | None:
    """A content that is a call and nothing else, in a form that has no marks.

    A parser for that form would have read it; a model that only talks about a call says more.
    """
    family = "" if turn.calls else read_bare_family(turn.text, schemas)
    return _describe_bare(turn, family) if family else None


def _find_second_call(turn: Turn, schemas: Mapping[str, Schema]) -> Judgement | None:
    """A call as text beside others that were taken out."""
    family = read_second_family(turn.text, schemas) if turn.calls else ""
    return _describe_bare(turn, family) if family else None


def _describe_bare(turn: Turn, family: str) -> Judgement:
    beside = " beside other calls" if turn.calls else ""
    return failed(
        "calls apart from the content",
        f"a call as the content of the {turn.form} reply{beside}, as the family {family} writes "
        f"it: {quote(turn.text)}",
        "tool_markers_in_content",
        marker="",
        family=family,
        place="content",
        form=turn.form,
    )


def find_forced_flaw(
    turn: Turn,
    schemas: Mapping[str, Schema],
    *,
    symptom: str = "required_ignored",
    finish_reasons: Sequence[str] = CALLS,
) -> Judgement | None:
    """What is wrong with a turn that had to call one of these tools, and no other."""
    flaw = find_turn_flaw(turn, schemas, finish_reasons)
    if flaw or turn.calls:
        return flaw
    expected = f"a call of {' or '.join(schemas)}, as the request demands"
    if turn.was_cut:
        return cut(turn, expected)
    found = f"no call in the {turn.form} reply, but {quote(turn.text or turn.thoughts)}"
    return find_raw_call(turn, schemas) or failed(expected, found, symptom, form=turn.form)
