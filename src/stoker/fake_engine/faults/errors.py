"""Broken promises about errors, keys, health, figures and clients that go away."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stoker.fake_engine.fault import Data, Fault, Moment
from stoker.fake_engine.script import Script, Timing
from stoker.fake_engine.values import Part, Response, json_response

_FULL = "full"
_CHAT = "/v1/chat/completions"
_PAGE = b"<html><head><title>400 Bad Request</title></head><body>nginx</body></html>"
_TRACE = 'Traceback (most recent call last):\n  File "server.py", line 1, in answer\nKeyError'

Change = Callable[[Response, Moment], Response]

_MALFORMED = "errors_malformed"
_PARAMETER = "errors_parameter"
_TOO_LONG = "errors_too_long"
_REFUSING = frozenset({_MALFORMED, _PARAMETER, _TOO_LONG})


# --- what was asked ---


def _is_refusal(response: Response, moment: Moment) -> bool:
    """Refused for what was asked, not for the key or the path."""
    return response.status in (400, 413, 422) and moment.path == _CHAT


def _is_malformed(response: Response, moment: Moment) -> bool:
    """No JSON object came: there was nothing to ask for."""
    return _is_refusal(response, moment) and not moment.question


def _is_too_long(response: Response, moment: Moment) -> bool:
    return _is_refusal(response, moment) and _count_words(moment) > 200


def _count_words(moment: Moment) -> int:
    messages = moment.question.get("messages")
    turns = messages if isinstance(messages, list) else []
    return sum(len(str(each.get("content")).split()) for each in turns if isinstance(each, dict))


def _has_wrong_number(response: Response, moment: Moment) -> bool:
    return _is_refusal(response, moment) and isinstance(moment.question.get("temperature"), str)


def _lacks_messages(response: Response, moment: Moment) -> bool:
    asked = moment.question
    return _is_refusal(response, moment) and "model" in asked and "messages" not in asked


# --- how it ends instead ---


def _answer_anyway(response: Response, moment: Moment, *, prompt_tokens: int = 40) -> Response:
    """A short answer that looks like any other."""
    if moment.question.get("stream"):
        return _stream_nothing(response)
    choice: Data = {"index": 0, "finish_reason": "length"}
    choice["message"] = {"role": "assistant", "content": "The"}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 1}
    usage["total_tokens"] = prompt_tokens + 1
    fields = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "smollm2"}
    return json_response({**fields, "choices": [choice], "usage": usage})


def _stream_nothing(response: Response) -> Response:
    headers = {"Content-Type": "text/event-stream"}
    parts = (Part(data=b"data: [DONE]\n\n"),)
    return replace(response, status=200, headers=headers, parts=parts, is_streamed=True)


def _as_page(response: Response, moment: Moment) -> Response:
    return response.with_header("Content-Type", "text/html").with_body(_PAGE)


def _as_nothing(response: Response, moment: Moment) -> Response:
    return response.with_body(b"")


def _as_words(response: Response, moment: Moment) -> Response:
    return response.with_header("Content-Type", "text/plain").with_body(b"Bad Request")


def _as_trace(response: Response, moment: Moment) -> Response:
    return json_response({"error": {"message": _TRACE, "type": "KeyError"}}, response.status)


def _as_codes(response: Response, moment: Moment) -> Response:
    return json_response({"error": {"code": response.status}}, response.status)


def _as_server_error(response: Response, moment: Moment) -> Response:
    return replace(response, status=500)


def _cut(response: Response, moment: Moment) -> Response:
    """The connection is closed in the midst of the body."""
    return replace(response.with_body(response.body[:5]), is_cut=True)


def _where(matches: Callable[[Response, Moment], bool], change: Change) -> Change:
    """Only what matches is changed."""

    def response_hook(response: Response, moment: Moment) -> Response:
        return change(response, moment) if matches(response, moment) else response

    return response_hook


def _die_of_it(response: Response, moment: Moment) -> Response:
    """From the first malformed request on no question is answered."""
    if _is_malformed(response, moment):
        moment.memory["is_dead"] = True
    elif moment.memory.get("is_dead") and moment.path == _CHAT and response.status == 200:
        return json_response({"error": {"message": "the engine is gone"}}, 503)
    return response


def _fault(name: str, title: str, killed_by: frozenset[str], response: Change) -> Fault:
    return Fault(name=name, title=title, killed_by=killed_by, level=_FULL, response=response)


def _cut_prompt(response: Response, moment: Moment) -> Response:
    return _answer_anyway(response, moment, prompt_tokens=_count_words(moment) // 2)


def _read_whole(response: Response, moment: Moment) -> Response:
    return _answer_anyway(response, moment, prompt_tokens=2 * _count_words(moment))


_LONG = frozenset({_TOO_LONG})
_ERRORS = (
    _fault("errors_as_pages", "errors are pages", _REFUSING, _where(_is_refusal, _as_page)),
    _fault("errors_empty", "errors have no body", _REFUSING, _where(_is_refusal, _as_nothing)),
    _fault("errors_as_words", "errors are no JSON", _REFUSING, _where(_is_refusal, _as_words)),
    _fault("errors_traced", "errors are stack traces", _REFUSING, _where(_is_refusal, _as_trace)),
    _fault("errors_mute", "errors have no message", _REFUSING, _where(_is_refusal, _as_codes)),
    _fault(
        "errors_of_server",
        "what the client did wrong is a server error",
        _REFUSING,
        _where(_is_refusal, _as_server_error),
    ),
    _fault("errors_cut", "errors break off", _REFUSING, _where(_is_refusal, _cut)),
    _fault(
        "malformed_kills",
        "a malformed request ends the engine",
        frozenset({_MALFORMED}),
        _die_of_it,
    ),
    _fault(
        "malformed_answered",
        "a malformed request gets an answer",
        frozenset({_MALFORMED}),
        _where(_is_malformed, _answer_anyway),
    ),
    _fault(
        "wrong_number_answered",
        "a temperature that is no number is not noticed",
        frozenset({_PARAMETER}),
        _where(_has_wrong_number, _answer_anyway),
    ),
    _fault(
        "missing_messages_crash",
        "a question without messages is a server error",
        frozenset({_PARAMETER}),
        _where(_lacks_messages, _as_server_error),
    ),
    _fault("prompt_cut", "a long prompt is cut", _LONG, _where(_is_too_long, _cut_prompt)),
    _fault("too_long_taken", "a long prompt is taken", _LONG, _where(_is_too_long, _read_whole)),
    _fault(
        "too_long_crashes", "a long prompt crashes", _LONG, _where(_is_too_long, _as_server_error)
    ),
)


# --- models that are not there ---


def _is_unknown_model(moment: Moment) -> bool:
    """A name that says itself that there is none."""
    name = moment.question.get("model")
    return moment.path == _CHAT and isinstance(name, str) and "no-such" in name


def _crash_on_model(response: Response, moment: Moment) -> Response:
    return (
        _as_words(replace(response, status=500), moment) if _is_unknown_model(moment) else response
    )


def _page_on_model(response: Response, moment: Moment) -> Response:
    return (
        _as_page(replace(response, status=404), moment) if _is_unknown_model(moment) else response
    )


_MODELS = (
    _fault(
        "unknown_model_crashes",
        "the name of an unknown model is a server error",
        frozenset({"errors_model"}),
        _crash_on_model,
    ),
    _fault(
        "unknown_model_page",
        "the name of an unknown model leads to a page",
        frozenset({"errors_model"}),
        _page_on_model,
    ),
)


# --- keys ---


def _opened(path: str, *, with_wrong_key: bool) -> Change:
    """A path that answers without the key, or only with a wrong one."""

    def response_hook(response: Response, moment: Moment) -> Response:
        has_key = "authorization" in moment.headers
        is_open = moment.path == path and response.status in (401, 403, 404)
        if not is_open or has_key is not with_wrong_key:
            return response
        if path == _CHAT:
            return _answer_anyway(response, moment)
        return json_response({"object": "list", "data": [{"id": "smollm2", "object": "model"}]})

    return response_hook


_KEYED = frozenset({"key_required"})


def _open_door(name: str, title: str, path: str, *, with_wrong_key: bool = False) -> Fault:
    change = _opened(path, with_wrong_key=with_wrong_key)
    return Fault(name=name, title=title, killed_by=_KEYED, response=change)


def _answer_streams(response: Response, moment: Moment) -> Response:
    """Only the plain question is guarded."""
    if response.status != 401 or moment.path != _CHAT or not moment.question.get("stream"):
        return response
    return _answer_anyway(response, moment)


def _take_alike(is_alike: Callable[[str, str], bool]) -> Change:
    """Keys that are like the own one do as well. It is learnt from the first that was taken."""

    def response_hook(response: Response, moment: Moment) -> Response:
        shown = moment.headers.get("authorization", "")
        if response.status == 200 and shown:
            moment.memory.setdefault("own", shown)
        own = moment.memory.get("own")
        if response.status != 401 or moment.path != _CHAT or not own or own == shown:
            return response
        return _answer_anyway(response, moment) if is_alike(own, shown) else response

    return response_hook


def _has_suffix(own: str, shown: str) -> bool:
    return shown.startswith(own)


def _is_same_but_case(own: str, shown: str) -> bool:
    return shown.lower() == own.lower()


def _refuse_oddly(response: Response, moment: Moment) -> Response:
    return replace(response, status=500) if response.status == 401 else response


_KEYS = (
    _open_door("chat_open", "whoever has no key may chat", _CHAT),
    _open_door("any_key_opens", "every key will do", _CHAT, with_wrong_key=True),
    _open_door("list_open", "whoever has no key may see the models", "/v1/models"),
    _open_door("slots_open", "whoever has no key may see what others ask", "/slots"),
    _open_door("native_open", "whoever has no key may use the engine's own path", "/generate"),
    Fault(
        name="stream_open",
        title="whoever has no key may chat in streams",
        killed_by=_KEYED,
        response=_answer_streams,
    ),
    Fault(
        name="longer_key_opens",
        title="the key with something behind it is taken",
        killed_by=_KEYED,
        response=_take_alike(_has_suffix),
    ),
    Fault(
        name="key_of_any_case_opens",
        title="small and large letters of the key are the same",
        killed_by=_KEYED,
        response=_take_alike(_is_same_but_case),
    ),
    Fault(
        name="key_crashes",
        title="a missing key is a server error",
        killed_by=_KEYED,
        response=_refuse_oddly,
    ),
)


# --- health and what is published ---


def _fail_chat(response: Response, moment: Moment) -> Response:
    if moment.path != _CHAT or response.status != 200:
        return response
    return json_response({"error": {"message": "out of memory", "type": "server_error"}}, 500)


def _deny_health(response: Response, moment: Moment) -> Response:
    return replace(response, status=503) if moment.path.startswith("/health") else response


def _publish(value: Any) -> Callable[[Data, Moment], Data]:
    """The context length as another value, wherever the engine has it."""

    def reply_hook(reply: Data, moment: Moment) -> Data:
        if moment.path != "/v1/models":
            return reply
        return {**reply, "data": [_with_context(each, value) for each in reply.get("data", ())]}

    return reply_hook


def _with_context(model: Data, value: Any) -> Data:
    if isinstance(model.get("meta"), dict) and "n_ctx" in model["meta"]:
        return {**model, "meta": {**model["meta"], "n_ctx": value}}
    return {**model, "max_model_len": value} if "max_model_len" in model else model


_PUBLISHED = frozenset({"context_published"})
_TRUTH = (
    Fault(
        name="health_lies",
        title="health says yes while no question is answered",
        killed_by=frozenset({"health_tells_truth"}),
        response=_fail_chat,
    ),
    Fault(
        name="health_denies",
        title="health says no while questions are answered",
        killed_by=frozenset({"health_tells_truth"}),
        response=_deny_health,
    ),
    Fault(
        name="context_zero",
        title="a context of no tokens is published",
        killed_by=_PUBLISHED,
        reply=_publish(0),
    ),
    Fault(
        name="context_as_text",
        title="the context length is published as text",
        killed_by=_PUBLISHED,
        reply=_publish("2048"),
    ),
)


# --- the first sample ---


def _late(response: Response, seconds: float) -> Response:
    """The same, so much later."""
    first, *rest = response.parts
    late = replace(first, after_seconds=first.after_seconds + seconds)
    return replace(response, parts=(late, *rest))


def _compile_sampling(seconds: float) -> Change:
    """The first sampled request waits for a kernel."""

    def response_hook(response: Response, moment: Moment) -> Response:
        if not moment.is_sampled or moment.memory.get("is_compiled"):
            return response
        moment.memory["is_compiled"] = True
        return _late(response, seconds)

    return response_hook


def _hang_on_samples(response: Response, moment: Moment) -> Response:
    return _late(response, 600.0) if moment.is_sampled else response


_SAMPLED = frozenset({"sampled_in_time"})
_SAMPLES = (
    Fault(
        name="first_sample_slow",
        title="the first sampled answer waits for a kernel",
        killed_by=_SAMPLED,
        response=_compile_sampling(12.0),
    ),
    Fault(
        name="first_sample_delayed",
        title="the first sampled answer takes seconds, and the next one none",
        killed_by=_SAMPLED,
        response=_compile_sampling(6.0),
    ),
    Fault(
        name="samples_hang",
        title="sampled answers never come",
        killed_by=_SAMPLED,
        response=_hang_on_samples,
    ),
)


# --- clients that go away ---

#: Quick, and yet slow enough that an answer of a thousand tokens can be left.
_SECONDS_PER_TOKEN = 0.002

#: A gauge of requests that are being computed, in any engine's words.
_RUNNING = re.compile(
    rb"^(\w+:(?:num_running_reqs|num_requests_running|requests_processing)(?:\{.*\})? ).*$",
    re.MULTILINE,
)


def _compute_on(script: Script) -> Script:
    timing = replace(script.timing, is_cancelling=False, seconds_per_token=_slowness(script.timing))
    return replace(script, timing=timing)


def _slowness(timing: Timing) -> float:
    return timing.seconds_per_token or _SECONDS_PER_TOKEN


def _slow_down(script: Script) -> Script:
    timing = replace(script.timing, seconds_per_token=_slowness(script.timing))
    return replace(script, timing=timing)


def _keep_counting(response: Response, moment: Moment) -> Response:
    """Streams stay in the gauge for ever."""
    if moment.question.get("stream"):
        moment.memory["streams"] = moment.memory.get("streams", 0) + 1
    if moment.path != "/metrics":
        return response
    count = str(moment.memory.get("streams", 0)).encode()
    return response.with_body(_RUNNING.sub(rb"\g<1>" + count, response.body))


_CANCELLED = frozenset({"cancel_frees_slot"})
_GONE = (
    Fault(
        name="cancel_ignored",
        title="answers are computed for clients that have gone",
        killed_by=_CANCELLED,
        level=_FULL,
        script=_compute_on,
    ),
    Fault(
        name="cancelled_still_counted",
        title="streams keep their place in the count for ever",
        killed_by=_CANCELLED,
        level=_FULL,
        script=_slow_down,
        response=_keep_counting,
    ),
)

FAULTS = _ERRORS + _MODELS + _KEYS + _TRUTH + _SAMPLES + _GONE
