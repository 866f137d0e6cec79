"""Reading requests: each interface's JSON becomes a :class:`Question`.

Pure; raises :class:`Refused` for what an engine refuses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.fake_engine.checking import check_chat, check_fields, check_model, missing
from stoker.fake_engine.instances import make_match
from stoker.fake_engine.refusals import Refused
from stoker.fake_engine.script import LLAMACPP, SGLANG, STRUCTURE, TOOLS, VLLM, Script
from stoker.fake_engine.values import Call, Data, Question, Sampling, Shape, Turn, text_of

_JSON_KINDS = ("object", "array", "string", "number", "integer", "boolean", "null")
_DEFAULT_COMPLETION_TOKENS = 16


def read_chat(script: Script, data: Data) -> Question:
    """A request of /v1/chat/completions."""
    check_fields(script, data)
    check_model(script, data)
    check_chat(script, data)
    tools = tuple(data.get("tools") or ()) if script.has(TOOLS) else ()
    return Question(
        turns=tuple(map(_read_turn, data["messages"])),
        tools=tools,
        tool_choice=_read_choice(data.get("tool_choice"), tools),
        is_parallel=data.get("parallel_tool_calls") is not False,
        shape=_read_shape(script, data),
        sampling=_read_sampling(data),
        is_thinking=_is_thinking(data),
        is_drafted=data.get("speculative.n_max") != 0,
    )


def _read_turn(message: Data) -> Turn:
    content = message.get("content")
    images = [
        _url(part.get("image_url"))
        for part in (content if isinstance(content, list) else ())
        if isinstance(part, dict) and part.get("type") == "image_url"
    ]
    return Turn(
        role=str(message.get("role") or "user"),
        text=text_of(content),
        images=tuple(images),
        calls=tuple(map(_read_call, message.get("tool_calls") or ())),
    )


def _url(value: Any) -> str:
    return str(value.get("url", "")) if isinstance(value, dict) else str(value or "")


def _read_call(call: Data) -> Call:
    function = call.get("function") or {}
    arguments = function.get("arguments", "")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return Call(id=str(call.get("id", "")), name=str(function.get("name", "")), arguments=arguments)


def _read_choice(choice: Any, tools: Sequence[Data]) -> str:
    if isinstance(choice, dict):
        name = (choice.get("function") or {}).get("name") or choice.get("name")
        return f"={name}"
    return str(choice) if choice else "auto" if tools else "none"


def _is_thinking(data: Data) -> bool:
    options = data.get("chat_template_kwargs") or {}
    return options.get("enable_thinking") is not False and options.get("thinking") is not False


def _read_sampling(data: Data, *, default_tokens: int | None = None) -> Sampling:
    wanted = data.get("max_completion_tokens")
    wanted = data.get("max_tokens") if wanted is None else wanted
    wanted = default_tokens if wanted is None else int(wanted)
    stops = data.get("stop") or ()
    logprobs = data.get("logprobs")
    top = data.get("top_logprobs") or 0
    if not isinstance(logprobs, bool) and isinstance(logprobs, int):
        logprobs, top = True, logprobs
    temperature = data.get("temperature")
    seed = data.get("seed")
    return Sampling(
        max_tokens=None if wanted is not None and wanted < 0 else wanted,
        min_tokens=int(data.get("min_tokens") or 0),
        ignores_end=bool(data.get("ignore_eos")),
        stops=(stops,) if isinstance(stops, str) else _texts(stops),
        temperature=1.0 if temperature is None else float(temperature),
        seed=None if seed is None or int(seed) < 0 else int(seed),
        count=int(data.get("n") or 1),
        top_logprobs=int(top) if logprobs else None,
    )


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(each for each in values if isinstance(each, str)) if _is_list(values) else ()


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _read_shape(script: Script, data: Data) -> Shape | None:
    """What the answer has to look like, in any of the engines' own ways to say so."""
    pattern = _read_pattern(script, data)
    if pattern is not None:
        _check_offered(script)
        _check_pattern(script, pattern)
        return Shape(pattern=pattern)
    wanted = data.get("response_format")
    schema: Any = data.get("json_schema") if script.manners != VLLM else None
    if script.manners == VLLM:
        schema = (data.get("structured_outputs") or {}).get("json", data.get("guided_json"))
    if isinstance(wanted, dict):
        schema = _read_format(script, wanted) or schema
    if not schema:
        return None
    _check_offered(script)
    _check_schema(script, schema)
    return Shape(schema=schema)


def _read_pattern(script: Script, data: Data) -> str | None:
    if script.manners == SGLANG:
        return data.get("regex")
    if script.manners == VLLM:
        choices = (data.get("structured_outputs") or {}).get("choice")
        if choices:
            return "|".join(re.escape(str(choice)) for choice in choices)
        return (data.get("structured_outputs") or {}).get("regex")
    return None


