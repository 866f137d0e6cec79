"""A plan that ends somebody's process, killed anywhere: the service and its files end before or
after, and nobody is ended but the very process that the plan names."""

from __future__ import annotations

from contextlib import suppress

import pytest

from stoker.commands.assemble import plan_generation
from stoker.commands.holders import Clearing
from stoker.commands.world import World
from stoker.errors import ApplyFailed
from stoker.model.plan import NamedProcess, Plan
from tests.fakes.host import Crash
from tests.laws.worlds import (
    Machine,
    Verb,
    _run,
    apply_variant,
    make_generation,
    next_stoker,
)

PID = 4711
NAMED = NamedProcess(pid=PID, process=f"{PID}:77", title="somebody's engine")


def apply_ending(variant: str) -> Verb:
    """A verb that applies a variant and has a process ended before it starts."""

    def plan(world: World) -> Plan:
        return plan_generation(
            world,
            make_generation(world, variant),
            verb="apply",
            preparations=(),
            findings=(),
            origin={},
            clearing=Clearing(ending=(NAMED,)),
        )

    return lambda world: _run(world, plan)


def prepare(befores: list[Verb], identity: str = NAMED.process) -> Machine:
    machine = Machine()
    machine.host.processes[PID] = identity
    for verb in befores:
        verb(machine.world())
    return machine


def test_the_process_is_ended_after_the_files_and_before_the_start() -> None:
    machine = prepare([])
    apply_ending("a")(machine.world())
    effects = machine.host.effects
    end = effects.index(f"end_process:{PID}")
    assert PID not in machine.host.processes
    assert any(effect.startswith("write:") for effect in effects[:end])
    written = [effect for effect in effects[end:] if effect.startswith("write:")]
    assert [path for path in written if "/supervisor/" in path] == []
    assert machine.supervisor.effects[-1] == "start:law"


def test_a_later_process_with_the_same_pid_is_left_alone() -> None:
    machine = prepare([], identity=f"{PID}:78")
    apply_ending("a")(machine.world())
    assert machine.host.processes[PID] == f"{PID}:78"


def test_one_that_cannot_be_ended_rolls_back() -> None:
    machine = prepare([apply_variant("a")])
    before = machine.look()
    machine.host.stubborn.add(PID)
    with pytest.raises(ApplyFailed, match=f"process {PID} cannot be ended"):
        apply_ending("b")(machine.world())
    assert machine.look() == before
    assert machine.host.processes[PID] == NAMED.process


@pytest.mark.parametrize("befores", [[], [apply_variant("a")]], ids=["first", "over another"])
def test_a_kill_anywhere_ends_before_or_after(befores: list[Verb]) -> None:
    machine = prepare(befores)
    before, moments = machine.look(), 0

    def count(moment: str, effect: str) -> None:
        nonlocal moments
        moments += 1

    machine.host.fuse = machine.supervisor.fuse = count
    apply_ending("b")(machine.world())
    machine.revive()
    after = machine.look()
    for moment in range(1, moments + 1):
        machine = prepare(befores)
        machine.crash_after(moment)
        with suppress(Crash):
            apply_ending("b")(machine.world())
        assert machine.revive(), f"no crash at {moment}"
        next_stoker(machine)
        assert machine.look() in (before, after), f"between, after a crash at {moment}"
        assert machine.look() == before or PID not in machine.host.processes
