"""Rules name flags that existed, with values that they take, in the releases that they are for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker.knowledge.conditions import AllOf, AnyOf, Comparison, Condition, list_paths
from stoker.knowledge.engines import engine_kinds, load_catalogue, load_engine_table, load_variables
from stoker.knowledge.lifetimes import lifetime_kinds, load_lifetimes
from stoker.knowledge.rules import RESOLVE, Rule, load_rules
from stoker.knowledge.templates import list_placeholders
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in

CHOOSERS = [rule for rule in load_rules() if RESOLVE in rule.stages]


def releases_of(rule: Rule) -> Iterator[tuple[str, str]]:
    """Every known release of every engine that the rule could fire for."""
    for kind in rule.applies or engine_kinds():
        if kind in lifetime_kinds():
            for release in load_lifetimes(kind).releases:
                if may_hold(rule.when, release):
                    yield kind, release
        else:
            yield kind, load_engine_table(kind).catalogue.build


def may_hold(condition: Condition, release: str) -> bool:
    """Whether a condition can hold for a release, whatever else is the case."""
    match condition:
        case AllOf():
            return all(may_hold(part, release) for part in condition.parts)
        case AnyOf():
            return any(may_hold(part, release) for part in condition.parts)
        case Comparison(path="stack.version", operator="version"):
            version, wanted = parse_version(release), parse_version_range(condition.wanted)
            return version is None or wanted is None or version_is_in(version, wanted)
    return True


@pytest.mark.parametrize("rule", CHOOSERS, ids=lambda rule: rule.id)
def test_flags_exist_and_take_the_values(rule: Rule) -> None:
    found: set[str] = set()
    for kind, release in releases_of(rule):
        catalogue = load_catalogue(kind, release)
        for name, value in rule.set.items():
            option = catalogue.find(name)
            if option is None:
                continue
            found.add(name)
            words = value if isinstance(value, list) else [value]
            plain = [str(word) for word in words if not list_placeholders(str(word))]
            if option.argument is None:
                assert value is True or value is False, (release, name, value)
            elif option.choices and option.kind == "choice":
                taken = {*option.choices, *option.also}
                assert set(plain) <= taken, (release, name, plain)
    assert found == set(rule.set), "no release that the rule is for has these flags"


@pytest.mark.parametrize(
    "rule", [rule for rule in CHOOSERS if rule.set_env], ids=lambda rule: rule.id
)
def test_variables_are_read_by_some_release(rule: Rule) -> None:
    """Engines declare most of their own variables; others are those of libraries."""
    own = ("SGLANG_", "SGL_", "VLLM_")
    for name in (each for each in rule.set_env if each.startswith(own)):
        assert any(name in load_variables(kind, release) for kind, release in releases_of(rule))


def asked(part: str) -> set[tuple[str, str]]:
    """The rules and the names below a part of the tree that their conditions read."""
    return {
        (rule.id, path.split(".", 1)[1])
        for rule in load_rules()
        for path in list_paths(rule.when)
        if path.startswith(f"{part}.")
    }


def test_settings_that_rules_ask_about_are_flags_of_some_release() -> None:
    """A misspelt flag would be None for ever, and its rule silent or always right."""
    by_id = {rule.id: rule for rule in load_rules()}
    lost = [
        (rule_id, name)
        for rule_id, name in sorted(asked("settings"))
        if not any(
            load_catalogue(kind, release).find(name.split(".")[0])
            for kind in by_id[rule_id].applies or engine_kinds()
            for release in (
                load_lifetimes(kind).releases
                if kind in lifetime_kinds()
                else (load_engine_table(kind).catalogue.build,)
            )
        )
    ]
    assert lost == []


def test_a_release_outside_of_a_range_is_left_out() -> None:
    (rule,) = [each for each in CHOOSERS if each.id == "backend.sm120-fp4-matrices"]
    assert {release for _, release in releases_of(rule)} == {"0.5.8", "0.5.8.post1", "0.5.9"}
