"""What can be asked of which engine, by which method, and with which key. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.fake_engine.script import LLAMACPP, SGLANG, VLLM, Script

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
COUNT_TOKENS = "/v1/messages/count_tokens"

#: What can be asked of whom, and how.
PATHS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "/health": ("GET", (SGLANG, VLLM, LLAMACPP)),
    "/v1/health": ("GET", (LLAMACPP,)),
    "/health_generate": ("GET", (SGLANG,)),
    "/ping": ("GET", (SGLANG, VLLM)),
    "/version": ("GET", (VLLM,)),
    "/load": ("GET", (VLLM,)),
    "/v1/models": ("GET", (SGLANG, VLLM, LLAMACPP)),
    "/models": ("GET", (LLAMACPP,)),
    "/props": ("GET", (LLAMACPP,)),
    "/slots": ("GET", (LLAMACPP,)),
    "/server_info": ("GET", (SGLANG,)),
    "/get_server_info": ("GET", (SGLANG,)),
    "/model_info": ("GET", (SGLANG,)),
    "/get_model_info": ("GET", (SGLANG,)),
    "/flush_cache": ("POST", (SGLANG,)),
    "/metrics": ("GET", (SGLANG, VLLM, LLAMACPP)),
    "/tokenize": ("POST", (SGLANG, VLLM, LLAMACPP)),
    "/detokenize": ("POST", (SGLANG, VLLM, LLAMACPP)),
    CHAT: ("POST", (SGLANG, VLLM, LLAMACPP)),
    COMPLETIONS: ("POST", (SGLANG, VLLM, LLAMACPP)),
    RESPONSES: ("POST", (SGLANG, VLLM, LLAMACPP)),
    MESSAGES: ("POST", (SGLANG, VLLM, LLAMACPP)),
    COUNT_TOKENS: ("POST", (SGLANG, VLLM, LLAMACPP)),
}
HEALTH = ("/health", "/v1/health", "/health_generate", "/ping")
#: What is answered without the key where one is set; vLLM says it the other way round.
_GUARDED = ("/v1", "/v2", "/inference")
_OPEN = {
    LLAMACPP: ("/health", "/v1/health"),
    SGLANG: ("/health", "/ready", "/metrics", "/ping"),
}


def is_allowed(script: Script, path: str, headers: Mapping[str, str]) -> bool:
    """Whether a request may be answered with the key that it shows, or without any."""
    if not script.api_key or (script.manners == VLLM and not path.startswith(_GUARDED)):
        return True
    is_open = any(
        path.startswith(each) if script.manners == SGLANG else path == each
        for each in _OPEN.get(script.manners, ())
    )
    return is_open or script.api_key in _read_keys(script, headers)


def _read_keys(script: Script, headers: Mapping[str, str]) -> list[str]:
    """The keys that a request shows; llama.cpp takes Anthropic's header as well."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    found = [key] if scheme.lower() == "bearer" else []
    if script.manners == LLAMACPP and headers.get("x-api-key"):
        found.append(headers["x-api-key"])
    return found
