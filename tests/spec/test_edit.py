"""Edits of a deployment file: they say what was asked, and touch nothing else."""

from __future__ import annotations

import copy
import difflib
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.errors import SpecError, UsageError
from stoker.model.deployment import Deployment
from stoker.spec import apply_changes, edit_deployment, parse_deployment
from stoker.spec.plain import read_plain

from .strategies import (
    ENGINE_KINDS,
    deployments,
    environment_names,
    goals,
    keys,
    scalars,
    serves,
    setting_names,
    texts,
    written,
)

TEXT = """\
# About the whole.
name: a   # its name
model: hf:a/b  # the weights

engine:
  # which one
  kind: vllm
  settings:  # by name
    # one
    first: 1

    # two
    "second": 'x'   # quoted
    # the last word on settings
# how it is served
serve: {port: 1, host: 127.0.0.1} # in braces
goals:
  - metric: a   # fast
    # at most
    at_most: 1
  - metric: b
    at_least: 2
accept:
- r1  # because
- r2
gpus: [0, 1]
# the end"""


def difference(before: str, after: str) -> list[str]:
    """The lines that went (-) and came (+), without the rest."""
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line[0] + line[2:] for line in lines if line[0] in "-+"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"name": "a"}, []),
        ({"name": "b"}, ["-name: a   # its name", "+name: b   # its name"]),
        ({"engine.settings.first": 2}, ["-    first: 1", "+    first: 2"]),
        ({"engine.settings.first": 1.0}, ["-    first: 1", "+    first: 1.0"]),
        (
            {"engine.settings.second": [1, "y z"]},
            ["-    \"second\": 'x'   # quoted", '+    "second": [1, y z]   # quoted'],
        ),
        ({"engine.settings.third.part": "yes"}, ['+    third.part: "yes"']),
        ({"engine.settings.first": None}, ["-    first: 1"]),
        ({"engine.settings.unknown": None}, []),
        ({"engine.env.A": "1"}, ["+  env:", '+    A: "1"']),
        (
            {"engine.settings": None},
            [
                "-  settings:  # by name",
                "-    # one",
                "-    first: 1",
                "-",
                "-    # two",
                "-    \"second\": 'x'   # quoted",
                "-    # the last word on settings",
                "+  # one",
                "+  # two",
                "+  # the last word on settings",
            ],
        ),
        (
            {"serve.port": 8},
            [
                "-serve: {port: 1, host: 127.0.0.1} # in braces",
                "+serve: {port: 8, host: 127.0.0.1} # in braces",
            ],
        ),
        (
            {"serve.port": None, "serve.published_name": "x, y"},
            [
                "-serve: {port: 1, host: 127.0.0.1} # in braces",
                '+serve: {host: 127.0.0.1, published_name: "x, y"} # in braces',
            ],
        ),
        (
            {"serve.port": None, "serve.host": None},
            ["-serve: {port: 1, host: 127.0.0.1} # in braces"],
        ),
        (
            {"service.on_boot": False, "service.user": "me"},
            ["+service:", "+  on_boot: false", "+  user: me"],
        ),
        ({"goals.0.at_most": 3}, ["-    at_most: 1", "+    at_most: 3"]),
        ({"goals.1": None}, ["-  - metric: b", "-    at_least: 2"]),
        ({"goals.2": {"metric": "c", "at_most": 3}}, ["+  - metric: c", "+    at_most: 3"]),
        ({"accept.2": "r3"}, ["+- r3"]),
        ({"accept": ["r2"]}, ["-- r1  # because"]),
        ({"accept": ["r9"]}, ["+accept: [r9]", "-accept:", "-- r1  # because", "-- r2"]),
        ({"accept.0": None, "accept.1": None}, ["-- r1  # because"]),
        ({"gpus": "none"}, ["-gpus: [0, 1]", "+gpus: none"]),
        ({"gpus.2": 5}, ["-gpus: [0, 1]", "+gpus: [0, 1, 5]"]),
        ({"gpus.0": None}, ["-gpus: [0, 1]", "+gpus: [1]"]),
        (
            {"model": "path:/m"},
            ["-model: hf:a/b  # the weights", "+model: path:/m  # the weights"],
        ),
        (
            {"model.ref": "path:/m", "model.file": None},
            ["-model: hf:a/b  # the weights", "+model: path:/m  # the weights"],
        ),
        (
            {"model.file": "m.gguf"},
            [
                "-model: hf:a/b  # the weights",
                "+model:  # the weights",
                "+  ref: hf:a/b",
                "+  file: m.gguf",
            ],
        ),
        ({"draft": "hf:a/c"}, ["+draft: hf:a/c"]),
        (
            {"contract.require": ["a"], "goals": [{"metric": "z", "at_most": 1}]},
            [
                "-  - metric: a   # fast",
                "-    # at most",
                "-  - metric: b",
                "-    at_least: 2",
                "+# at most",
                "+  - metric: z",
                "+contract:",
                "+  require: [a]",
            ],
        ),
    ],
)
def test_only_the_lines_of_the_change_differ(changes: dict[str, Any], expected: list[str]) -> None:
    assert sorted(difference(TEXT, edit_deployment(TEXT, changes))) == sorted(expected)


def test_the_end_of_lines_and_the_mark_at_the_beginning_stay() -> None:
    text = "\ufeff" + TEXT.replace("\n", "\r\n")
    edited = edit_deployment(text, {"serve.port": 8, "service.user": "me", "goals": None})
    assert edited.startswith("\ufeff# About")
    assert edited.count("\n") == edited.count("\r\n")


