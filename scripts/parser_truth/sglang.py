"""SGLang's own chat serving over outputs that no model wrote.

The serving class is the engine's; what it is given in place of a model is a list of pieces. Runs
in the engine's interpreter. No GPU, tokenizer or weights are needed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from scripts.parser_truth.canon import TOOLS, Format
from scripts.parser_truth.results import Setup, join_deltas
from scripts.parser_truth.splits import Split

logging.disable(logging.CRITICAL)

#: Its parsers get text alone, so the text may be cut anywhere.
CUTS_TOKENS = True

_CHAT = "sglang.srt.entrypoints.openai.serving_chat"
_SERVING = SimpleNamespace(
    incremental_streaming_output=False,
    stream_response_default_include_usage=False,
    return_input_ids=False,
    return_output_ids=False,
    enable_cache_report=False,
)

#: How the engine knows a template that leaves thinking to the request, and one that does not.
_TOGGLE = SimpleNamespace(special_case=None, toggle_param="enable_thinking", default_enabled=True)
_ALWAYS = SimpleNamespace(special_case="always", toggle_param=None, default_enabled=None)


class Serving:
    """One server with its parsers; every answer goes through the engine's own code."""

    def __init__(self, setup: Setup, layout: Format, tokenizer: str) -> None:
        """Make the engine's serving object without what only a model needs."""
        del layout, tokenizer
        chat = import_module(_CHAT)
        vars(chat)["get_serving"] = lambda: _SERVING
        protocol = import_module("sglang.srt.entrypoints.openai.protocol")
        serving = object.__new__(chat.OpenAIServingChat)
        serving.tokenizer_manager = SimpleNamespace(tokenizer=None)
        serving.template_manager = SimpleNamespace(
            force_reasoning=False, reasoning_config=_ALWAYS if setup.is_always else _TOGGLE
        )
        serving.tool_call_parser = setup.tool or None
        serving.reasoning_parser = setup.reasoning or None
        serving.chat_encoding_spec = None
        serving._encoding_adapter = None
        serving._reasoning_detector = None
        self._serving = serving
        switch = {"enable_thinking": setup.thinks, "thinking": setup.thinks}
        self._request = protocol.ChatCompletionRequest(
            model="m",
            messages=[{"role": "user", "content": "What is the weather?"}],
            tools=list(TOOLS),
            chat_template_kwargs=None if setup.is_always else switch,
            stream=True,
        )

    def answer(self, text: str, finish: str) -> dict[str, Any]:
        """What a client has of the plain reply to this output."""
        item = {"text": text, "output_ids": [], "meta_info": _meta(finish)}
        reply = self._serving._build_chat_response(self._request, [item], 0)
        if not hasattr(reply, "choices"):
            return read_choice({"error": reply.body.decode()})
        return read_choice(reply.choices[0].model_dump())

    def stream(self, split: Split, finish: str) -> tuple[dict[str, Any], list[list[Any]]]:
        """What a client has of the streamed reply in the end, and the deltas."""
        return join_events(asyncio.run(self._collect(split, finish)))

    async def _collect(self, split: Split, finish: str) -> list[str]:
        self._serving.tokenizer_manager.generate_request = lambda *_: _generate(split, finish)
        events = self._serving._generate_chat_stream(None, self._request, None)
        return [event.removeprefix("data: ").strip() async for event in events]


async def _generate(split: Split, finish: str) -> AsyncIterator[dict[str, Any]]:
    text = ""
    for number, piece in enumerate(split.pieces, 1):
        text += piece
        is_end = number == len(split.pieces) and not split.is_late
        yield {"index": 0, "text": text, "meta_info": _meta(finish if is_end else "")}
    if split.is_late:
        yield {"index": 0, "text": text, "meta_info": _meta(finish)}


def _meta(finish: str) -> dict[str, Any]:
    reason = {"type": finish, "matched": None} if finish else None
    counts = {"prompt_tokens": 9, "completion_tokens": 9}
    return {"id": "i", "finish_reason": reason, "weight_version": "w", **counts}


def join_events(events: Sequence[str]) -> tuple[dict[str, Any], list[list[Any]]]:
    """What a client has of a stream in the end, and the deltas as rows."""
    chunks = [json.loads(event) for event in events if event != "[DONE]"]
    choices = [chunk["choices"][0] for chunk in chunks if "error" not in chunk]
    finish = next((each["finish_reason"] for each in choices if each.get("finish_reason")), None)
    result, rows = join_deltas([choice["delta"] for choice in choices], finish)
    error = next((str(chunk["error"]) for chunk in chunks if "error" in chunk), "")
    return ({**result, "error": error} if error else result), rows


def read_choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    """The plain reply in the same form as a joined stream."""
    if "error" in choice:
        return {"content": "", "reasoning": "", "calls": [], "finish": None, **choice}
    message = choice["message"]
    calls = [
        [call["index"], call["function"]["name"], call["function"]["arguments"]]
        for call in message.get("tool_calls") or ()
    ]
    return {
        "content": message.get("content") or "",
        "reasoning": message.get("reasoning_content") or "",
        "calls": calls,
        "finish": choice["finish_reason"],
    }
