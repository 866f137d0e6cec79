"""What correct servers do that looks wrong, and what is wrong in spite of a good reply."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from stoker.contract.checks.tools_named import CHECK
from stoker.contract.run import find_absence
from stoker.knowledge.manners import load_manners, read_offers
from stoker.model.contract import Exchange, Feature, Request, Subject, Verdict
from tests.contract.hand_made import reply, try_check
from tests.contract.tool_trying import TOOL_CHECKS, subject

Say = Callable[[Request], dict[str, Any]]

VLLM_AUTO = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
OPEN = subject("", promised=())
PROMISED = subject("vllm", promised=(Feature.TOOLS, Feature.NAMED_TOOLS))


def serve(
    say: Say, *, tool_tokens: int = 100, finish_reason: str = "stop"
) -> Callable[[Request], Exchange]:
    """A server that says this; with tools its prompts are so many tokens longer."""

    def answer(request: Request) -> Exchange:
        asked = dict(request.body or {})
        prompt = 50 + len(str(asked["messages"])) // 4 + (tool_tokens if asked.get("tools") else 0)
        usage = {"prompt_tokens": prompt, "completion_tokens": 1, "total_tokens": prompt + 1}
        said = {"role": "assistant", "content": None, **say(request)}
        reason = "tool_calls" if said.get("tool_calls") else finish_reason
        if not request.stream:
            choice = {"index": 0, "message": said, "finish_reason": reason}
            kind = "chat.completion"
            return reply(request, {"id": "a", "object": kind, "choices": [choice], "usage": usage})
        for place, call in enumerate(said.get("tool_calls", ())):
            call["index"] = place
        choice = {"index": 0, "delta": said, "finish_reason": reason}
        chunk = {"id": "a", "object": "chat.completion.chunk", "choices": [choice], "usage": usage}
        return Exchange(request=request, status=200, events=(json.dumps(chunk), "[DONE]"))

    return answer


def say(**message: Any) -> Say:
    return lambda request: dict(message)


def refuse(message: str, status: int = 400) -> Callable[[Request], Exchange]:
    def answer(request: Request) -> Exchange:
        return reply(request, {"error": {"message": message, "code": status}}, status)

    return answer


def call(arguments: str, call_id: str = "call_a", name: str = "get_weather") -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


@pytest.mark.parametrize(
    ("tried", "verdict", "symptom"),
    [(OPEN, Verdict.SKIPPED, ""), (PROMISED, Verdict.FAILED, "auto_tools_off")],
)
def test_vllm_without_its_flags_says_so(tried: Subject, verdict: Verdict, symptom: str) -> None:
    judgement = try_check("tools_auto", refuse(VLLM_AUTO), tried)
    assert (judgement.verdict, judgement.symptom) == (verdict, symptom)
    assert "without a parser for calls" in judgement.found


@pytest.mark.parametrize("check", TOOL_CHECKS)
@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("tools are not supported by this model", 400),
        ("tools param requires --jinja flag", 500),
        ("Function calling is not implemented", 501),
        ("This model's maximum context length is 512 tokens", 400),
    ],
)
def test_who_refuses_tools_offers_none(check: str, message: str, status: int) -> None:
    assert try_check(check, refuse(message, status), OPEN).verdict is Verdict.SKIPPED


@pytest.mark.parametrize("check", TOOL_CHECKS)
def test_a_server_that_breaks_down_does_not_refuse(check: str) -> None:
    assert try_check(check, refuse("Internal Server Error", 500), OPEN).verdict is Verdict.FAILED


@pytest.mark.parametrize("check", sorted(set(TOOL_CHECKS) - {"tools_none", "tools_text"}))
@pytest.mark.parametrize(
    ("tried", "verdict", "symptom"),
    [(OPEN, Verdict.SKIPPED, ""), (PROMISED, Verdict.FAILED, "tools_not_in_prompt")],
)
def test_a_template_without_tools_is_found_out(
    check: str, tried: Subject, verdict: Verdict, symptom: str
) -> None:
    """llama.cpp then ignores even a required call."""
    blind = serve(say(content="It is sunny."), tool_tokens=0)
    judgement = try_check(check, blind, tried)
    assert (judgement.verdict, judgement.symptom) == (verdict, symptom)
    assert "the tools do not reach the model" in judgement.found


def test_forced_json_of_a_model_that_knows_no_tools_is_explained() -> None:
    blind = serve(say(tool_calls=[call('"Paris"')]), tool_tokens=0)
    assert try_check("tools_called", blind, PROMISED).symptom == "tools_not_in_prompt"
    seeing = serve(say(tool_calls=[call('"Paris"')]))
    assert try_check("tools_called", seeing, PROMISED).symptom == "tool_arguments_not_object"


@pytest.mark.parametrize("tried", [OPEN, PROMISED])
def test_a_model_that_talks_until_the_limit_is_no_broken_server(tried: Subject) -> None:
    """llama.cpp lets it talk before a required call."""
    server = serve(say(content="Well, " * 80), finish_reason="length")
    judgement = try_check("tools_called", server, tried)
    assert judgement.verdict is Verdict.SKIPPED
    assert "limit of tokens" in judgement.found


@pytest.mark.parametrize("tried", [OPEN, PROMISED])
def test_a_required_call_that_never_comes_is_a_broken_promise(tried: Subject) -> None:
    server = serve(say(content="It is sunny."))
    for check in ("tools_called", "tools_required", "tools_parallel"):
        assert try_check(check, server, tried).symptom == "required_ignored"
    assert try_check("tools_named", server, tried).symptom == "named_ignored"
    assert try_check("tools_auto", server, tried).verdict is Verdict.SKIPPED


@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
def test_a_named_call_may_end_either_way(reason: str) -> None:
    ids = iter(range(100))

    def answer(request: Request) -> Exchange:
        made = [call('{"city": "Paris"}', f"call_x{next(ids)}", "get_time")]
        exchange = serve(say(tool_calls=made))(request)
        old, new = '"finish_reason": "tool_calls"', f'"finish_reason": "{reason}"'
        return Exchange(
            request=request,
            status=200,
            body=exchange.body.replace(old, new),
            events=tuple(event.replace(old, new) for event in exchange.events),
        )

    assert try_check("tools_named", answer, PROMISED).verdict is Verdict.PASSED


def test_llamacpp_takes_a_named_tool_for_auto_and_need_not() -> None:
    offers = read_offers(load_manners()["llamacpp"].features, ())
    absent = Subject(published_name="smol", features=offers)
    assert "auto" in find_absence(CHECK, absent)


def test_thoughts_that_leave_no_room_are_switched_off() -> None:
    def answer(request: Request) -> Exchange:
        if "chat_template_kwargs" not in (request.body or {}):
            return serve(say(reasoning="hm " * 90), finish_reason="length")(request)
        made = [call('{"city": "Paris"}', "call_s" if request.stream else "call_p")]
        return serve(say(tool_calls=made))(request)

    assert try_check("tools_called", answer, PROMISED).verdict is Verdict.PASSED


def test_the_field_of_vllm_is_as_good() -> None:
    server = serve(say(content="4", reasoning="Two and two are four, as everybody knows."))
    assert try_check("reasoning_separated", server, PROMISED).verdict is Verdict.PASSED


def test_thoughts_that_reach_the_limit_are_explained() -> None:
    server = serve(say(reasoning_content="hm " * 90), finish_reason="length")
    judgement = try_check("reasoning_not_empty", server, OPEN)
    assert judgement.verdict is Verdict.SKIPPED
    assert "max_tokens" in judgement.found


def test_a_parser_that_takes_all_for_thought_is_found_out() -> None:
    server = serve(say(reasoning_content="The answer is 4."))
    judgement = try_check("reasoning_not_empty", server, OPEN)
    assert judgement.symptom == "answer_in_reasoning"


def test_who_cannot_be_switched_off_promises_no_switch() -> None:
    server = serve(say(content="4", reasoning_content="Two and two."))
    assert try_check("reasoning_switch", server, OPEN).verdict is Verdict.SKIPPED
    promised = subject("", promised=(Feature.THINKING_SWITCH,))
    judgement = try_check("reasoning_switch", server, promised)
    assert judgement.symptom == "thinking_switch_ignored"


def test_a_template_that_quotes_its_marks_is_no_leak() -> None:
    text = "Write a call within <tool_call></tool_call> tags."
    server = serve(say(content=text), finish_reason="length")
    assert try_check("tools_called", server, OPEN).verdict is Verdict.SKIPPED


CAPS = (
    "max_tokens must not exceed 60 on this server",
    "max_completion_tokens is too large: 60 at most",
    '[{"loc": ["body", "max_tokens"], "msg": "Input should be less than or equal to 60"}]',
)
THINKING = {
    "reasoning_switch": {Feature.REASONING, Feature.THINKING_SWITCH},
    "reasoning_not_empty": {Feature.REASONING},
}


def capped(served: Callable[[Request], Exchange], tokens: int, message: str) -> Any:
    """A server that lets nobody ask for more tokens."""

    def answer(request: Request) -> Exchange:
        asked = int((request.body or {}).get("max_tokens", 0))
        return refuse(message)(request) if asked > tokens else served(request)

    return answer


@pytest.mark.parametrize("message", CAPS)
@pytest.mark.parametrize("check", [*TOOL_CHECKS, *THINKING])
def test_a_bound_on_the_length_of_answers_is_kept_to(check: str, message: str) -> None:
    """What is found is what the same server gives without a bound."""
    tried = subject("sglang")
    served = serve(say(content="It is warm.", reasoning_content="Let me see"))
    free = try_check(check, served, tried)
    bound = try_check(check, capped(served, 60, message), tried)
    assert (bound.verdict, bound.symptom) == (free.verdict, free.symptom), bound


@pytest.mark.parametrize("check", [*TOOL_CHECKS, *THINKING])
def test_a_bound_that_leaves_no_room_is_told(check: str) -> None:
    message = "max_tokens exceeds the limit of this server"
    judgement = try_check(check, capped(serve(say(content="a")), 0, message), PROMISED)
    assert judgement.verdict is Verdict.SKIPPED, judgement
    assert message in judgement.found


@pytest.mark.parametrize(
    "message", ["tools: the limit is none. input: {'max_tokens': 256}", "no tools here"]
)
def test_another_refusal_is_no_bound(message: str) -> None:
    judgement = try_check("tools_required", refuse(message), PROMISED)
    assert judgement.symptom == "tools_refused"