def _check_offered(script: Script) -> None:
    if not script.has(STRUCTURE):
        raise Refused(
            message="Grammar-based generation (json_schema, regex) is not supported by this server"
        )


def _check_pattern(script: Script, pattern: str) -> None:
    try:
        make_match(pattern)
    except ValueError as error:
        word = "Grammar error:" if script.manners == VLLM else "Failed to compile regex grammar:"
        raise Refused(message=f"{word} invalid regex {json.dumps(pattern)}: {error}") from None


def _read_format(script: Script, wanted: Data) -> Any:
    kind = wanted.get("type")
    if kind == "json_object":
        return wanted.get("schema") or {"type": "object", "properties": {"answer": {}}}
    if kind == "json_schema":
        inner = wanted.get("json_schema")
        schema = inner.get("schema") if isinstance(inner, dict) else wanted.get("schema")
        if schema is None and script.manners != LLAMACPP:
            raise Refused(
                message="schema_ is required for json_schema response format request."
                if script.manners == SGLANG
                else "When response_format type is 'json_schema', the 'json_schema' field must be "
                "provided. (parameter=response_format)",
                param="response_format",
            )
        return schema or {"type": "object", "properties": {"answer": {}}}
    if kind not in (None, "text", "structural_tag"):
        raise Refused(
            message=f'response_format type must be one of "text" or "json_object", but got: {kind}'
            if script.manners == LLAMACPP
            else "Input should be 'text', 'json_object' or 'json_schema'",
            is_invalid=script.manners != LLAMACPP,
            param="response_format",
        )
    return None


