"""What would mend a broken promise: every symptom has a row, and every row is right in itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import stoker.contract
from stoker.commands.remedies import with_remedies
from stoker.contract.nonsense import Kind
from stoker.contract.selection import discover_checks
from stoker.knowledge.contract_remedies import RemedyRow, find_remedies, load_remedies
from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.model.contract import CheckResult, Manners, Subject, Verdict, Verification
from stoker.spec.vocabulary import find_part

PACKAGE = Path(stoker.contract.__file__).parent

#: Symptoms that are made of other words when they are told.
MADE = {
    *(str(kind) for kind in Kind),
    *("tool_call_id_missing", "tool_name_missing", "unreadable_choice", "http_status"),
    *("tools_marks_in_content", "reasoning_marks_in_content", "turn_marks_in_content"),
    *("canary_lost", "canary_nonsense", "canary_wrong"),
}
_WORD = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def symptoms() -> Iterator[tuple[str, str]]:
    """The symptoms of all judgements with where they stand.

    They are the third word of ``failed``, or what a variable, an argument or a table holds that is
    named after them.
    """
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for each in (word for part in _told_by(node) for word in _words(part)):
                yield str(each.value), f"{path.name}:{each.lineno}"


def _words(part: ast.AST) -> Iterator[ast.Constant]:
    """The texts that an expression may have as its value, or as one of its values."""
    if isinstance(part, ast.Constant) and _WORD.fullmatch(str(part.value)):
        yield part
    inner = {ast.IfExp: ("body", "orelse"), ast.Dict: ("values",), ast.Tuple: ("elts",)}
    for name in inner.get(type(part), ()):
        found = getattr(part, name)
        for each in found if isinstance(found, list) else [found]:
            yield from _words(each)


def _told_by(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Call):
        is_failure = ast.unparse(node.func) == "failed"
        named = [word.value for word in node.keywords if word.arg == "symptom"]
        third = node.args[2:3] if is_failure else []
        return [*named, *(each for each in third if isinstance(each, ast.Constant))]
    if isinstance(node, ast.Assign):
        names = " ".join(map(ast.unparse, node.targets)).lower()
        is_one = re.search(r"symptoms?$", names) and not isinstance(node.value, ast.Call)
        return [node.value] if is_one else []
    return []


def rows() -> list[RemedyRow]:
    return list(load_remedies().remedies)


def broken(symptom: str, check: str = "chat_answer", **details: object) -> CheckResult:
    return CheckResult(
        check=check,
        title="",
        verdict=Verdict.FAILED,
        expected="",
        found="",
        symptom=symptom,
        details=details,
    )


def test_every_symptom_has_a_remedy_or_a_reason_to_have_none() -> None:
    table = load_remedies()
    known = {each for row in table.remedies for each in row.symptoms}
    without = {each for row in table.without for each in row.symptoms}
    found = dict(symptoms()) | dict.fromkeys(MADE, "made")
    assert {name: place for name, place in found.items() if name not in known | without} == {}
    assert known & without == set()


def test_no_row_is_about_a_symptom_that_nothing_has() -> None:
    table = load_remedies()
    named = {each for row in table.remedies for each in row.symptoms}
    named |= {each for row in table.without for each in row.symptoms}
    assert named - MADE - {name for name, _ in symptoms()} == set()


def test_reasons_are_sentences() -> None:
    assert all(len(row.reason.split()) > 3 for row in load_remedies().without)


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.symptoms[0]}-{row.key or 'text'}")
def test_keys_are_those_of_a_deployment_file_and_flags_those_of_the_engines(row: RemedyRow) -> None:
    assert set(row.engines) <= set(engine_kinds())
    checks = {check.id for check in discover_checks()}
    assert set(row.checks) <= checks
    if not row.key:
        assert row.value is None
        return
    *group, name = row.key.split(".")
    if group == ["engine", "settings"]:
        assert row.engines
        for kind in row.engines:
            assert load_engine_table(kind).catalogue.find(name) is not None, (kind, name)
    elif group != ["engine", "env"]:
        part = find_part(tuple(group))
        assert part is not None
        assert name in part.model_fields


def test_a_mark_names_the_family_and_so_the_parser() -> None:
    result = broken("tool_markers_in_content", family="writes-like-hermes")
    (first, *_) = find_remedies(result, engine="vllm")
    assert (first.key, first.value) == ("engine.settings.tool-call-parser", "hermes")


def test_the_name_tells_variants_apart_that_write_alike() -> None:
    result = broken("tool_markers_in_content", family="writes-like-hermes")
    (first, *_) = find_remedies(result, engine="sglang", published_name="Qwen/Qwen2.5-7B-Instruct")
    assert first.value == "qwen"


def test_what_is_written_outweighs_a_name_that_says_something_else() -> None:
    result = broken("tool_markers_in_content", family="mistral")
    (first, *_) = find_remedies(result, engine="sglang", published_name="Qwen/Qwen2.5-7B-Instruct")
    assert first.value == "mistral"


def test_a_lost_call_is_no_matter_of_a_switch_that_is_on() -> None:
    found = find_remedies(broken("tool_call_lost", family="mistral"), engine="vllm")
    assert found
    assert all(each.key != "engine.settings.enable-auto-tool-choice" for each in found)


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize("symptom", ["required_ignored", "named_ignored"])
def test_a_forced_call_waits_for_thoughts_that_never_end(symptom: str, engine: str) -> None:
    found = find_remedies(broken(symptom, family="mistral"), engine=engine)
    assert any("leave --reasoning-parser out" in each.text for each in found)


def test_what_we_conclude_ourselves_says_so() -> None:
    assert [row.text for row in rows() if row.source.where == "docs/contract.md"] == []


def test_an_unknown_engine_gets_words_alone() -> None:
    (only,) = find_remedies(broken("tool_markers_in_content", family="mistral"))
    assert not only.key


def test_figures_of_a_failure_are_figures_of_its_remedy() -> None:
    (first, *_) = find_remedies(broken("context_smaller", field="n_ctx", published=2048))
    assert (first.key, first.value) == ("serve.context_tokens", 2048)


def test_a_last_resort_stands_alone() -> None:
    texts = [each.text for each in find_remedies(broken("schema_ignored"), engine="")]
    assert len(texts) == 1
    assert all(each.key for each in find_remedies(broken("schema_ignored"), engine="sglang"))


def test_only_what_is_broken_gets_remedies() -> None:
    kept = CheckResult(
        check="a", title="", verdict=Verdict.PASSED, expected="", found="", symptom="timeout"
    )
    subject = Subject(published_name="m", manners=Manners(engine="vllm"))
    found = with_remedies(
        Verification(name="n", url="", level="quick", results=(kept, broken("timeout"))), subject
    )
    assert [bool(result.remedies) for result in found.results] == [False, True]
