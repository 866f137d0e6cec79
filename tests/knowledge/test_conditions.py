"""The condition language: what it says, what it refuses, and that it never changes its mind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import DataError
from stoker.knowledge.conditions import evaluate_condition, list_paths, parse_condition
from stoker.model.facts import Unknown

TREE: dict[str, Any] = {
    "deployment": {"gpus": 4, "key": None, "name": "qwen", "flags": {"a": 1, "b": 2}},
    "gpus": {"gpus": [{"index": 0, "nvlink": False}, {"index": 1, "nvlink": True}]},
    "engine": {"version": "0.5.23"},
    "memory": Unknown(reason="/proc is not mounted"),
    "disk": {"folders": Unknown(reason="denied")},
    "none": [],
}


def answer(condition: dict[str, Any], tree: dict[str, Any] = TREE) -> bool | None:
    return evaluate_condition(parse_condition(condition, where="test"), tree).truth


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"path": "deployment.gpus", "eq": 4}, True),
        ({"path": "deployment.gpus", "ne": 4}, False),
        ({"path": "deployment.gpus", "lt": 5}, True),
        ({"path": "deployment.gpus", "le": 3.5}, False),
        ({"path": "deployment.gpus", "gt": 3}, True),
        ({"path": "deployment.gpus", "ge": 5}, False),
        ({"path": "deployment.gpus", "in": [1, 4]}, True),
        ({"path": "deployment.gpus", "in": []}, False),
        ({"path": "deployment.name", "matches": "^q"}, True),
        ({"path": "engine.version", "version": ">=0.5.10,<0.6"}, True),
        ({"path": "engine.version", "version": "<0.5.3"}, False),
        ({"path": "deployment.key", "exists": False}, True),
        ({"path": "deployment.name", "exists": True}, True),
        ({"path": "deployment.key", "eq": "x"}, False),
        ({"path": "gpus.gpus.1.nvlink", "eq": True}, True),
    ],
)
def test_each_comparison(condition: dict[str, Any], expected: bool) -> None:
    assert answer(condition) is expected


def test_true_and_one_differ() -> None:
    assert answer({"path": "gpus.gpus.1.nvlink", "eq": 1}) is False
    assert answer({"path": "deployment.flags.a", "in": [True]}) is False


@pytest.mark.parametrize(
    ("condition", "missing"),
    [
        ({"path": "memory.usable_bytes", "gt": 1}, "memory.usable_bytes"),
        ({"path": "disk.folders.*.free", "any-gt": 1}, "disk.folders.*.free"),
        ({"path": "nowhere.at.all", "exists": True}, "nowhere.at.all"),
        ({"path": "deployment.key.inner", "eq": 1}, "deployment.key.inner"),
        ({"path": "deployment.name", "gt": 1}, "deployment.name"),
        ({"path": "deployment.gpus", "matches": "4"}, "deployment.gpus"),
        ({"path": "deployment.name", "version": ">1"}, "deployment.name"),
        ({"path": "deployment.name.*", "any-eq": 1}, "deployment.name.*"),
        ({"path": "gpus.gpus.7.index", "eq": 7}, "gpus.gpus.7.index"),
        ({"path": "gpus.gpus.*.power", "all-gt": 7}, "gpus.gpus.0.power"),
    ],
)
def test_what_cannot_be_read_is_unknown_and_named(condition: dict[str, Any], missing: str) -> None:
    found = evaluate_condition(parse_condition(condition, where="test"), TREE)
    assert found.truth is None
    assert missing in found.missing
    assert found.missing[missing]


def test_the_reason_of_an_unknown_comes_along() -> None:
    condition = parse_condition({"path": "memory.usable_bytes", "gt": 1}, where="test")
    assert evaluate_condition(condition, TREE).missing == {
        "memory.usable_bytes": "/proc is not mounted"
    }


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"path": "gpus.gpus.*.nvlink", "any-eq": False}, True),
        ({"path": "gpus.gpus.*.nvlink", "all-eq": False}, False),
        ({"path": "deployment.flags.*", "all-gt": 0}, True),
        ({"path": "none.*", "any-exists": True}, False),
        ({"path": "none.*", "all-eq": 1}, True),
    ],
)
def test_quantifiers(condition: dict[str, Any], expected: bool) -> None:
    assert answer(condition) is expected


def test_one_decisive_part_settles_it_although_another_is_unknown() -> None:
    unknown = {"path": "memory.usable_bytes", "gt": 1}
    yes, no = {"path": "deployment.gpus", "eq": 4}, {"path": "deployment.gpus", "eq": 5}
    assert answer({"all": [unknown, no]}) is False
    assert answer({"all": [unknown, yes]}) is None
    assert answer({"any": [unknown, yes]}) is True
    assert answer({"any": [unknown, no]}) is None
    assert answer({"not": unknown}) is None
    assert answer({"not": no}) is True


def test_only_what_would_settle_it_is_missing() -> None:
    unknown = {"path": "memory.usable_bytes", "gt": 1}
    settled = {"any": [unknown, {"path": "deployment.gpus", "eq": 4}]}
    condition = parse_condition({"all": [settled, {"path": "disk.x", "eq": 1}]}, where="test")
    assert set(evaluate_condition(condition, TREE).missing) == {"disk.x"}


def test_evidence_holds_what_was_read() -> None:
    condition = {"all": [{"path": "deployment.gpus", "eq": 4}, {"path": "memory.x", "eq": 1}]}
    found = evaluate_condition(parse_condition(condition, where="test"), TREE)
    assert found.evidence == {"deployment.gpus": 4}


@pytest.mark.parametrize(
    "condition",
    [
        "all",
        {},
        {"all": []},
        {"all": {"path": "a", "eq": 1}},
        {"some": [{"path": "a", "eq": 1}]},
        {"all": [{"path": "a", "eq": 1}], "any": [{"path": "a", "eq": 1}]},
        {"path": "a"},
        {"path": "", "eq": 1},
        {"path": 3, "eq": 1},
        {"path": "a", "eq": 1, "gt": 2},
        {"path": "a", "equals": 1},
        {"path": "a", "any-eq": 1},
        {"path": "a.*", "eq": 1},
        {"path": "a.*", "most-eq": 1},
        {"path": "a", "gt": "1"},
        {"path": "a", "gt": True},
        {"path": "a", "in": "abc"},
        {"path": "a", "matches": "("},
        {"path": "a", "matches": 1},
        {"path": "a", "version": "about 3"},
        {"path": "a", "exists": 1},
    ],
)
def test_anything_outside_the_language_is_refused(condition: Any) -> None:
    with pytest.raises(DataError, match="test"):
        parse_condition(condition, where="test")


def test_paths_are_listed() -> None:
    condition = {"all": [{"path": "a", "eq": 1}, {"not": {"any": [{"path": "b.*", "any-eq": 1}]}}]}
    assert list_paths(parse_condition(condition, where="test")) == ("a", "b.*")


# The law: learning one more fact may settle an unknown, but never turns a yes into a no.

VALUES = st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.sampled_from(["a", "b", "1.2"]))
LEAVES = st.sampled_from(["p", "q", "r.s", "list.0.x", "list.1.x"])
TESTS = st.one_of(
    st.builds(lambda path, value: {"path": path, "eq": value}, LEAVES, VALUES),
    st.builds(lambda path, value: {"path": path, "ne": value}, LEAVES, VALUES),
    st.builds(lambda path, value: {"path": path, "gt": value}, LEAVES, st.integers(0, 3)),
    st.builds(lambda path, values: {"path": path, "in": values}, LEAVES, st.lists(VALUES)),
    st.builds(lambda path: {"path": path, "matches": "a|1"}, LEAVES),
    st.builds(lambda path: {"path": path, "version": ">=1.1,<2"}, LEAVES),
    st.builds(lambda path, value: {"path": path, "exists": value}, LEAVES, st.booleans()),
    st.builds(lambda value: {"path": "list.*.x", "any-eq": value}, VALUES),
    st.builds(lambda value: {"path": "list.*.x", "all-ne": value}, VALUES),
    st.builds(lambda value: {"path": "list.*.x", "all-exists": value}, st.booleans()),
)
CONDITIONS = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"all": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"any": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=6,
)
WORLDS = st.fixed_dictionaries(
    {"p": VALUES, "q": VALUES, "s": VALUES, "x0": VALUES, "x1": VALUES, "list": st.booleans()}
)
NOT_READ = Unknown(reason="not read")


def build_tree(world: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    def at(name: str) -> Any:
        return world[name] if name in known else NOT_READ

    whole = [{"x": at("x0")}, {"x": at("x1")}] if "list" in known else NOT_READ
    tree: dict[str, Any] = {"q": at("q"), "r": {"s": at("s")}, "list": whole}
    if "p" in known:  # a fact may as well be missing altogether
        tree["p"] = world["p"]
    return tree


@given(
    condition=CONDITIONS,
    world=WORLDS,
    few=st.frozensets(st.sampled_from(["p", "q", "s", "x0", "x1", "list"])),
    more=st.frozensets(st.sampled_from(["p", "q", "s", "x0", "x1", "list"])),
)
def test_learning_more_never_turns_an_answer(
    condition: dict[str, Any], world: dict[str, Any], few: frozenset[str], more: frozenset[str]
) -> None:
    parsed = parse_condition(condition, where="test")
    before = evaluate_condition(parsed, build_tree(world, few))
    after = evaluate_condition(parsed, build_tree(world, few | more))
    assert before.truth is None or before.truth is after.truth
    assert bool(before.missing) is (before.truth is None)
