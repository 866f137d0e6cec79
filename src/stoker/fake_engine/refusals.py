"""How each engine says no: the status and the JSON of its errors.

Pure. Shapes and words are those of SGLang 0.5.23, vLLM 0.32.0 and llama.cpp b11549, as they answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.fake_engine.script import LLAMACPP, SGLANG, VLLM, Script
from stoker.fake_engine.values import Part, Response, json_response

_ANTHROPIC = "/v1/messages"
_LLAMACPP_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    500: "server_error",
    503: "unavailable_error",
}
_KINDS = {400: "BadRequestError", 404: "NotFoundError", 500: "InternalServerError"}


@dataclass(slots=True, kw_only=True)
class Refused(Exception):
    """A request that the engine refuses. ``kind`` and ``more`` where the error says so itself.

    ``is_invalid``: it did not even fit the interface, which some engines tell apart. ``is_crash``:
    the engine stumbles over it, and its web framework answers.
    """

    message: str
    status: int = 400
    kind: str = ""
    param: str | None = None
    is_invalid: bool = False
    is_crash: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)


def refuse(script: Script, path: str, refused: Refused) -> Response:
    """The response of this engine to a request that it refuses."""
    if refused.is_crash:
        text = b"Internal Server Error"
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        return Response(status=500, headers=headers, parts=(Part(data=text),))
    if script.manners == LLAMACPP:
        return _refuse_llamacpp(refused)
    if path.startswith(_ANTHROPIC) and not (script.manners == VLLM and refused.is_invalid):
        kind = refused.kind or _KINDS.get(refused.status, "BadRequestError")
        kind = "invalid_request_error" if refused.is_invalid else kind
        error = {"type": kind, "message": refused.message}
        return json_response({"type": "error", "error": error}, refused.status)
    told: dict[str, Any] = {
        "message": refused.message,
        "type": "Bad Request" if refused.is_invalid else _kind(refused),
        "param": refused.param if script.manners == VLLM else None,
        "code": refused.status,
    }
    is_flat = script.manners == SGLANG and not path.startswith("/v1/responses")
    body = {"object": "error", **told} if is_flat else {"error": told}
    return json_response(body, refused.status)


def _kind(refused: Refused) -> str:
    return refused.kind or _KINDS.get(refused.status, "BadRequestError")


def _refuse_llamacpp(refused: Refused) -> Response:
    kind = refused.kind or _LLAMACPP_KINDS.get(refused.status, "invalid_request_error")
    error = {"code": refused.status, "message": refused.message, "type": kind, **refused.more}
    return json_response({"error": error}, refused.status)


def refuse_key(script: Script) -> Response:
    """The key is missing, or another one is wanted."""
    if script.manners == LLAMACPP:
        error = {"message": "Invalid API Key", "type": "authentication_error", "code": 401}
        return json_response({"error": error}, 401)
    return json_response({"error": "Unauthorized"}, 401)


def refuse_path(script: Script) -> Response:
    """There is nothing under this path."""
    if script.manners == LLAMACPP:
        error = {"message": "File Not Found", "type": "not_found_error", "code": 404}
        return json_response({"error": error}, 404)
    return json_response({"detail": "Not Found"}, 404)


def refuse_method(script: Script, allowed: str) -> Response:
    """There is something under this path, but for another method."""
    if script.manners == LLAMACPP:
        return refuse_path(script)
    return json_response({"detail": "Method Not Allowed"}, 405, Allow=allowed)


def refuse_length(script: Script, prompt_tokens: int, wanted_tokens: int | None) -> Refused:
    """The prompt, or the prompt and the answer together, is longer than the context."""
    limit = script.limits.context_tokens
    if script.manners == LLAMACPP:
        return Refused(
            message=f"request ({prompt_tokens} tokens) exceeds the available context size "
            f"({limit} tokens), try increasing it",
            kind="exceed_context_size_error",
            more={"n_prompt_tokens": prompt_tokens, "n_ctx": limit},
        )
    if script.manners == VLLM:
        return Refused(
            message=f"This model's maximum context length is {limit} tokens. However, your prompt "
            f"contains at least {limit + 1} input tokens, which exceeds this limit even without "
            "any output tokens. Please reduce the length of the input prompt. "
            f"(parameter=input_tokens, value={limit + 1})",
            param="input_tokens",
        )
    if prompt_tokens >= limit:
        return Refused(
            message=f"The input ({prompt_tokens} tokens) is longer than the model's context length "
            f"({limit} tokens)."
        )
    return Refused(
        message=f"Requested token count exceeds the model's maximum context length of {limit} "
        f"tokens. You requested a total of {prompt_tokens + (wanted_tokens or 0)} tokens: "
        f"{prompt_tokens} tokens from the input messages and {wanted_tokens} tokens for the "
        "completion. Please reduce the number of tokens in the input messages or the completion to "
        "fit within the limit."
    )
