"""Which requests each engine refuses before it computes anything.

Pure; raises :class:`Refused`. The engines differ much: llama.cpp takes nearly everything, the
others check types and ranges. The words are theirs as far as a client could care.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.fake_engine.refusals import Refused
from stoker.fake_engine.script import LLAMACPP, SGLANG, VISION, VLLM, Script
from stoker.fake_engine.values import Data

#: What a field must be: the pydantic error's type, its words, and the JSON types that pass.
_TEXT = ("string_type", "Input should be a valid string", (str,))
_LIST = ("list_type", "Input should be a valid list", (list,))
_TABLE = ("dict_type", "Input should be a valid dictionary", (dict,))
_INTEGER = (
    "int_parsing",
    "Input should be a valid integer, unable to parse string as an integer",
    (int,),
)
_NUMBER = (
    "float_parsing",
    "Input should be a valid number, unable to parse string as a number",
    (int, float),
)
_TRUTH = ("bool_parsing", "Input should be a valid boolean, unable to interpret input", (bool,))

_FIELDS: Mapping[str, tuple[str, str, tuple[type, ...]]] = {
    "model": _TEXT,
    "messages": _LIST,
    "temperature": _NUMBER,
    "top_p": _NUMBER,
    "frequency_penalty": _NUMBER,
    "presence_penalty": _NUMBER,
    "max_tokens": _INTEGER,
    "max_completion_tokens": _INTEGER,
    "max_output_tokens": _INTEGER,
    "min_tokens": _INTEGER,
    "n": _INTEGER,
    "seed": _INTEGER,
    "top_k": _INTEGER,
    "top_logprobs": _INTEGER,
    "stream": _TRUTH,
    "logit_bias": _TABLE,
    "tools": _LIST,
    "response_format": _TABLE,
}

#: What llama.cpp insists on; the rest it ignores where it cannot use it.
_LLAMACPP_FIELDS = {
    "temperature": "number",
    "top_p": "number",
    "frequency_penalty": "number",
    "presence_penalty": "number",
    "max_tokens": "number",
    "n": "number",
    "seed": "number",
    "top_k": "number",
    "stream": "boolean",
}
_JSON_NAMES = {str: "string", list: "array", dict: "object", bool: "boolean", type(None): "null"}
_ROLES = ("system", "user", "assistant", "tool", "function", "developer", "latest_reminder", "root")
_PART_KINDS = ("text", "image_url", "input_audio", "audio_url", "video_url", "refusal", "thinking")


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What a number must be within, by engine; the words have ``{value}``."""

    field: str
    engine: str
    least: float = -math.inf
    most: float = math.inf
    is_open: bool = False
    words: str = ""


_RANGES = (
    Range(
        field="temperature",
        engine=VLLM,
        least=0,
        words="temperature must be non-negative, got {value:.1f}. "
        "(parameter=temperature, value={value:.1f})",
    ),
    Range(
        field="temperature",
        engine=VLLM,
        most=2,
        words="temperature must be in [0, 2], got {value:.1f}. "
        "(parameter=temperature, value={value:.1f})",
    ),
    Range(
        field="temperature",
        engine=SGLANG,
        least=0,
        words="temperature must be a non-negative finite number, got {value:.1f}.",
    ),
    Range(
        field="top_p",
        engine=VLLM,
        least=0,
        most=1,
        is_open=True,
        words="top_p must be in (0, 1], got {value:.1f}. (parameter=top_p, value={value:.1f})",
    ),
    Range(
        field="top_p",
        engine=SGLANG,
        least=0,
        most=1,
        is_open=True,
        words="top_p must be in (0, 1], got {value:.1f}.",
    ),
    Range(
        field="frequency_penalty",
        engine=VLLM,
        least=-2,
        most=2,
        words="frequency_penalty must be in [-2, 2], got {value:.1f}.",
    ),
    Range(
        field="frequency_penalty",
        engine=SGLANG,
        least=-2,
        most=2,
        words="frequency_penalty must be in [-2, 2], got {value:.1f}.",
    ),
    Range(
        field="presence_penalty",
        engine=VLLM,
        least=-2,
        most=2,
        words="presence_penalty must be in [-2, 2], got {value:.1f}.",
    ),
    Range(
        field="presence_penalty",
        engine=SGLANG,
        least=-2,
        most=2,
        words="presence_penalty must be in [-2, 2], got {value:.1f}.",
    ),
    Range(
        field="max_tokens",
        engine=VLLM,
        least=1,
        words="max_tokens must be at least 1, got {value:.0f}. "
        "(parameter=max_tokens, value={value:.0f})",
    ),
    Range(
        field="max_tokens",
        engine=SGLANG,
        least=0,
        words="max_new_tokens must be at least 0, got {value:.0f}.",
    ),
    Range(
        field="max_tokens",
        engine=LLAMACPP,
        least=-1,
        most=2147483647,
        words="Field 'max_tokens': Value must be between -1 <= value <= 2147483647, "
        "but got {value:.0f}",
    ),
    Range(field="n", engine=VLLM, least=1, words="n must be at least 1, got {value:.0f}."),
    Range(field="n", engine=SGLANG, least=1, words="range() arg 3 must not be zero"),
    Range(
        field="top_k",
        engine=VLLM,
        least=-1,
        words="top_k must be 0 (disable), or at least 1, got {value:.0f}.",
    ),
    Range(
        field="top_logprobs",
        engine=VLLM,
        most=20,
        words="Requested sample logprobs of {value:.0f}, which is greater than max allowed: 20 "
        "(parameter=logprobs, value={value:.0f})",
    ),
)


