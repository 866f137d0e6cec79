"""Deployment files that are read, and texts that must never do worse than be refused."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.errors import Problem, SpecError
from stoker.model.deployment import Deployment
from stoker.model.deployment_fields import is_secret_name
from stoker.spec import edit_deployment, parse_deployment
from stoker.spec.plain import read_plain
from stoker.spec.tree import MAX_BYTES, MAX_LINE_CHARACTERS, MAX_NODES
from stoker.spec.vocabulary import SYNONYMS, every_key

from .strategies import ENGINE_KINDS, deployments, written

BASE = "name: a\nmodel: hf:org/model\nengine:\n  kind: vllm\n"


def parse(text: str) -> Deployment:
    return parse_deployment(text, "x.yaml", engine_kinds=ENGINE_KINDS)


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        parse(text)
    return caught.value.problems


def test_the_shortest_file_has_the_defaults() -> None:
    deployment = parse(BASE)
    assert deployment.model.ref == "hf:org/model"
    assert deployment.serve.port == 30000
    assert deployment.published_name == "a"


@pytest.mark.parametrize(
    "text",
    [
        BASE.replace("\n", "\r\n"),
        BASE.replace("\n", "\r"),
        "\ufeff" + BASE,
        "---\n" + BASE + "...\n",
        "%YAML 1.2\n---\n" + BASE,
        "%SETTING of another tool\n---\n" + BASE,
        BASE.rstrip("\n"),
        '{"name": "a", "model": "hf:org/model", "engine": {"kind": "vllm"}}',
        BASE + "serve:\ncontract:\nservice:\ngoals:\naccept:\n  settings:\n".replace("  set", "#"),
        BASE.replace("model: ", "model:\n  ref: "),
        BASE.replace("vllm", "vllm\n  settings:\n  env:"),
        "? name\n: a\n" + BASE.partition("\n")[2],
    ],
)
def test_the_same_wish_in_other_clothes(text: str) -> None:
    assert parse(text) == parse(BASE)


def test_yaml_1_2_decides_what_a_value_is() -> None:
    settings_text = (
        "  settings: {a: yes, b: on, c: 12:30, d: 2026-11-29, e: 0x1F, f: 0o17, g: 1e3, h: -.5,"
        " i: 'true', j: ~, k: True, l: +1, m: =, n: 1., o: [1, true, x]}\n"
    )
    assert repr(parse(BASE + settings_text).engine.settings) == repr(
        {
            "a": "yes",
            "b": "on",
            "c": "12:30",
            "d": "2026-11-29",
            "e": 31,
            "f": 15,
            "g": 1000.0,
            "h": -0.5,
            "i": "true",
            "j": None,
            "k": True,
            "l": 1,
            "m": "=",
            "n": 1.0,
            "o": [1, True, "x"],
        }
    )


def test_whole_numbers_serve_where_any_number_does() -> None:
    assert parse(BASE + "goals: [{metric: x, at_most: 2}]").goals[0].at_most == 2.0


def test_aliases_of_reasonable_size_are_understood() -> None:
    text = BASE.replace("vllm", "vllm\n  env: &env {A: '1'}\n  settings: *env")
    assert parse(text).engine.settings == parse(text).engine.env == {"A": "1"}


def test_pairs_of_escapes_are_one_character() -> None:
    assert parse(BASE + '  env: {A: "\\ud83d\\ude00"}').engine.env == {"A": "\N{GRINNING FACE}"}


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("#" * (MAX_BYTES + 1), "the file has 1048577 bytes", 0),
        ("# é\n" * (10 << 18), "the file has 13107200 bytes", 0),
        (BASE + "#" * (MAX_LINE_CHARACTERS + 1), "this line has 65537 characters", 5),
        ("a: " + "[" * 60_000, "nested more than 32 levels deep", 1),
        ("[" * 60_000, "nested more than 32 levels deep", 1),
        ("{a: " * 15_000, "nested more than 32 levels deep", 1),
        ("- " * 30_000, "nested more than 32 levels deep", 1),
        ("a: 1\n" * 100_000, f"more than {MAX_NODES} values", 5000),
        ("- a\n" * 250_000, f"more than {MAX_NODES} values", 9999),
        ("%A\n" * 30_000, "something follows the end of the document", 30_001),
        ("!" + "a" * 60_000, "a deployment file holds keys and values", 1),
        ("&" + "a" * 60_000, "a deployment file holds keys and values", 1),
        ("a: |\n" + " x\n" * 100_000, "unknown key `a`", 1),
        ("a: 'x\n" + "x\n" * 150_000, "never closed", 1),
    ],
)
def test_what_is_far_too_much_is_refused_early(text: str, message: str, line: int) -> None:
    found = [problem for problem in problems_of(text) if message in problem.message]
    assert [problem.line for problem in found] == [line]


def test_thousands_of_problems_are_not_all_told() -> None:
    problems = problems_of("".join(f"key-{number}: 1\n" for number in range(1000)))
    assert len(problems) == 51
    assert problems[-1].message == "and at least 50 more problems"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_places_count_lines_and_columns_from_one(end: str) -> None:
    text = f"# ü😀{end}{end}name: a{end}" + f"serve: {{port: x, 😀: 1}}{end}"
    places = {problem.path: (problem.line, problem.column) for problem in problems_of(text)}
    assert places["serve.port"] == (4, 15)
    assert places["serve.😀"] == (4, 18)
    assert places["model"] == (1, 1)


def test_a_problem_inside_of_an_alias_is_shown_where_the_alias_is() -> None:
    text = BASE + "accept: &x [1]\nservice: {user: *x}\n"
    places = {problem.path: (problem.line, problem.column) for problem in problems_of(text)}
    assert places == {"accept.0": (5, 13), "service.user": (6, 17)}


def test_a_key_in_a_file_is_never_repeated_in_a_message() -> None:
    text = BASE + "serve: {api_key_file: sk-hush}\n" + "  settings: {api-key: sk-hush}\n"
    for broken in (text, text.replace("  settings", "settings"), BASE + "api_key: sk-hush\n"):
        assert "hush" not in repr(problems_of(broken))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sk-hush", "this file is one line of plain text"),
        ("sk-hush\n\nhush: \n", ""),
        ("hush\n  hush\n# hush\n", "this file is 3 lines of plain text"),
        ("'hush'\n", "this file is one line of plain text"),
        ("[hush, 0055]", "this file is a list"),
        ("00551234", "this file is one line of plain text"),
        ("!hush 1", "this file is one line of plain text"),
    ],
)
def test_another_file_that_is_given_by_mistake_is_not_repeated(text: str, told: str) -> None:
    (problem,) = problems_of(text)
    assert "hush" not in f"{problem.message} {problem.hint}"
    assert "0055" not in f"{problem.message} {problem.hint}"
    assert told in problem.message
    with pytest.raises(SpecError) as refused:
        edit_deployment(text, {"name": "a"})
    assert refused.value.problems == (problem,)


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("api-key", True),
        ("HF_TOKEN", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("db.password", True),
        ("API_KEYS", True),
        ("API_KEY_2", True),
        ("api-key-file", False),
        ("ssl-key-file", False),
        ("max-num-batched-tokens", False),
        ("tokenizer", False),
        ("keyboard", False),
        ("return-tokens-as-token-ids", False),
        ("context_tokens", False),
        ("", False),
    ],
)
def test_secret_names_are_known_by_their_words(name: str, is_secret: bool) -> None:
    assert is_secret_name(name) is is_secret


def test_every_synonym_leads_to_a_key() -> None:
    assert set(SYNONYMS.values()) <= set(every_key())


def test_the_engines_are_the_callers_to_name() -> None:
    text = BASE.replace("vllm", "furnace")
    assert parse_deployment(text, "x", engine_kinds=["furnace"]).engine.kind == "furnace"


@given(data=st.data(), deployment=deployments)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_deployment_can_be_written_in_many_ways(
    data: st.DataObject, deployment: Deployment
) -> None:
    assert parse(data.draw(written(deployment.model_dump(exclude_unset=True)))) == deployment


def check_refusal(text: str) -> None:
    """Whatever the text is, it is read, or refused in our own words at places that it has."""
    problems: tuple[Problem, ...] = ()
    try:
        parse(text)
    except SpecError as error:
        problems = error.problems
    for problem in problems:
        assert "Input should" not in problem.message
        assert problem.message != "is not allowed here"  # pydantic said what we have no words for
        assert problem.line <= text.count("\n") + text.count("\r") + 1


@given(text=st.text(st.characters(exclude_categories=())))
@settings(deadline=None)
def test_no_text_does_worse_than_be_refused(text: str) -> None:
    check_refusal(text)


@given(
    pieces=st.lists(st.sampled_from((*"a1-[]{},\n'\"#&*!|>%@?0~\t", "a: ", "- ", " ", "*a", "&a ")))
)
@settings(deadline=None)
def test_no_soup_of_yaml_does_worse_than_be_refused(pieces: list[str]) -> None:
    check_refusal("".join(pieces))


CASES = [path.read_bytes().decode() for path in (Path(__file__).parent / "cases").glob("*.yaml")]


@given(
    text=st.sampled_from(CASES),
    place=st.integers(0, 400),
    count=st.integers(0, 3),
    new=st.sampled_from(["", " ", "\n", ":", "- ", "[", "}", "'", '"', "#", "*x", "\t", "0", "~"]),
)
@settings(deadline=None)
def test_no_slip_of_the_finger_does_worse_than_be_refused(
    text: str, place: int, count: int, new: str
) -> None:
    check_refusal(text[:place] + new + text[place + count :])


odd_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@given(data=st.data(), deployment=deployments, path=st.sampled_from(every_key()), odd=odd_values)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_an_odd_value_anywhere_has_a_place_and_words(
    data: st.DataObject, deployment: Deployment, path: str, odd: Any
) -> None:
    values = deployment.model_dump(exclude_unset=True)
    target = values
    for part in path.split(".")[:-1]:
        inner = target.get(part)
        inner = inner[0] if isinstance(inner, list) and inner else inner
        target[part] = inner if isinstance(inner, dict) else {}
        target = target[part]
    target[path.rpartition(".")[2]] = odd
    text = data.draw(written(values))
    with contextlib.suppress(SpecError):
        read_plain(text, "x")
        check_refusal(text)
