"""A verification in words and as JUnit XML, whatever a server sent."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from stoker.model.contract import (
    CheckResult,
    Exchange,
    Key,
    Remedy,
    Request,
    Verdict,
    Verification,
)
from stoker.report.exchange_text import cut, describe_reply, describe_request
from stoker.report.junit import render_junit
from stoker.report.verification_text import render_setting, render_verification

REQUEST = Request(method="POST", path="/v1/chat/completions", body={"model": "m", "max_tokens": 9})
EXCHANGE = Exchange(request=REQUEST, status=200, body='{"a": "reply"}', seconds=0.25)


def result(verdict: Verdict, **fields: Any) -> CheckResult:
    values = {"title": "A promise", "expected": "this", "found": "that", **fields}
    return CheckResult(check=f"check_{verdict}", verdict=verdict, **values)


BROKEN = result(
    Verdict.FAILED,
    symptom="a_symptom",
    remedies=(Remedy(text="do so", key="engine.settings.tool-call-parser", value="qwen"),),
    exchanges=(EXCHANGE, EXCHANGE),
    seconds=1.5,
)


def verification(*results: CheckResult, **fields: Any) -> Verification:
    values = {"name": "n", "url": "http://h:1", "level": "full", "engine": "vllm", **fields}
    return Verification(results=results, **values)


def test_a_failure_tells_all_that_a_person_needs() -> None:
    text = render_verification(verification(BROKEN, notes=("a note",)))
    for part in (
        "FAIL check_failed: A promise",
        "expected this",
        "found    that",
        "symptom  a_symptom",
        "mend:    do so",
        "in the deployment file: engine: {settings: {tool-call-parser: qwen}}",
        'asked    POST /v1/chat/completions {"model": "m", "max_tokens": 9}',
        'got      HTTP 200 after 0.25 s: {"a": "reply"}',
        "and 1 more",
        "note: a note",
        "NOT verified: 0 of 1 promises kept",
    ):
        assert part in text


def test_at_length_all_exchanges_are_shown() -> None:
    text = render_verification(verification(BROKEN), is_verbose=True)
    assert text.count("asked    POST") == 2
    assert "more" not in text


def test_skipped_promises_are_counted_apart() -> None:
    text = render_verification(verification(result(Verdict.PASSED), result(Verdict.SKIPPED)))
    assert text.endswith("verified: 1 of 1 promises kept, 1 skipped\n")


@pytest.mark.parametrize(
    ("results", "line"),
    [
        ((result(Verdict.PASSED),), "interrupted: 1 of 1 promises kept"),
        ((result(Verdict.PASSED), BROKEN), "NOT verified, interrupted: 1 of 2 promises kept"),
        ((), "interrupted: 0 of 0 promises kept"),
    ],
)
def test_what_was_cut_short_is_not_verified(results: tuple[CheckResult, ...], line: str) -> None:
    text = render_verification(verification(*results, cut_short="interrupted"))
    assert text.splitlines()[-1] == line


@pytest.mark.parametrize(
    ("key", "value", "data"),
    [
        ("serve.context_tokens", 2048, {"serve": {"context_tokens": 2048}}),
        ("engine.settings.jinja", True, {"engine": {"settings": {"jinja": True}}}),
        ("engine.env.NAME", "0", {"engine": {"env": {"NAME": "0"}}}),
        ("engine.settings.flash-attn", "off", {"engine": {"settings": {"flash-attn": "off"}}}),
        (
            "engine.settings.structured-outputs-config",
            '{"backend": "xgrammar"}',
            {"engine": {"settings": {"structured-outputs-config": '{"backend": "xgrammar"}'}}},
        ),
        ("engine.settings.a.b", 1, {"engine": {"settings": {"a.b": 1}}}),
    ],
)
def test_the_line_of_a_remedy_is_yaml_that_says_it(key: str, value: object, data: object) -> None:
    line = render_setting(Remedy(text="", key=key, value=value))
    assert "\n" not in line
    assert YAML(typ="safe").load(line) == data


# --- exchanges ---


def test_requests_in_a_line() -> None:
    assert describe_request(Request(method="GET", path="/a", key=Key.NONE)) == (
        "GET /a (without a key)"
    )
    assert describe_request(Request(method="POST", path="/a", text="{no")) == "POST /a {no"
    assert "the client openai: chat" in describe_request(
        Request(method="", path="chat", client="openai")
    )


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"error": "no connection", "error_kind": "refused"}, "no reply after 0.00 s: no conn"),
        ({"status": 429, "tries": 4}, "HTTP 429 after 0.00 s, try 4"),
        ({"status": 200, "events": ("a", "[DONE]")}, "2 events: a [DONE]"),
        ({"status": 200}, "nothing in it"),
        ({"status": 200, "error": "cut", "body": "x"}, "(cut): x"),
    ],
)
def test_replies_in_a_line(fields: dict[str, Any], part: str) -> None:
    assert part in describe_reply(Exchange(request=REQUEST, **fields))


@given(st.text(max_size=300), st.integers(30, 200))
def test_a_shortened_text_is_one_short_line(text: str, limit: int) -> None:
    shown = cut(text, limit)
    assert all(character.isprintable() for character in shown)
    assert "\n" not in shown


def test_both_ends_of_a_long_text_are_kept() -> None:
    shown = cut("begin " + "a" * 100_000 + " end", 60)
    assert shown.startswith("begin")
    assert shown.endswith("end")
    assert len(shown) < 80


# --- JUnit ---


def test_each_promise_is_a_test_case() -> None:
    found = verification(
        result(Verdict.PASSED), BROKEN, result(Verdict.SKIPPED), result(Verdict.ERROR)
    )
    root = ET.fromstring(render_junit(found))
    (suite,) = root
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert len(cases["check_passed"]) == 0
    failure = cases["check_failed"].find("failure")
    assert failure is not None
    assert failure.get("type") == "a_symptom"
    assert "expected this; found that" in str(failure.get("message"))
    assert "tool-call-parser: qwen" in str(failure.text)
    assert "HTTP 200" in str(cases["check_failed"].findtext("system-out"))
    skipped = cases["check_skipped"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "that"
    assert cases["check_error"].find("error") is not None


@given(st.text(), st.text())
@settings(max_examples=60)
def test_whatever_a_server_sent_is_valid_xml(found: str, body: str) -> None:
    exchange = Exchange(request=REQUEST, status=200, body=body)
    broken = result(Verdict.FAILED, found=found, exchanges=(exchange,))
    root = ET.fromstring(render_junit(verification(broken, name=found, notes=(body,))))
    assert root.tag == "testsuites"


def test_control_characters_are_taken_out() -> None:
    text = render_junit(verification(result(Verdict.FAILED, found="a\x00b\x1b[31m\ud800")))
    assert ET.fromstring(text) is not None
    assert "\x1b" not in text
