"""What the fake engine says of itself: its models, its settings, its health. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.fake_engine.metrics import Counters
from stoker.fake_engine.script import LLAMACPP, SGLANG, TOOLS, VISION, VLLM, Script
from stoker.fake_engine.tokens import Vocabulary
from stoker.fake_engine.values import Data, Part, Response, json_response

CREATED = 1795981634


def list_models(script: Script) -> Data:
    """The reply of /v1/models."""
    if script.manners == LLAMACPP:
        rows = [_llamacpp_model(script, name) for name in script.names]
        short = [_short_model(script, name) for name in script.names]
        return {"models": short, "object": "list", "data": rows}
    return {"object": "list", "data": [describe_model(script, name) for name in script.names]}


def describe_model(script: Script, name: str) -> Data:
    """One model as SGLang and vLLM list it."""
    row: Data = {
        "id": name,
        "object": "model",
        "created": CREATED,
        "owned_by": script.manners,
        "root": script.root if script.manners == VLLM else name,
        "parent": None,
        "max_model_len": script.limits.context_tokens,
    }
    if script.manners == VLLM:
        row["permission"] = [{"id": "modelperm-1", "object": "model_permission"}]
    return row


def _llamacpp_model(script: Script, name: str) -> Data:
    kinds = ["text", "image"] if script.has(VISION) else ["text"]
    return {
        "id": name,
        "aliases": [name],
        "tags": [],
        "object": "model",
        "architecture": {"input_modalities": kinds, "output_modalities": ["text"]},
        "created": CREATED,
        "owned_by": "llamacpp",
        "meta": {
            "vocab_type": 2,
            "n_vocab": Vocabulary.SIZE,
            "n_ctx": script.limits.context_tokens,
            "n_ctx_train": max(8192, script.limits.context_tokens),
            "n_embd": 576,
            "n_params": 134515008,
            "size": 96576768,
            "ftype": "Q4_1",
        },
    }


def _short_model(script: Script, name: str) -> Data:
    capabilities = ["completion", "multimodal"] if script.has(VISION) else ["completion"]
    return {"name": name, "model": name, "type": "model", "capabilities": capabilities}


def show_props(script: Script) -> Data:
    """llama.cpp's /props."""
    return {
        "default_generation_settings": {
            "params": {"temperature": 0.8, "n_predict": -1, "speculative.types": "none"},
            "n_ctx": script.limits.context_tokens,
        },
        "total_slots": script.limits.parallel_requests,
        "model_alias": script.name,
        "model_ftype": "Q4_1",
        "model_path": script.root,
        "modalities": {"vision": script.has(VISION), "video": False, "audio": False},
        "endpoint_slots": True,
        "endpoint_props": True,
        "endpoint_metrics": True,
        "chat_template": "{{ messages }}",
        "chat_template_caps": {
            "supports_tools": script.has(TOOLS),
            "supports_tool_calls": script.has(TOOLS),
            "supports_parallel_tool_calls": script.has(TOOLS),
            "supports_system_role": True,
        },
        "build_info": "b0-unknown",
        "is_sleeping": False,
    }


def show_slots(script: Script, counters: Counters) -> list[Data]:
    """llama.cpp's /slots."""
    return [
        {
            "id": place,
            "n_ctx": script.limits.context_tokens,
            "speculative": False,
            "is_processing": place < counters.running,
        }
        for place in range(script.limits.parallel_requests)
    ]


def show_server_info(script: Script) -> Data:
    """SGLang's /server_info, its most telling part."""
    limits = script.limits
    return {
        "model_path": script.root,
        "tokenizer_path": script.root,
        "served_model_name": script.name,
        "context_length": limits.context_tokens,
        "max_running_requests": limits.parallel_requests,
        "max_total_tokens": limits.kv_tokens,
        "page_size": script.block_tokens,
        "tool_call_parser": "hermes" if script.has(TOOLS) else None,
        "reasoning_parser": "qwen3" if script.has("reasoning") else None,
        "enable_metrics": True,
        "enable_cache_report": script.has("cache_report"),
        "max_total_num_tokens": limits.kv_tokens,
        "version": "0.5.23",
        "internal_states": [{"effective_max_running_requests_per_dp": limits.parallel_requests}],
    }


def show_model_info(script: Script) -> Data:
    """SGLang's /model_info."""
    return {
        "model_path": script.root,
        "served_model_name": script.name,
        "tokenizer_path": script.root,
        "is_generation": True,
        "weight_version": "default",
    }


def show_health(script: Script, status: int) -> Response:
    """The reply of /health."""
    if script.manners == LLAMACPP:
        if status == 200:
            return json_response({"status": "ok"})
        error = {"message": "Loading model", "type": "unavailable_error", "code": status}
        return json_response({"error": error}, status)
    return Response(status=status, parts=(Part(data=b""),))


def tokenize(script: Script, ids: list[int]) -> Data:
    """The reply of /tokenize."""
    if script.manners == LLAMACPP:
        return {"tokens": ids}
    more: Mapping[str, Any] = {"token_strs": None} if script.manners == VLLM else {}
    limit = script.limits.context_tokens
    return {"tokens": ids, "count": len(ids), "max_model_len": limit, **more}


def detokenize(script: Script, text: str) -> Data:
    """The reply of /detokenize."""
    return {{LLAMACPP: "content", SGLANG: "text", VLLM: "prompt"}[script.manners]: text}


def count_tokens(script: Script, tokens: int) -> Data:
    """The reply of /v1/messages/count_tokens."""
    if script.manners != VLLM:
        return {"input_tokens": tokens}
    return {"input_tokens": tokens, "context_management": {"original_input_tokens": tokens}}