def _check_schema(script: Script, schema: Any) -> None:
    """A kind that there is not is noticed by all three, each in its own words."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if not isinstance(kind, str) or kind in _JSON_KINDS:
        return
    words = {
        LLAMACPP: "Unable to generate parser for this template. Automatic parser generation "
        f"failed: JSON schema error at #: unrecognized type {kind}",
        VLLM: f"Grammar error: Invalid type: {kind}",
        SGLANG: f'Failed to compile json grammar: Unsupported type "{kind}"\n',
    }
    raise Refused(message=words[script.manners])


# --- the older completions ---


def read_completions(script: Script, data: Data) -> tuple[Question, ...]:
    """A request of /v1/completions: one question for each prompt."""
    check_fields(script, data)
    check_model(script, data)
    prompt = data.get("prompt")
    if prompt is None:
        raise _refuse_no_prompt(script)
    # llama.cpp goes on until the context is full where no limit is named.
    default = None if script.manners == LLAMACPP else _DEFAULT_COMPLETION_TOKENS
    sampling = _read_sampling(data, default_tokens=default)
    return tuple(
        Question(
            prompt=each if isinstance(each, str) else "",
            prompt_ids=None if isinstance(each, str) else tuple(each),
            tool_choice="none",
            sampling=sampling,
            # llama.cpp takes the field and does not heed it.
            is_echoed=bool(data.get("echo")) and script.manners != LLAMACPP,
            is_drafted=data.get("speculative.n_max") != 0,
        )
        for each in _read_prompts(prompt)
    )


def _refuse_no_prompt(script: Script) -> Refused:
    if script.manners == LLAMACPP:
        return Refused(message="[json.exception.out_of_range.403] key 'prompt' not found")
    if script.manners == VLLM:
        return Refused(
            message="Either prompt or prompt_embeds must be provided and non-empty. "
            "(parameter=prompt)",
            param="prompt",
        )
    return missing(script, "prompt")


def _read_prompts(prompt: Any) -> list[str | list[int]]:
    if isinstance(prompt, str):
        return [prompt]
    if _is_ids(prompt):
        return [prompt]
    several = prompt if isinstance(prompt, list) else []
    if several and all(isinstance(each, str) or _is_ids(each) for each in several):
        return several
    raise Refused(message="prompt must be a text, a list of texts or a list of token ids")


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(each) is int for each in value)


# --- the interfaces of others ---


def read_responses(script: Script, data: Data) -> Question:
    """A request of /v1/responses, as the chat request that the engines make of it."""
    if data.get("input") is None:
        raise missing(script, "input")
    messages: list[Data] = []
    if data.get("instructions"):
        messages.append({"role": "system", "content": data["instructions"]})
    given = data["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list):
        raise Refused(message="input must be a text or a list of items", param="input")
    for item in items:
        messages += _read_item(item)
    chat: Data = {
        **{
            name: data[name]
            for name in ("model", "temperature", "top_p", "stream", "seed")
            if name in data
        },
        "messages": messages,
        "max_tokens": data.get("max_output_tokens"),
        "tools": [_as_chat_tool(tool) for tool in data.get("tools") or ()] or None,
        "tool_choice": data.get("tool_choice"),
        "parallel_tool_calls": data.get("parallel_tool_calls"),
        "response_format": _as_chat_format((data.get("text") or {}).get("format")),
        "chat_template_kwargs": data.get("chat_template_kwargs"),
    }
    return read_chat(script, {name: value for name, value in chat.items() if value is not None})


def _read_item(item: Any) -> list[Data]:
    if not isinstance(item, dict):
        raise Refused(message="an item of input must be an object", param="input")
    kind = item.get("type", "message")
    if kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        return [{"role": "assistant", "content": None, "tool_calls": [call]}]
    if kind == "function_call_output":
        return [{"role": "tool", "content": text_of(item.get("output"))}]
    if kind == "reasoning":
        return []
    content = item.get("content")
    if isinstance(content, list):
        content = [_as_chat_part(part) for part in content]
    return [{"role": item.get("role", "user"), "content": content}]


def _as_chat_part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    if part.get("type") in ("input_text", "output_text"):
        return {"type": "text", "text": part.get("text", "")}
    if part.get("type") == "input_image":
        return {"type": "image_url", "image_url": {"url": part.get("image_url")}}
    return part


def _as_chat_tool(tool: Data) -> Data:
    return {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}


def _as_chat_format(wanted: Any) -> Any:
    if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
        return wanted
    return {"type": "json_schema", "json_schema": {k: v for k, v in wanted.items() if k != "type"}}


def read_messages(script: Script, data: Data) -> Question:
    """A request of /v1/messages, as the chat request that the engines make of it."""
    if data.get("messages") is None:
        raise _missing_message_field(script, "messages", status=500)
    if data.get("max_tokens") is None and script.manners != LLAMACPP:
        raise _missing_message_field(script, "max_tokens")
    messages: list[Data] = []
    if data.get("system"):
        messages.append({"role": "system", "content": text_of(data["system"])})
    if not isinstance(data["messages"], list):
        raise Refused(message="messages: Input should be a valid list", is_invalid=True)
    for message in data["messages"]:
        messages += _read_message(message)
    chat: Data = {
        **{
            name: data[name]
            for name in ("model", "temperature", "top_p", "stream", "max_tokens")
            if data.get(name) is not None
        },
        "messages": messages,
        "stop": data.get("stop_sequences"),
        "tools": [_as_chat_function(tool) for tool in data.get("tools") or ()] or None,
        "chat_template_kwargs": _thinking(data.get("thinking")),
        **_as_chat_choice(data.get("tool_choice")),
    }
    return read_chat(script, {name: value for name, value in chat.items() if value is not None})


def _missing_message_field(script: Script, name: str, *, status: int = 400) -> Refused:
    if script.manners == SGLANG:
        return Refused(message=f"{name}: Field required", is_invalid=True)
    refused = missing(script, name)
    refused.status = status if script.manners == LLAMACPP else 400
    return refused


def _thinking(wanted: Any) -> Data | None:
    is_off = isinstance(wanted, dict) and wanted.get("type") == "disabled"
    return {"enable_thinking": False} if is_off else None


def _as_chat_function(tool: Data) -> Data:
    return {
        "type": "function",
        "function": {
            "name": tool.get("name"),
            "description": tool.get("description", ""),
            "parameters": tool.get("input_schema") or {"type": "object"},
        },
    }


def _as_chat_choice(choice: Any) -> Data:
    if not isinstance(choice, dict):
        return {}
    kind = choice.get("type")
    wanted: Any = {"any": "required", "none": "none"}.get(str(kind), "auto")
    if kind == "tool":
        wanted = {"type": "function", "function": {"name": choice.get("name")}}
    return {
        "tool_choice": wanted,
        "parallel_tool_calls": not choice.get("disable_parallel_tool_use"),
    }


def _read_message(message: Any) -> list[Data]:
    """One message of Anthropic's kind: its blocks become messages and calls."""
    if not isinstance(message, dict):
        raise Refused(message="messages: Input should be a valid dictionary", is_invalid=True)
    content, role = message.get("content"), message.get("role")
    if not isinstance(content, list):
        return [{"role": role, "content": content}]
    blocks = [block for block in content if isinstance(block, dict)]
    results = [
        {"role": "tool", "content": text_of(block.get("content"))}
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    calls = [
        {
            "id": block.get("id"),
            "type": "function",
            "function": {
                "name": block.get("name"),
                "arguments": json.dumps(block.get("input") or {}),
            },
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    parts = [part for block in blocks if (part := _as_part(block))]
    own = [{"role": role, "content": parts or None, "tool_calls": calls}] if parts or calls else []
    return results + own


def _as_part(block: Data) -> Data | None:
    if block.get("type") == "text":
        return {"type": "text", "text": block.get("text", "")}
    if block.get("type") == "image":
        source = block.get("source") or {}
        url = source.get("url") or f"data:{source.get('media_type')};base64,{source.get('data')}"
        return {"type": "image_url", "image_url": {"url": url}}
    return None