def read_body(script: Script, body: bytes) -> Data:
    """The JSON object of a request. Raises Refused for what is none."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _refuse_json(script, body, error) from None
    if not isinstance(data, dict):
        if script.manners == LLAMACPP:
            raise Refused(message="'messages' is required")
        if script.manners == SGLANG:
            raise Refused(message="", is_crash=True)
        what = "Input should be a valid dictionary or object to extract fields from"
        raise _invalid(script, "", "model_attributes_type", what)
    return data


def _refuse_json(script: Script, body: bytes, error: Exception) -> Refused:
    place = getattr(error, "pos", 0)
    if script.manners == LLAMACPP:
        what = (
            "attempting to parse an empty input; check that your input string or stream contains "
            "the expected JSON"
            if not body
            else "syntax error while parsing value"
        )
        return Refused(
            message=f"[json.exception.parse_error.101] parse error at line 1, column {place + 1}: "
            f"{what}"
        )
    if not body:
        return _invalid(script, "", "missing", "Field required")
    return _invalid(script, str(place), "json_invalid", "JSON decode error")


def _invalid(script: Script, name: str, kind: str, what: str) -> Refused:
    """A request that does not fit the interface, in the words of pydantic."""
    path = f"body.{name}" if name else "body"
    where = path if script.manners == VLLM else tuple(path.split("."))
    row = {"type": kind, "loc": where, "msg": what}
    return Refused(message=f"1 validation error:\n  {row}", is_invalid=True, param=path)


def missing(script: Script, name: str) -> Refused:
    """A field that has to be there and is not."""
    if script.manners == LLAMACPP:
        return Refused(message=f"'{name}' is required")
    return _invalid(script, name, "missing", "Field required")


def check_model(script: Script, data: Data) -> None:
    """vLLM alone knows the names of its models. Raises Refused."""
    name = data.get("model")
    if script.manners != VLLM or not isinstance(name, str) or not name or name in script.names:
        return
    known = ", ".join(script.names)
    raise Refused(
        message=f"The model `{name}` does not exist. Valid aliases: {known}.",
        status=404,
        param="model",
    )


def check_fields(script: Script, data: Data) -> None:
    """The types and the ranges of what every interface shares. Raises Refused."""
    if script.manners == LLAMACPP:
        _check_llamacpp(data)
    else:
        _check_types(script, data)
    for limit in _RANGES:
        if limit.engine == script.manners:
            _check_range(data, limit)
    _check_limits(script, data)
    if script.manners == LLAMACPP and isinstance(data.get("n"), int):
        most = script.limits.parallel_requests
        if not 1 <= data["n"] <= most:
            raise Refused(
                message=f"Field 'n': Value must be between 1 <= value <= {most}, "
                f"but got {data['n']}"
            )


def _check_types(script: Script, data: Data) -> None:
    if script.manners == SGLANG and isinstance(data.get("response_format"), str | list):
        raise Refused(message="", is_crash=True)
    for name, (kind, what, types) in _FIELDS.items():
        value = data.get(name)
        if value is not None and not _fits(value, types):
            raise _invalid(script, name, kind, what)
    stop = data.get("stop")
    if not (stop is None or isinstance(stop, str | list)):
        raise _invalid(script, "stop", "string_type", "Input should be a valid string")


def _fits(value: Any, types: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in types
    if isinstance(value, float) and types == (int,):
        return value.is_integer()
    if isinstance(value, str) and str not in types:
        return _reads_as(value, types)
    return isinstance(value, types)


def _reads_as(value: str, types: tuple[type, ...]) -> bool:
    """Whether pydantic would take a text for it."""
    if bool in types:
        return value.lower() in ("true", "false", "1", "0", "yes", "no", "on", "off")
    try:
        float(value)
    except ValueError:
        return False
    return int in types


def _check_llamacpp(data: Data) -> None:
    for name, kind in _LLAMACPP_FIELDS.items():
        value = data.get(name)
        if value is None:
            continue
        is_truth = isinstance(value, bool)
        if (kind == "boolean") != is_truth or not isinstance(value, bool | int | float):
            found = _JSON_NAMES.get(type(value), "number")
            raise Refused(
                message=f"Field '{name}': [json.exception.type_error.302] type must be {kind}, "
                f"but is {found}"
            )


def _check_range(data: Data, limit: Range) -> None:
    value = data.get(limit.field)
    if limit.field == "max_tokens" and value is None:
        value = data.get("max_completion_tokens")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    is_below = value <= limit.least if limit.is_open else value < limit.least
    if is_below or value > limit.most or not math.isfinite(value):
        raise Refused(message=limit.words.format(value=float(value)), param=limit.field)


def _check_limits(script: Script, data: Data) -> None:
    wanted = data.get("max_completion_tokens") or data.get("max_tokens")
    limit = script.limits.context_tokens
    if not isinstance(wanted, int):
        return
    if wanted > limit and script.manners == VLLM:
        raise Refused(
            message=f"max_tokens={wanted} cannot be greater than max_model_len={limit}. Please "
            f"request fewer output tokens. (parameter=max_tokens, value={wanted})",
            param="max_tokens",
        )
    if wanted > limit and script.manners == SGLANG:
        raise Refused(
            message=f"max_completion_tokens is too large: {wanted}."
            f"This model supports at most {limit} completion tokens."
        )
    least = data.get("min_tokens")
    if isinstance(least, int) and least > wanted and script.manners != LLAMACPP:
        raise Refused(
            message=f"min_tokens must be less than or equal to max_tokens={wanted}, got {least}."
            if script.manners == VLLM
            else f"min_new_tokens must be in [0, max_new_tokens({wanted})], got {least}."
        )


def check_chat(script: Script, data: Data) -> None:
    """A chat request, after its fields. Raises Refused."""
    messages = data.get("messages")
    if messages is None:
        raise missing(script, "messages")
    if not isinstance(messages, list):
        raise Refused(message="Expected 'messages' to be an array")
    if not messages and script.manners != LLAMACPP:
        raise Refused(
            message="Messages cannot be empty."
            if script.manners == SGLANG
            else "Cannot apply chat template to an empty conversation. Provide at least one "
            "message."
        )
    for place, message in enumerate(messages):
        _check_message(script, place, message)
    _check_options(script, data)
    _check_tools(script, data)


def _check_message(script: Script, place: int, message: Any) -> None:
    if not isinstance(message, dict):
        if script.manners == LLAMACPP:
            raise Refused(message=f"Expected 'message' to be an object: {place}")
        raise _invalid(script, f"messages.{place}", "dict_type", _TABLE[1])
    role, content = message.get("role"), message.get("content")
    if script.manners == SGLANG and str(role).lower() not in _ROLES:
        allowed = ", ".join(repr(each) for each in _ROLES if each != "user")
        what = f"Value error, 'role' must be one of {allowed} (case-insensitive)."
        raise _invalid(script, f"messages.{place}.role", "value_error", what)
    if content is None:
        if script.manners == LLAMACPP and role != "assistant":
            raise Refused(message="All non-assistant messages must contain 'content'")
        if script.manners == SGLANG and role == "user":
            raise _invalid(script, f"messages.{place}.content", "missing", "Field required")
        return
    if isinstance(content, list):
        for part in content:
            _check_part(script, place, part)
    elif not isinstance(content, str):
        if script.manners == LLAMACPP:
            raise Refused(message="Expected 'content' to be a string or an array")
        raise _invalid(script, f"messages.{place}.content", "string_type", _TEXT[1])


def _check_part(script: Script, place: int, part: Any) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in _PART_KINDS:
        if script.manners == LLAMACPP:
            raise Refused(message="unsupported content[].type")
        raise _invalid(script, f"messages.{place}.content", "literal_error", "Input should be text")
    if kind == "image_url" and not script.has(VISION):
        raise refuse_picture(script)


def refuse_picture(script: Script) -> Refused:
    """The model has no eyes."""
    if script.manners == LLAMACPP:
        return Refused(
            message="image input is not supported - hint: if this is unexpected, you may need to "
            "provide the mmproj",
            status=500,
        )
    if script.manners == VLLM:
        return Refused(message=f"{script.name} is not a multimodal model")
    return Refused(
        message="Model only supports text input; received unsupported content type 'image_url'."
    )


def _check_options(script: Script, data: Data) -> None:
    if script.manners == VLLM and data.get("stream_options") and not data.get("stream"):
        raise Refused(
            message="Stream options can only be defined when `stream=True`. "
            "(parameter=stream_options)",
            param="stream_options",
        )
    if data.get("top_logprobs") and not data.get("logprobs") and script.manners != SGLANG:
        raise Refused(
            message="top_logprobs requires logprobs to be set to true"
            if script.manners == LLAMACPP
            else "when using `top_logprobs`, `logprobs` must be set to true. "
            "(parameter=top_logprobs)",
            param="top_logprobs",
        )
    count = data.get("n") or 1
    if script.manners == VLLM and count > 1 and data.get("temperature") == 0:
        raise Refused(message=f"n must be 1 when using greedy sampling, got {count}.")


def _check_tools(script: Script, data: Data) -> None:
    tools, choice = data.get("tools"), data.get("tool_choice")
    if tools is not None and not isinstance(tools, list):
        raise Refused(
            message=f"Failed to parse tools: Expected 'tools' to be an array, got "
            f"{json.dumps(tools)}; tools = {json.dumps(tools)}",
            status=500,
        )
    if isinstance(choice, str) and choice not in ("auto", "none", "required"):
        raise _refuse_choice(script, choice)
    if choice in (None, "auto", "none") or script.manners == LLAMACPP:
        return
    if not tools:
        raise Refused(
            message="Tools cannot be empty if tool choice is set to required."
            if script.manners == SGLANG
            else "When using `tool_choice`, `tools` must be set. (parameter=tool_choice)",
            param="tool_choice",
        )
    if isinstance(choice, dict):
        _check_named(script, tools, choice)


def _refuse_choice(script: Script, choice: str) -> Refused:
    if script.manners == LLAMACPP:
        return Refused(message=f"Invalid tool_choice: {choice}")
    if script.manners == VLLM:
        return Refused(
            message=f"Invalid value for `tool_choice`: {choice}! Only named tools, "
            '"none", "auto" or "required" are supported. (parameter=tool_choice)',
            param="tool_choice",
        )
    what = "Input should be 'auto', 'required' or 'none'"
    return _invalid(script, "tool_choice", "literal_error", what)


def _check_named(script: Script, tools: list[Any], choice: Data) -> None:
    name = (choice.get("function") or {}).get("name") or choice.get("name")
    names = [(tool.get("function") or tool).get("name") for tool in tools if isinstance(tool, dict)]
    if name not in names:
        raise Refused(
            message=f"Tool '{name}' not found in tools list."
            if script.manners == SGLANG
            else "The tool specified in `tool_choice` does not match any of the specified `tools` "
            "(parameter=tool_choice)",
            param="tool_choice",
        )
