"""Broken promises of thoughts: where they stand, and whether there is an answer behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stoker.fake_engine.changing import change_choices
from stoker.fake_engine.fault import Data, Fault, Moment
from stoker.fake_engine.script import REASONING, Script
from stoker.fake_engine.values import Generated, say, think

_FULL = "full"
_SEPARATED = frozenset({"reasoning_separated"})
_SWITCH = frozenset({"reasoning_switch"})
_NOT_EMPTY = frozenset({"reasoning_not_empty"})
_FIELDS = ("reasoning_content", "reasoning")

Answer = Callable[[Generated, Moment], Generated]


def _think_always(script: Script) -> Script:
    """Without thoughts there is nothing to break."""
    return replace(script, features=script.features | {REASONING})


def _in_content(frame: str, *, only_streamed: bool = False) -> Answer:
    """Thoughts in the content; ``frame`` says how."""

    def answer(generated: Generated, moment: Moment) -> Generated:
        if not generated.reasoning or (only_streamed and not moment.is_streamed):
            return generated
        text = frame.format(thoughts=generated.thoughts, text=generated.text)
        return replace(say(generated, text), reasoning=())

    return answer


def _twice(generated: Generated, moment: Moment) -> Generated:
    if not generated.reasoning:
        return generated
    return say(generated, f"{generated.thoughts}\n\n{generated.text}")


def _leave_mark(generated: Generated, moment: Moment) -> Generated:
    return think(generated, f"<think>{generated.thoughts}") if generated.reasoning else generated


def _swallow(generated: Generated, moment: Moment) -> Generated:
    """All is taken for thought."""
    if not generated.reasoning:
        return generated
    return say(think(generated, f"{generated.thoughts} {generated.text}"), "")


def _is_off(moment: Moment) -> bool:
    kwargs = moment.question.get("chat_template_kwargs")
    return isinstance(kwargs, dict) and kwargs.get("enable_thinking") is False


def _ignore_switch(generated: Generated, moment: Moment) -> Generated:
    if not _is_off(moment) or generated.reasoning:
        return generated
    return think(generated, "The user wants no thoughts. I think about that.")


def _swallow_without_thoughts(generated: Generated, moment: Moment) -> Generated:
    """A parser that waits for the end of thoughts which never began."""
    if not _is_off(moment) or generated.reasoning or generated.calls:
        return generated
    return say(think(generated, generated.text), "")


def _rename(delta: Data) -> Data:
    first, second = _FIELDS
    names = {first: second, second: first}
    return {names.get(key, key): value for key, value in delta.items()}


def _rename_all(chunks: list[Data], moment: Moment) -> list[Data]:
    return [
        change_choices(
            chunk, lambda choice: {**choice, "delta": _rename(choice.get("delta") or {})}
        )
        for chunk in chunks
    ]


def _drop(delta: Data) -> Data:
    return {key: value for key, value in delta.items() if key not in _FIELDS}


def _drop_all(chunks: list[Data], moment: Moment) -> list[Data]:
    return [
        change_choices(chunk, lambda choice: {**choice, "delta": _drop(choice.get("delta") or {})})
        for chunk in chunks
    ]


def _overcount(data: Data, moment: Moment) -> Data:
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return data
    details = {"reasoning_tokens": usage.get("completion_tokens", 0) + 100}
    return {**data, "usage": {**usage, "completion_tokens_details": details}}


def _fault(name: str, title: str, killed_by: frozenset[str], answer: Answer) -> Fault:
    level = "quick" if killed_by == _SEPARATED else _FULL
    return Fault(
        name=name,
        title=title,
        killed_by=killed_by,
        level=level,
        script=_think_always,
        answer=answer,
    )


FAULTS = (
    _fault(
        "thoughts_in_content",
        "thoughts stand in the content",
        _SEPARATED,
        _in_content("<think>\n{thoughts}\n</think>\n\n{text}"),
    ),
    _fault(
        "thoughts_in_stream",
        "thoughts stand in the content of a stream alone",
        _SEPARATED,
        _in_content("<think>\n{thoughts}\n</think>\n\n{text}", only_streamed=True),
    ),
    _fault(
        "thoughts_unmarked_in_stream",
        "a stream has thoughts as content, without marks",
        _SEPARATED,
        _in_content("{thoughts}\n\n{text}", only_streamed=True),
    ),
    _fault(
        "thoughts_end_in_content",
        "thoughts stand before a lone closing mark",
        _SEPARATED,
        _in_content("{thoughts}\n</think>\n\n{text}"),
    ),
    _fault(
        "thoughts_of_mistral",
        "thoughts stay as another family writes them",
        _SEPARATED,
        _in_content("[THINK]{thoughts}[/THINK]{text}"),
    ),
    _fault("thoughts_twice", "thoughts stand in the content, too", _SEPARATED, _twice),
    _fault("thoughts_keep_mark", "the mark is left in the thoughts", _SEPARATED, _leave_mark),
    _fault("answer_swallowed", "the answer is taken for thought", _NOT_EMPTY, _swallow),
    _fault("switch_ignored", "the model thinks though it should not", _SWITCH, _ignore_switch),
    _fault(
        "switch_swallows_answer",
        "an answer without thoughts is taken for one",
        _SWITCH,
        _swallow_without_thoughts,
    ),
    Fault(
        name="thoughts_field_differs",
        title="a stream has thoughts in another field",
        killed_by=_SEPARATED,
        script=_think_always,
        chunks=_rename_all,
    ),
    Fault(
        name="thoughts_lost_in_stream",
        title="a stream has no thoughts",
        killed_by=_SEPARATED,
        script=_think_always,
        chunks=_drop_all,
    ),
    Fault(
        name="thoughts_overcounted",
        title="more tokens of thought are counted than the answer has",
        killed_by=_SEPARATED,
        script=_think_always,
        reply=_overcount,
    ),
)
