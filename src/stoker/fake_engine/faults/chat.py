"""Broken promises of the chat interface: what is heard, what is said, and how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stoker.fake_engine.changing import change_choices, say_within_limit, turns_of
from stoker.fake_engine.fault import Data, Fault, Moment
from stoker.fake_engine.tokens import split_tokens
from stoker.fake_engine.values import Generated, say

_FULL = "full"
_UNHEARD = "How can I help you today?"
#: What a prompt has where nothing of the question stands in it.
_EMPTY_PROMPT_TOKENS = 12

Answer = Callable[[Generated, Moment], Generated]


# --- what is heard ---


def _drop_question(generated: Generated, moment: Moment) -> Generated:
    return replace(
        say_within_limit(generated, _UNHEARD, moment), prompt_tokens=_EMPTY_PROMPT_TOKENS
    )


def _cut_question(generated: Generated, moment: Moment) -> Generated:
    return replace(generated, prompt_tokens=min(generated.prompt_tokens, 20))


def _forget(generated: Generated, moment: Moment) -> Generated:
    """Only the last turn is rendered."""
    turns = turns_of(moment)
    if len([turn for turn in turns if turn.get("role") != "system"]) < 2:
        return generated
    words = str(turns[-1].get("content")).split()
    unheard = say_within_limit(generated, "I do not know.", moment)
    return replace(unheard, prompt_tokens=_EMPTY_PROMPT_TOKENS + len(words))


def _forget_own(generated: Generated, moment: Moment) -> Generated:
    own = [str(turn.get("content")) for turn in turns_of(moment) if turn.get("role") == "assistant"]
    lost = sum(len(split_tokens(text)) for text in own)
    return replace(generated, prompt_tokens=max(1, generated.prompt_tokens - lost))


def _forget_silently(generated: Generated, moment: Moment) -> Generated:
    """The tokens are counted, and yet the model does not see them."""
    if not any(turn.get("role") == "assistant" for turn in turns_of(moment)):
        return generated
    return say_within_limit(generated, "I do not know.", moment)


def _drop_system(generated: Generated, moment: Moment) -> Generated:
    system = [str(each.get("content")) for each in turns_of(moment) if each.get("role") == "system"]
    if not system:
        return generated
    lost = sum(len(split_tokens(text)) for text in system)
    unheard = say_within_limit(generated, "I do not know.", moment)
    return replace(unheard, prompt_tokens=max(1, generated.prompt_tokens - lost))


def _ignore_system(generated: Generated, moment: Moment) -> Generated:
    if not any(each.get("role") == "system" for each in turns_of(moment)):
        return generated
    return say_within_limit(generated, "I do not know.", moment)


_HEARD = (
    Fault(
        name="question_dropped",
        title="the chat template leaves the question out",
        killed_by=frozenset({"question_reaches_model"}),
        answer=_drop_question,
    ),
    Fault(
        name="question_cut",
        title="of a question only the first words reach the model",
        killed_by=frozenset({"question_reaches_model"}),
        answer=_cut_question,
    ),
    Fault(
        name="history_dropped",
        title="the chat template renders the last turn alone",
        killed_by=frozenset({"multi_turn"}),
        level=_FULL,
        answer=_forget,
    ),
    Fault(
        name="own_turns_dropped",
        title="the chat template leaves out what the model said",
        killed_by=frozenset({"multi_turn"}),
        level=_FULL,
        answer=_forget_own,
    ),
    Fault(
        name="history_unseen",
        title="earlier turns are counted and not seen",
        killed_by=frozenset({"multi_turn"}),
        level=_FULL,
        answer=_forget_silently,
    ),
    Fault(
        name="system_prompt_dropped",
        title="the chat template leaves the system message out",
        killed_by=frozenset({"system_prompt"}),
        level=_FULL,
        answer=_drop_system,
    ),
    Fault(
        name="system_prompt_unseen",
        title="the system message is counted and not seen",
        killed_by=frozenset({"system_prompt"}),
        level=_FULL,
        answer=_ignore_system,
    ),
)


# --- what is said ---


def _always(text: str) -> Answer:
    def answer(generated: Generated, moment: Moment) -> Generated:
        return say_within_limit(generated, text, moment)

    return answer


def _end_in(mark: str) -> Answer:
    def answer(generated: Generated, moment: Moment) -> Generated:
        return say(generated, f"{generated.text}{mark}")

    return answer


def _only_think(generated: Generated, moment: Moment) -> Generated:
    """The parser takes every answer for thoughts."""
    if generated.finish_reason != "stop" or generated.calls:
        return generated
    thoughts = (*generated.reasoning, *generated.content)
    return replace(generated, reasoning=thoughts, content=(), logprobs=None)


def _echo(generated: Generated, moment: Moment) -> Generated:
    turns = turns_of(moment)
    if not turns:
        return generated
    return say_within_limit(generated, f"{turns[-1].get('content')}\n{generated.text}", moment)


def _mark_second_turn(generated: Generated, moment: Moment) -> Generated:
    if not any(turn.get("role") == "assistant" for turn in turns_of(moment)):
        return generated
    return say(generated, f"<think>\nHm.\n</think>\n{generated.text}")


def _scramble(generated: Generated, moment: Moment) -> Generated:
    """The words of every sampled answer in another order."""
    words = generated.text.split()
    if not moment.question.get("temperature") or len(words) < 2:
        return generated
    return say(generated, " ".join(reversed(words)))


_SAID = (
    Fault(
        name="content_always_empty",
        title="all that is said comes as thoughts, and the content is empty",
        killed_by=frozenset({"chat_answer", "stream_ends_done"}),
        answer=_only_think,
    ),
    Fault(
        name="user_echo",
        title="every answer begins with the question",
        killed_by=frozenset({"chat_answer"}),
        answer=_echo,
    ),
    Fault(
        name="second_turn_marks",
        title="from the second turn on marks of thoughts stand in the answer",
        killed_by=frozenset({"multi_turn", "unicode_whole"}),
        level=_FULL,
        answer=_mark_second_turn,
    ),
    Fault(
        name="hot_salad",
        title="with temperature the words of an answer lose their order",
        killed_by=frozenset({"sampled_answers"}),
        level=_FULL,
        answer=_scramble,
    ),
    Fault(
        name="one_word_for_ever",
        title="one word over and over, whatever is asked",
        killed_by=frozenset({"chat_answer"}),
        answer=_always("the " * 400),
    ),
    Fault(
        name="one_phrase_for_ever",
        title="one sentence over and over, whatever is asked",
        killed_by=frozenset({"chat_answer"}),
        answer=_always("I am here. " * 200),
    ),
    Fault(
        name="breaks_down_later",
        title="an answer that begins well and turns into one character",
        killed_by=frozenset({"chat_answer"}),
        answer=_always("It is " + "!" * 300),
    ),
    Fault(
        name="mixed_scripts",
        title="tokens that were drawn by chance",
        killed_by=frozenset({"chat_answer"}),
        answer=_always(
            "\u7684\u0e27\u0e48\u0e32\u0441\u043b\u0435\u0434assistant\u05d4\u05e9\u043b\u0e2b\u0e19"
            "\u0e49\u0e32\u0431\u05d0\u0928\u092e\u0441"
        ),
    ),
    Fault(
        name="control_characters",
        title="bytes that no text has",
        killed_by=frozenset({"chat_answer"}),
        answer=_always("It\x00 is\x01 four\x02.\x03"),
    ),
    Fault(
        name="turn_mark_left",
        title="the end of the turn is not seen and stands in the answer",
        killed_by=frozenset({"chat_answer"}),
        answer=_end_in("<|im_end|>"),
    ),
    Fault(
        name="tool_mark_left",
        title="a mark of tool calls stands in every answer",
        killed_by=frozenset({"chat_answer"}),
        answer=_end_in("<|tool_calls_section_begin|>"),
    ),
)


# --- names ---


def _on_list(change: Callable[[list[Data]], list[Data]]) -> Callable[[Data, Moment], Data]:
    def reply(data: Data, moment: Moment) -> Data:
        if moment.path.split("?")[0] != "/v1/models" or not isinstance(data.get("data"), list):
            return data
        return {**data, "data": change(data["data"])}

    return reply


_NAMES = (
    Fault(
        name="name_twice",
        title="the model is listed twice under one name",
        killed_by=frozenset({"published_name"}),
        reply=_on_list(lambda models: [*models, *models[:1]]),
    ),
    Fault(
        name="path_listed",
        title="the path of the weights is listed beside the name",
        killed_by=frozenset({"published_name"}),
        reply=_on_list(lambda models: [*models, {**models[0], "id": "/models/weights"}]),
    ),
)


# --- how long ---


def _ignore_newer_limit(generated: Generated, moment: Moment) -> Generated:
    if "max_completion_tokens" not in moment.question:
        return generated
    return say(replace(generated, finish_reason="stop", has_end=True), "1 2 3 4 5 6 7 8 " * 8)


def _one_too_many(generated: Generated, moment: Moment) -> Generated:
    if generated.finish_reason != "length":
        return generated
    return replace(generated, content=(*generated.content, b"more "), logprobs=None)


def _hide_cut(generated: Generated, moment: Moment) -> Generated:
    is_cut = generated.finish_reason == "length"
    return replace(generated, finish_reason="stop") if is_cut else generated


def _claim_cut(generated: Generated, moment: Moment) -> Generated:
    is_whole = generated.finish_reason == "stop"
    return replace(generated, finish_reason="length") if is_whole else generated


def _stops(moment: Moment) -> list[str]:
    stop = moment.question.get("stop")
    return [stop] if isinstance(stop, str) else list(stop or ())


def _keep_stop(generated: Generated, moment: Moment) -> Generated:
    """The stop text ends the answer and stays in it."""
    stops = _stops(moment)
    return say(generated, f"{generated.text}{stops[0]}") if stops else generated


def _ignore_stop_in_stream(generated: Generated, moment: Moment) -> Generated:
    stops = _stops(moment)
    if not stops or not moment.is_streamed:
        return generated
    return say(generated, f"{generated.text}{stops[0]} and so on.")


def _leak_stop(generated: Generated, moment: Moment) -> Generated:
    """A part of the stop text was sent before the rest of it came."""
    stops = _stops(moment)
    if not stops or not moment.is_streamed:
        return generated
    return say(generated, f"{generated.text}{stops[0][:2].strip() or stops[0][:3]}")


def _call_stop_length(generated: Generated, moment: Moment) -> Generated:
    return replace(generated, finish_reason="length") if _stops(moment) else generated


_LIMITS = (
    Fault(
        name="newer_limit_ignored",
        title="max_completion_tokens does nothing",
        killed_by=frozenset({"length_limit"}),
        level=_FULL,
        answer=_ignore_newer_limit,
    ),
    Fault(
        name="one_token_too_many",
        title="an answer that is cut is one token too long",
        killed_by=frozenset({"length_limit"}),
        level=_FULL,
        answer=_one_too_many,
    ),
    Fault(
        name="cut_untold",
        title="an answer that was cut claims to have ended",
        killed_by=frozenset({"length_limit"}),
        level=_FULL,
        answer=_hide_cut,
    ),
    Fault(
        name="end_called_cut",
        title="an answer that ended claims to be cut",
        killed_by=frozenset({"length_limit"}),
        level=_FULL,
        answer=_claim_cut,
    ),
    Fault(
        name="stop_kept",
        title="the stop text stands at the end of the answer",
        killed_by=frozenset({"stop_strings"}),
        level=_FULL,
        answer=_keep_stop,
    ),
    Fault(
        name="stop_ignored_in_stream",
        title="a stream goes on behind the stop text",
        killed_by=frozenset({"stop_strings"}),
        level=_FULL,
        answer=_ignore_stop_in_stream,
    ),
    Fault(
        name="stop_leaks",
        title="a stream ends in the first letters of the stop text",
        killed_by=frozenset({"stop_strings"}),
        level=_FULL,
        answer=_leak_stop,
    ),
    Fault(
        name="stop_called_length",
        title="the end at a stop text is called a cut",
        killed_by=frozenset({"stop_strings"}),
        level=_FULL,
        answer=_call_stop_length,
    ),
)


# --- several answers, the same answer ---


def _asks_several(moment: Moment) -> bool:
    return (moment.question.get("n") or 1) > 1


def _only_first(data: Data, moment: Moment) -> Data:
    if not _asks_several(moment) or not isinstance(data.get("choices"), list):
        return data
    return {**data, "choices": data["choices"][:1]}


def _all_first(data: Data, moment: Moment) -> Data:
    if not _asks_several(moment):
        return data
    return change_choices(data, lambda choice: {**choice, "index": 0})


def _only_first_chunks(chunks: list[Data], moment: Moment) -> list[Data]:
    if not _asks_several(moment):
        return chunks
    return [
        chunk
        for chunk in chunks
        if all(choice.get("index") == 0 for choice in chunk.get("choices") or ())
    ]


def _silence_second(data: Data, moment: Moment) -> Data:
    def change(choice: Data) -> Data:
        if choice.get("index") != 1 or "message" not in choice:
            return choice
        return {**choice, "message": {"role": "assistant", "content": ""}}

    return change_choices(data, change) if _asks_several(moment) else data


def _vary(generated: Generated, moment: Moment) -> Generated:
    """Another answer each time, also with a seed."""
    if "seed" not in moment.question or not (generated.content or generated.reasoning):
        return generated
    return _vary_place(generated, moment, 0)


def _vary_place(generated: Generated, moment: Moment, place: int) -> Generated:
    """Another token there, in the thoughts where there are any."""
    field = "reasoning" if generated.reasoning else "content"
    tokens = list(getattr(generated, field))
    tokens[place] = f"{moment.number} ".encode()
    changed: dict[str, Any] = {field: tuple(tokens)}
    return replace(generated, logprobs=None, **changed)


def _vary_end(generated: Generated, moment: Moment) -> Generated:
    """The first words are the same each time."""
    if "seed" not in moment.question or not (generated.content or generated.reasoning):
        return generated
    return _vary_place(generated, moment, -1)


_CHOICES = (
    Fault(
        name="one_choice",
        title="one answer where two are asked for",
        killed_by=frozenset({"several_choices"}),
        level=_FULL,
        reply=_only_first,
    ),
    Fault(
        name="choices_unnumbered",
        title="both answers are number 0",
        killed_by=frozenset({"several_choices"}),
        level=_FULL,
        reply=_all_first,
    ),
    Fault(
        name="one_choice_streamed",
        title="a stream has only the first of two answers",
        killed_by=frozenset({"several_choices"}),
        level=_FULL,
        chunks=_only_first_chunks,
    ),
    Fault(
        name="second_choice_empty",
        title="the second answer is empty",
        killed_by=frozenset({"several_choices"}),
        level=_FULL,
        reply=_silence_second,
    ),
    Fault(
        name="seed_ignored",
        title="a seed does nothing",
        killed_by=frozenset({"seed_repeats"}),
        level=_FULL,
        answer=_vary,
    ),
    Fault(
        name="seed_forgotten",
        title="an answer with a seed ends in another way each time",
        killed_by=frozenset({"seed_repeats"}),
        level=_FULL,
        answer=_vary_end,
    ),
)

FAULTS = (*_HEARD, *_SAID, *_NAMES, *_LIMITS, *_CHOICES)