def test_json_stays_json() -> None:
    text = '{"name": "a", "serve": {}, "engine": {\n"kind": "vllm"\n}}'
    edited = edit_deployment(text, {"serve.port": 8, "engine.env.A": "ü", "name": "b"})
    assert edited == (
        '{"name": "b", "serve": {"port": 8}, "engine": {\n"kind": "vllm", "env": {"A": "ü"}\n}}'
    )


def test_a_group_whose_keys_are_all_commented_out_is_filled() -> None:
    text = "serve:  # here\n  # port: 1\nname: a\n"
    assert edit_deployment(text, {"serve.port": 8}) == (
        "serve:  # here\n  port: 8\n  # port: 1\nname: a\n"
    )


def test_what_is_commented_out_stays_below_its_key() -> None:
    text = "name: a\nserve:\n  # port: 1\n\n  # host: x\n\n# about\n#gpus: 1\n"
    assert edit_deployment(text, {"gpus": 2}) == (
        "name: a\nserve:\n  # port: 1\n\n  # host: x\ngpus: 2\n\n# about\n#gpus: 1\n"
    )


def test_comments_of_what_goes_do_not_become_part_of_the_text_above() -> None:
    text = "accept: |\n  text\nserve:\n  # why\n  port: 1\n    # deeper\ngpus: 1\n"
    assert edit_deployment(text, {"serve": None}) == (
        "accept: |\n  text\n# why\n# deeper\ngpus: 1\n"
    )


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("serve: &x {port: 1}\nservice: *x\n", {"service.port": 2}),
        ("serve: &x {port: 1}\nservice: *x\n", {"serve.port": 2}),
        ("serve: &x {port: 1}\nservice: *x\nname: a", {"serve": None}),
        ("name: a\n", {"name": None}),
        ("name: a\n", {"name": "\0"}),
    ],
)
def test_what_cannot_be_changed_alone_is_left_to_the_person(
    text: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(UsageError) as caught:
        edit_deployment(text, changes, origin="x.yaml")
    assert caught.value.summary.startswith("x.yaml is written in a way")
    assert all(path in caught.value.hint for path in changes)


@pytest.mark.parametrize("text", ["", "- a", "a: [", "a: 1\na: 2\n"])
def test_what_is_no_deployment_file_is_not_edited(text: str) -> None:
    with pytest.raises(SpecError):
        edit_deployment(text, {"serve.port": 1})


def test_an_item_far_beyond_the_end_of_a_list_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="9 is no item of the list, which has 2"):
        edit_deployment(TEXT, {"gpus.9": 1})


def comments(text: str) -> Counter[str]:
    """The comments on lines of their own."""
    return Counter(line.strip() for line in text.splitlines() if line.strip().startswith("#"))


def changed(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The oracle: what a change of a deployment's plain values means, for paths of these tests."""
    result = copy.deepcopy(values)
    group, _, name = path.rpartition(".")
    if path.startswith(("engine.settings.", "engine.env.")):
        group, name = path.split(".", 2)[1], path.split(".", 2)[2]
        group = f"engine.{group}"
    target = result
    for part in group.split(".") if group else ():
        if target.get(part) is None:
            target[part] = {}
        target = target[part]
    if value is None:
        target.pop(name, None)
    else:
        target[name] = value
    return result


one_change = st.one_of(
    st.tuples(st.just("serve.port"), st.none() | st.integers(1, 65535)),
    st.tuples(st.just("serve.published_name"), st.none() | st.just("a-name")),
    st.tuples(st.just("serve"), st.none() | serves.map(lambda part: part.model_dump())),
    st.tuples(st.just("gpus"), st.none() | st.just("none") | st.just([0, 1])),
    st.tuples(st.just("accept"), st.none() | st.lists(texts, max_size=4)),
    st.tuples(st.just("goals"), st.lists(goals.map(lambda goal: goal.model_dump()), max_size=3)),
    st.tuples(st.just("service.user"), st.none() | st.just("me")),
    st.tuples(st.just("model"), st.just("hf:new/model") | st.just({"ref": "path:/a", "file": "b"})),
    st.tuples(setting_names.map("engine.settings.{}".format), st.none() | scalars),
    st.tuples(environment_names.map("engine.env.{}".format), st.none() | texts),
    st.tuples(st.just("engine.settings"), st.none() | st.just({"a": 1, "b": [1, 2]})),
)


@given(data=st.data(), deployment=deployments, changes=st.lists(one_change, max_size=3))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_edited_file_parses_to_the_deployment_with_the_changes(
    data: st.DataObject, deployment: Deployment, changes: list[tuple[str, Any]]
) -> None:
    plain = deployment.model_dump(exclude_unset=True)
    text = data.draw(written(plain))
    edited = edit_deployment(text, dict(changes))
    for path, value in dict(changes).items():
        plain = changed(plain, path, value)
    assert parse_deployment(edited, "test", engine_kinds=ENGINE_KINDS) == (
        Deployment.model_validate(plain)
    )
    assert comments(text) <= comments(edited)


values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(("a", "b", "c", "model"))
groups = st.dictionaries(names, st.dictionaries(names, values, max_size=3) | values, max_size=4)


@given(
    data=st.data(),
    before=groups.filter(bool),
    changes=st.dictionaries(
        st.lists(names, min_size=1, max_size=3).map(".".join), values | st.none(), max_size=3
    ),
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_file_of_plain_values_can_be_changed(
    data: st.DataObject, before: dict[str, Any], changes: dict[str, Any]
) -> None:
    try:
        wanted = apply_changes(before, changes)
    except UsageError:
        return
    if not wanted:
        return
    text = data.draw(written(before))
    edited = edit_deployment(text, changes)
    assert repr(sorted(read_plain(edited, "test").value)) == repr(sorted(wanted))
    assert comments(text) <= comments(edited)
