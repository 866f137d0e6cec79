"""Whatever a server sends, the checks of errors and of structure answer a judgement."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.model.contract import Exchange, Request
from tests.contract.hand_made import answer, listing, subject_of, try_check

CHECKS = (
    *("errors_too_long", "errors_malformed", "errors_model", "errors_parameter", "key_required"),
    *("cancel_frees_slot", "health_tells_truth", "context_published", "sampled_in_time"),
    *("json_schema", "json_object", "regex_followed"),
)

KEYS = st.sampled_from(
    [
        *("data", "id", "aliases", "max_model_len", "meta", "n_ctx", "object", "error", "message"),
        *("detail", "msg", "choices", "content", "role", "delta", "usage", "prompt_tokens"),
        *("finish_reason", "reasoning", "sky", "degrees", "winds", "place", "country"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(9**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=12,
)
ODD = [
    "",
    "[DONE]",
    "[" * 100_000,
    "9" * 5000,
    "NaN",
    '"\\ud83d"',
    "vllm:num_requests_running 9e999",
]
TEXTS = JSON.map(json.dumps) | st.text(max_size=20) | st.sampled_from(ODD)


@given(data=st.data())
@settings(max_examples=25)
@pytest.mark.parametrize("kind", ["", "vllm"])
@pytest.mark.parametrize("check", CHECKS)
def test_no_reply_raises(check: str, kind: str, data: st.DataObject) -> None:
    def serve(request: Request) -> Exchange:
        draw = data.draw
        if draw(st.booleans()):
            return (
                listing(request, max_model_len=900) if "models" in request.path else answer(request)
            )
        return Exchange(
            request=request,
            status=draw(st.sampled_from([0, 200, 200, 200, 302, 400, 401, 404, 500])),
            body=draw(TEXTS),
            events=tuple(draw(st.lists(TEXTS, max_size=9))),
            is_utf8=draw(st.booleans()),
            seconds=draw(st.sampled_from([0.0, 0.1, 30.0])),
            error=draw(st.sampled_from(["", "", "it broke off"])),
            error_kind=draw(st.sampled_from(["", "timeout", "protocol", "refused", "client"])),
        )

    judgement = try_check(check, serve, subject_of(kind))
    f"{judgement.expected}{judgement.found}".encode()


@given(value=JSON, field=st.sampled_from(["max_model_len", "context_length"]))
def test_any_context_length_may_be_published(value: Any, field: str) -> None:
    def serve(request: Request) -> Exchange:
        is_list = request.path == "/v1/models"
        return listing(request, **{field: value}) if is_list else answer(request)

    for check in ("context_published", "errors_too_long", "cancel_frees_slot"):
        try_check(check, serve, subject_of("vllm"))
