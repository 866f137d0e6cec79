"""Broken promises of what is computed: in long prompts, in a crowd, from the caches, by guesses."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import replace

from stoker.fake_engine.changing import say_within_limit, turns_of
from stoker.fake_engine.fault import Data, Fault, Moment
from stoker.fake_engine.script import SPECULATION, VISION, Script
from stoker.fake_engine.values import Generated, Response, json_response

_FULL = "full"
_LONG_TOKENS = 1500
_CROWD, _LONG_CROWD = 8, 4
_LONG_CHARACTERS, _END_CHARACTERS = 2500, 600
_LONG_COPY_WORDS = 6
_WARM_TOKENS = 200
_MANY_REQUESTS = 40

_GARBAGE = "!!!!!!!!!!!!!!!!!!!!!!!!"
_SALAD = "\u0434\u0430the\u05d0\u05d1\u0939\u0948or\u043d\u0435\u0e01\u0e02 \u0561\u0562by"
_WRONG = ("It is a banana.", "The answer is green.", "That is Tuesday.", "It is a hundred.")
_FACT = re.compile(r"code word of (\w+) is (\w+)")
_ASKED = re.compile(r"What is the code word of (\w+)\?")

Answer = Callable[[Generated, Moment], Generated]
When = Callable[[Moment], bool]


def _asked_text(moment: Moment) -> str:
    turns = turns_of(moment)
    content = turns[-1].get("content") if turns else ""
    return content if isinstance(content, str) else ""


def _is_chat(moment: Moment) -> bool:
    return moment.path == "/v1/chat/completions"


def _saying(text: str, when: When) -> Answer:
    """Another answer at such moments."""

    def answer(generated: Generated, moment: Moment) -> Generated:
        if not _is_chat(moment) or not when(moment):
            return generated
        return say_within_limit(generated, text, moment)

    return answer


def _wrong(when: When) -> Answer:
    """A fluent answer that is wrong, another one to each question."""

    def answer(generated: Generated, moment: Moment) -> Generated:
        if not _is_chat(moment) or not when(moment):
            return generated
        number = zlib.crc32(_asked_text(moment).encode("utf-8", "replace"))
        return say_within_limit(generated, _WRONG[number % len(_WRONG)], moment)

    return answer


def _always(moment: Moment) -> bool:
    return True


def _is_long(moment: Moment) -> bool:
    return moment.prompt_tokens > _LONG_TOKENS


def _is_crowded(moment: Moment) -> bool:
    return moment.parallel >= _CROWD


def _is_long_crowd(moment: Moment) -> bool:
    return moment.prompt_tokens > _LONG_TOKENS and moment.parallel >= _LONG_CROWD


def _is_warm(moment: Moment) -> bool:
    return moment.cached_tokens > _WARM_TOKENS


def _is_restored(moment: Moment) -> bool:
    return moment.is_restored


def _is_late(moment: Moment) -> bool:
    return moment.number > _MANY_REQUESTS


def _is_drafted(moment: Moment) -> bool:
    return moment.question.get("speculative.n_max") != 0


# --- long prompts ---


def _cut(generated: Generated, moment: Moment) -> Generated:
    """The prompt loses its beginning, and is counted as it is then."""
    return replace(generated, prompt_tokens=min(generated.prompt_tokens, _LONG_TOKENS))


def _forget_beginning(generated: Generated, moment: Moment) -> Generated:
    """The prompt loses its beginning, and the count does not say so."""
    text = _asked_text(moment)
    fact = _FACT.search(text)
    if not _is_long(moment) or fact is None or fact.start() > len(text) / 4:
        return generated
    return say_within_limit(generated, "I do not know.", moment)


def _keep_ends(generated: Generated, moment: Moment) -> Generated:
    """Of a long prompt the first and the last part reach the model, and the count says nothing."""
    text = _asked_text(moment)
    fact = _FACT.search(text)
    is_inside = fact and _END_CHARACTERS < fact.start() < len(text) - _END_CHARACTERS
    if not is_inside or len(text) <= _LONG_CHARACTERS or not _is_chat(moment):
        return generated
    return say_within_limit(generated, "I do not know.", moment)


# --- a crowd ---


def _linger(moment: Moment) -> float:
    """Requests of an engine that takes no time would hardly meet."""
    return 0.04 if _is_chat(moment) else 0.0


def _swap(generated: Generated, moment: Moment) -> Generated:
    """Each gets the answer of the one before."""
    before = moment.memory.get("before", "")
    moment.memory["before"] = generated.text
    if not _is_chat(moment) or not _is_crowded(moment) or not before:
        return generated
    return say_within_limit(generated, before, moment)


def _change_places(generated: Generated, moment: Moment) -> Generated:
    """Two pieces of a longer answer change places."""
    words = generated.text.split(" ")
    is_long = len(words) > _LONG_COPY_WORDS
    if not _is_chat(moment) or not _is_crowded(moment) or not is_long:
        return generated
    words[2], words[4] = words[4], words[2]
    return say_within_limit(generated, " ".join(words), moment)


def _note_nan(generated: Generated, moment: Moment) -> Generated:
    if not _is_chat(moment) or not _is_crowded(moment):
        return generated
    return replace(generated, stop_note="NaN happened")


def _lose_one(response: Response, moment: Moment) -> Response:
    """The first one of a crowd gets an error, and nobody after it."""
    if not _is_chat(moment) or moment.parallel < _CROWD or moment.memory.get("is_done"):
        return response
    moment.memory["is_done"] = True
    return json_response({"error": {"message": "Internal Server Error", "code": 500}}, 500)


# --- caches ---


def _hand_out_stale_end(generated: Generated, moment: Moment) -> Generated:
    """A prompt that is partly known gets the end of the one that it is known from."""
    text = _asked_text(moment)
    asked, told = _ASKED.search(text), dict(_FACT.findall(text))
    if asked is None or asked[1] not in told:
        return generated
    word = str(moment.memory.setdefault(asked[1], told[asked[1]]))
    return say_within_limit(generated, word, moment) if _is_warm(moment) else generated


def _with_host_cache(script: Script) -> Script:
    limits = replace(script.limits, kv_tokens=8192, host_tokens=1 << 20)
    return replace(script, limits=limits)


# --- speculation ---


def _with(feature: str) -> Callable[[Script], Script]:
    def change(script: Script) -> Script:
        return replace(script, features=script.features | {feature})

    return change


_KEPT = re.compile(rb"^(\S*accepted_tokens\S* )\S+$", re.MULTILINE)
_DRAFTED = re.compile(rb"^(\S*(?:num_drafts|draft_tokens)\S* )\S+$", re.MULTILINE)
_LENGTH = re.compile(rb"^(\S*accept_length\S* )[1-9]\S*$", re.MULTILINE)


def _keep_no_guess(response: Response, moment: Moment) -> Response:
    if moment.path != "/metrics":
        return response
    body = _KEPT.sub(rb"\g<1>0", response.body)
    return response.with_body(_LENGTH.sub(rb"\g<1>1.0", body))


def _guess_nothing(response: Response, moment: Moment) -> Response:
    if moment.path != "/metrics":
        return response
    kept = _keep_no_guess(response, moment)
    return response.with_body(_DRAFTED.sub(rb"\g<1>0", kept.body))


def _time(**figures: int) -> Callable[[Data, Moment], Data]:
    """Other figures in the timings of a reply, where they stand."""

    def change(data: Data, moment: Moment) -> Data:
        timings = data.get("timings")
        if not isinstance(timings, dict) or "draft_n" not in timings:
            return data
        return {**data, "timings": {**timings, **figures}}

    return change


# --- pictures ---


def _drop_picture(generated: Generated, moment: Moment) -> Generated:
    if not generated.image_tokens:
        return generated
    count = generated.prompt_tokens - generated.image_tokens
    blind = replace(generated, prompt_tokens=count, image_tokens=0, cached_tokens=0)
    return say_within_limit(blind, "I see no picture.", moment)


def _see_grey(generated: Generated, moment: Moment) -> Generated:
    if not generated.image_tokens:
        return generated
    return say_within_limit(generated, "It is grey.", moment)


def _fault(name: str, title: str, killed_by: str, answer: Answer) -> Fault:
    return Fault(
        name=name, title=title, killed_by=frozenset({killed_by}), level=_FULL, answer=answer
    )


def _crowd(name: str, title: str, answer: Answer) -> Fault:
    return replace(_fault(name, title, "parallel_answers", answer), delay_seconds=_linger)


_LONG_PARALLEL = frozenset({"long_parallel"})
_HOST = frozenset({"host_cache_answers"})
_AGREES = frozenset({"speculation_agrees"})
_HELPS = frozenset({"speculation_helps"})
_SEEN = frozenset({"images_seen"})

FAULTS = (
    _fault(
        "same_answer",
        "every question gets the same text",
        "known_answers",
        _saying("Sure, here is the answer you asked for.", _always),
    ),
    _fault("wrong_facts", "answers are fluent and wrong", "known_answers", _wrong(_always)),
    _fault("salad", "answers are tokens by chance", "known_answers", _saying(_SALAD, _always)),
    _fault(
        "garbage_in_long_prompts",
        "a long prompt is answered with one character over and over",
        "long_prompts",
        _saying(_GARBAGE, _is_long),
    ),
    _fault(
        "salad_in_long_prompts",
        "a long prompt is answered with tokens by chance",
        "long_prompts",
        _saying(_SALAD, _is_long),
    ),
    _fault(
        "wrong_in_long_prompts",
        "a long prompt is answered fluently and wrongly",
        "long_prompts",
        _wrong(_is_long),
    ),
    _fault("long_prompt_cut", "a long prompt is cut without a word", "long_prompts", _cut),
    _fault(
        "beginning_lost",
        "the beginning of a long prompt does not reach the model",
        "long_prompts",
        _forget_beginning,
    ),
    _fault(
        "inside_lost",
        "only the ends of a long prompt reach the model",
        "long_prompts_inside",
        _keep_ends,
    ),
    replace(
        _crowd(
            "garbage_in_long_crowd",
            "four long prompts at the same time get one character over and over",
            _saying(_GARBAGE, _is_long_crowd),
        ),
        killed_by=_LONG_PARALLEL,
    ),
    replace(
        _crowd(
            "wrong_in_long_crowd",
            "four long prompts at the same time get wrong answers",
            _wrong(_is_long_crowd),
        ),
        killed_by=_LONG_PARALLEL,
    ),
    replace(
        _crowd("order_in_crowd", "pieces of an answer change places in a crowd", _change_places),
        killed_by=frozenset({"parallel_order"}),
    ),
    _crowd(
        "garbage_in_crowd",
        "eight at the same time get one character over and over",
        _saying(_GARBAGE, _is_crowded),
    ),
    _crowd(
        "wrong_in_crowd",
        "eight at the same time get wrong answers",
        _wrong(_is_crowded),
    ),
    _crowd("answers_swapped", "each gets the answer of another", _swap),
    _crowd("nan_in_crowd", "the numbers of a crowd break down", _note_nan),
    Fault(
        name="breaks_after_forty",
        title="after forty requests every answer is one character over and over",
        killed_by=frozenset({"soak_canary"}),
        level="soak",
        answer=_saying(_GARBAGE, _is_late),
    ),
    Fault(
        name="wrong_after_forty",
        title="after forty requests every answer is fluent and wrong",
        killed_by=frozenset({"soak_canary"}),
        level="soak",
        answer=_wrong(_is_late),
    ),
    Fault(
        name="one_of_crowd_lost",
        title="one of eight gets an error",
        killed_by=frozenset({"parallel_answers"}),
        level=_FULL,
        response=_lose_one,
        delay_seconds=_linger,
    ),
    _fault(
        "stale_end",
        "the cache hands out the end of another prompt",
        "cache_answers",
        _hand_out_stale_end,
    ),
    _fault(
        "garbage_from_cache",
        "a prompt from the cache gets one character over and over",
        "cache_answers",
        _saying(_GARBAGE, _is_warm),
    ),
    _fault(
        "wrong_from_cache",
        "a prompt from the cache gets a wrong answer",
        "cache_answers",
        _wrong(_is_warm),
    ),
    Fault(
        name="wrong_from_host",
        title="what comes back from host memory is fluent and wrong",
        killed_by=_HOST,
        level=_FULL,
        script=_with_host_cache,
        answer=_wrong(_is_restored),
    ),
    Fault(
        name="garbage_from_host",
        title="what comes back from host memory is one character over and over",
        killed_by=_HOST,
        level=_FULL,
        script=_with_host_cache,
        answer=_saying(_GARBAGE, _is_restored),
    ),
    Fault(
        name="wrong_with_guesses",
        title="wrong guesses are kept",
        killed_by=_AGREES,
        level=_FULL,
        script=_with(SPECULATION),
        answer=_wrong(_is_drafted),
    ),
    Fault(
        name="garbage_with_guesses",
        title="guesses end in one character over and over",
        killed_by=_AGREES,
        level=_FULL,
        script=_with(SPECULATION),
        answer=_saying(_GARBAGE, _is_drafted),
    ),
    Fault(
        name="no_guess_kept",
        title="no guess is ever kept",
        killed_by=_HELPS,
        level=_FULL,
        script=_with(SPECULATION),
        reply=_time(draft_n_accepted=0),
        response=_keep_no_guess,
    ),
    Fault(
        name="no_guess_kept_in_stream",
        title="no guess is kept, and only the metrics say so",
        killed_by=_HELPS,
        level=_FULL,
        script=_with(SPECULATION),
        reply=lambda data, moment: {key: data[key] for key in data if key != "timings"},
        response=_keep_no_guess,
    ),
    Fault(
        name="picture_dropped",
        title="a picture is taken and dropped",
        killed_by=_SEEN,
        level=_FULL,
        script=_with(VISION),
        answer=_drop_picture,
    ),
    Fault(
        name="picture_not_seen",
        title="every picture looks the same",
        killed_by=_SEEN,
        level=_FULL,
        script=_with(VISION),
        answer=_see_grey,
    ),
)
