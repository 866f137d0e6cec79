"""A crash anywhere, and again during the recovery, ends in before or after, never between."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from stoker.errors import ApplyFailed
from stoker.model.layout import api_key_path
from stoker.model.run import Outcome
from tests.fakes.host import Crash
from tests.laws.worlds import (
    FOLDERS,
    KEY_FILE,
    NAME,
    SETTINGS_FILE,
    Machine,
    Verb,
    apply_variant,
    down,
    make_generation,
    next_stoker,
    rollback,
    start,
    stop,
)

#: What happened before, then the verb that is killed.
SCENARIOS: dict[str, tuple[list[Verb], Verb]] = {
    "first apply": ([], apply_variant("a")),
    "apply over another": ([apply_variant("a")], apply_variant("b")),
    "apply that drops the key": ([apply_variant("a")], apply_variant("a", has_key=False)),
    "apply over a stopped one": ([apply_variant("a"), stop], apply_variant("b")),
    "third apply": ([apply_variant("a"), apply_variant("b")], apply_variant("c")),
    "start": ([apply_variant("a"), stop], start),
    "stop": ([apply_variant("a")], stop),
    "rollback": ([apply_variant("a"), apply_variant("b")], rollback),
    "rollback of a stopped one": ([apply_variant("a"), apply_variant("b"), stop], rollback),
    "down": ([apply_variant("a"), apply_variant("b")], down),
    "down of a stopped one": ([apply_variant("a"), stop], down),
}


def prepare(befores: list[Verb]) -> Machine:
    machine = Machine()
    for verb in befores:
        verb(machine.world())
    return machine


def count_moments(befores: list[Verb], verb: Verb) -> tuple[int, object, object]:
    """How many moments there are to crash at, and the states before and after."""
    machine = prepare(befores)
    before = machine.look()
    moments = 0

    def count(moment: str, effect: str) -> None:
        nonlocal moments
        moments += 1

    machine.host.fuse = machine.supervisor.fuse = count
    verb(machine.world())
    machine.revive()
    return moments, before, machine.look()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_crash_anywhere_ends_before_or_after(scenario: str) -> None:
    befores, verb = SCENARIOS[scenario]
    moments, before, after = count_moments_once(scenario)
    assert moments > 3
    for moment in range(1, moments + 1):
        machine = prepare(befores)
        machine.crash_after(moment)
        with suppress(Crash):
            verb(machine.world())
        assert machine.revive(), f"no crash at {moment}"
        next_stoker(machine)
        assert machine.look() in (before, after), f"between, after a crash at {moment}"


@settings(max_examples=250, deadline=None)
@given(
    scenario=st.sampled_from(sorted(SCENARIOS)),
    crashes=st.lists(st.integers(min_value=1, max_value=60), min_size=2, max_size=4),
)
def test_crashes_in_the_recovery_too(scenario: str, crashes: list[int]) -> None:
    """The verb is killed, then each of the next Stokers while it recovers; the last one lives."""
    befores, verb = SCENARIOS[scenario]
    _, before, after = count_moments_once(scenario)
    machine = prepare(befores)
    first, *others = crashes
    machine.crash_after(first)
    with suppress(Crash):
        verb(machine.world())
    machine.revive()
    for moment in others:
        machine.crash_after(moment)
        with suppress(Crash):
            next_stoker(machine)
        machine.revive()
    next_stoker(machine)
    assert machine.look() in (before, after)


@cache
def count_moments_once(scenario: str) -> tuple[int, object, object]:
    return count_moments(*SCENARIOS[scenario])


@pytest.mark.parametrize("scenario", ["first apply", "apply over another", "third apply"])
def test_verb_again_after_a_crash_is_as_if_uninterrupted(scenario: str) -> None:
    befores, verb = SCENARIOS[scenario]
    moments, _, after = count_moments(befores, verb)
    for moment in range(1, moments + 1, 2):
        machine = prepare(befores)
        machine.crash_after(moment)
        with suppress(Crash):
            verb(machine.world())
        machine.revive()
        verb(machine.world())
        assert machine.look() == after


@pytest.mark.parametrize("befores", [[], [apply_variant("a")], [apply_variant("a"), stop]])
def test_failed_contract_rolls_back(befores: list[Verb]) -> None:
    machine = prepare(befores)
    before = machine.look()
    machine.broken.add(make_generation(machine.world(), "bad").service.digest)
    with pytest.raises(ApplyFailed) as failure:
        apply_variant("bad")(machine.world())
    assert "chat_answer" in failure.value.summary
    assert machine.look() == before
    assert Outcome.ROLLED_BACK.value in last_journal_line(machine)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_replaced_secrets_are_kept_nowhere(scenario: str) -> None:
    """Neither after the verb, nor after it was killed anywhere and recovered from."""
    befores, verb = SCENARIOS[scenario]
    moments, _, _ = count_moments_once(scenario)
    for moment in range(1, moments + 1, 4):
        machine = prepare(befores)
        machine.crash_after(moment)
        with suppress(Crash):
            verb(machine.world())
        machine.revive()
        next_stoker(machine)
        held = [
            path for path, (_, raw, *_) in machine.host.snapshot().items() if b"secret-1" in raw
        ]
        assert set(held) <= {KEY_FILE, SETTINGS_FILE, api_key_path(FOLDERS, NAME)}


def test_a_key_becomes_a_setting_that_its_user_alone_can_read() -> None:
    machine = Machine()
    machine.host.put(KEY_FILE, '\n  a:"#\\b  \nnot this\n', mode=0o600)
    apply_variant("a")(machine.world())
    stat = machine.host.stat(SETTINGS_FILE)
    assert stat is not None
    assert (stat.mode, stat.owner) == (0o400, "nobody")
    text = machine.host.read_text(SETTINGS_FILE)
    assert YAML(typ="safe", pure=True).load(text) == {"api-key": 'a:"#\\b'}
    apply_variant("a", has_key=False)(machine.world())
    assert machine.host.stat(SETTINGS_FILE) is None


def test_engine_that_will_not_start_rolls_back() -> None:
    machine = prepare([apply_variant("a")])
    before = machine.look()
    machine.supervisor.refused.add("law")
    with pytest.raises(Exception, match="cannot be started"):
        apply_variant("b")(machine.world())
    machine.supervisor.refused.clear()
    next_stoker(machine)
    assert machine.look()["files"] == before["files"]


HISTORIES = st.lists(
    st.one_of(
        st.builds(apply_variant, st.sampled_from("abc"), has_key=st.booleans()),
        st.sampled_from([stop, start, rollback, down]),
    ),
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(history=HISTORIES, variant=st.sampled_from("abc"), has_key=st.booleans())
def test_plan_after_apply_is_empty_after_any_history(
    history: list[Verb], variant: str, has_key: bool
) -> None:
    """Whatever was done before, one apply is enough and a second one does nothing."""
    machine = Machine()
    for verb in history:
        if verb in (stop, start, rollback, down) and not machine.is_deployed():
            continue  # the command line refuses these without a deployment
        verb(machine.world())
    verb = apply_variant(variant, has_key=has_key)
    verb(machine.world())
    effects, state = list(machine.supervisor.effects), machine.look()
    again = verb(machine.world())
    assert again.plan.is_empty  # type: ignore[attr-defined]
    assert machine.supervisor.effects == effects
    assert machine.look() == state


@settings(max_examples=100, deadline=None)
@given(history=HISTORIES, has_key=st.booleans())
def test_a_failed_apply_restores_what_any_history_left(history: list[Verb], has_key: bool) -> None:
    machine = Machine()
    for verb in history:
        if verb in (stop, start, rollback, down) and not machine.is_deployed():
            continue
        verb(machine.world())
    before = machine.look()
    bad = make_generation(machine.world(), "bad", has_key=has_key)
    machine.broken.add(bad.service.digest)
    with pytest.raises(ApplyFailed):
        apply_variant("bad", has_key=has_key)(machine.world())
    assert machine.look() == before


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_plan_after_the_verb_is_empty(scenario: str) -> None:
    befores, verb = SCENARIOS[scenario]
    if verb in (down, stop, start, rollback) or scenario.startswith("down"):
        pytest.skip("the verb is not an apply")
    machine = prepare(befores)
    verb(machine.world())
    effects = list(machine.supervisor.effects)
    again = verb(machine.world())
    assert again.plan.is_empty  # type: ignore[attr-defined]
    assert not again.run  # type: ignore[attr-defined]
    assert machine.supervisor.effects == effects


def last_journal_line(machine: Machine) -> str:
    journals = [path for path in machine.host.snapshot() if path.endswith("journal.jsonl")]
    newest = max(journals, key=lambda path: machine.host.nodes[path].modified_ns)
    text = machine.host.read_text(newest)
    return text.splitlines()[-1]
