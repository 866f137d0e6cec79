"""Who may be ended before a start, and whether the memory has come back after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.errors import UsageError
from stoker.model.launch import ServicePhase, ServiceState
from stoker.model.plan import Activation, ActivationKind, NamedProcess, Plan, ServiceBefore
from stoker.planning.activations import Wanted, plan_activations
from stoker.planning.actual import Actual
from stoker.planning.ending import Candidate, choose_ending
from stoker.planning.freeing import GpuUse, find_unfreed, read_uses
from stoker.planning.plan import compare_plans, plan_id

GIB = 1 << 30


def candidate(pid: int, *holds: str, group: int = 0, **changes: Any) -> Candidate:
    fields = {"process": f"{pid}:7", "title": f"program {pid}", "group": group or pid}
    return Candidate(pid=pid, holds=holds, **{**fields, **changes})


def choose(*candidates: Candidate, pids: tuple[int, ...] = (40,)) -> tuple[NamedProcess, ...]:
    known = {each.pid: each for each in candidates}
    return choose_ending("smol", pids, known, own={50, 51}, line={1, 60, 61})


def test_a_holder_that_was_named_is_ended_as_the_very_process() -> None:
    (named,) = choose(candidate(40, "GPU 0"))
    assert (named.pid, named.process) == (40, "40:7")
    assert named.title == "program 40"


def test_what_holds_something_in_the_same_group_goes_with_it() -> None:
    """The workers of an engine whose first process was named, or the other way round."""
    found = choose(
        candidate(40, "port 30000"),
        candidate(41, "GPU 0", group=40),
        candidate(42, "GPU 1", group=42),
        candidate(43, group=40),
        candidate(44, "GPU 1", group=40, stop="`systemctl stop a.service`"),
        candidate(50, "GPU 1", group=40),
    )
    assert [each.pid for each in found] == [40, 41]
    assert found[1].title == "program 41, which belongs to it"


@pytest.mark.parametrize(
    ("pid", "known", "says"),
    [
        (1, candidate(1, "GPU 0"), "what the whole machine or container runs in"),
        (60, candidate(60, "GPU 0"), "this very command, or one that it was started from"),
        (50, candidate(50, "GPU 0"), "is smol itself, which needs not be named"),
        (40, None, "there is no process 40"),
        (40, candidate(40, "GPU 0", is_kernel=True), "a thread of the kernel"),
        (40, candidate(40), "holds neither the GPUs nor the port of smol"),
        (40, candidate(40, "GPU 0", stop="`stoker stop b`"), "would start it again"),
    ],
)
def test_who_is_refused(pid: int, known: Candidate | None, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(*([known] if known else []), pids=(pid,))
    assert says in caught.value.summary
    if known and known.stop:
        assert caught.value.hint == "use `stoker stop b`"


def test_one_that_is_refused_refuses_all() -> None:
    with pytest.raises(UsageError):
        choose(candidate(40, "GPU 0"), candidate(41), pids=(40, 41))


# In a plan

NAMED = (NamedProcess(pid=40, process="40:7", title="program 40"),)
ADDRESSES = ("0000:41:00.0",)


def activate(phase: ServicePhase, digest: str = "", **changes: Any) -> Any:
    service = ServiceState(name="x", phase=phase, digest=digest, pid=7 if digest else 0)
    orphan = ServiceState(name="x", phase=ServicePhase.UNKNOWN, pid=9, process="9:1")
    return plan_activations(
        name="x",
        changes=(),
        definitions=(),
        actual=Actual(service=service, orphans=(orphan,)),
        wanted=Wanted(phase=ServicePhase.RUNNING, digest="new", gpus=ADDRESSES),
        **{"ending": NAMED, **changes},
    )


@pytest.mark.parametrize(
    ("phase", "digest", "kinds"),
    [
        (ServicePhase.STOPPED, "", ["end-orphans", "reload", "end-holders", "start", "verify"]),
        (ServicePhase.RUNNING, "old", ["end-orphans", "end-holders", "restart", "verify"]),
    ],
)
def test_holders_are_ended_directly_before_the_start(
    phase: ServicePhase, digest: str, kinds: list[str]
) -> None:
    activations = activate(phase, digest)
    assert [each.kind.value for each in activations] == kinds
    (end,) = [each for each in activations if each.kind is ActivationKind.END_HOLDERS]
    assert end.processes == NAMED
    assert end.because == ("program 40", "a roll-back cannot bring back what is ended")
    waiting = [each.kind.value for each in activations if each.gpus == ADDRESSES]
    assert waiting == ["end-orphans", "end-holders"]


def test_nothing_is_ended_where_nothing_is_started() -> None:
    with pytest.raises(UsageError, match="runs already and is not started"):
        activate(ServicePhase.RUNNING, "new")
    assert "end-holders" not in {
        each.kind.value for each in activate(ServicePhase.RUNNING, "new", ending=())
    }


def make_plan(activations: tuple[Activation, ...]) -> Plan:
    return Plan(
        id="p",
        verb="apply",
        host="here",
        name="x",
        served=None,
        launch=None,
        activations=activations,
        service_before=ServiceBefore(phase="stopped"),
    )


def test_a_plan_that_ends_another_process_is_another_plan() -> None:
    activations = activate(ServicePhase.STOPPED)
    later = tuple(
        replace(each, processes=tuple(replace(one, process="40:8") for one in each.processes))
        for each in activations
    )
    ids = {plan_id(changes=(), activations=each, preparations=()) for each in (activations, later)}
    assert len(ids) == 2
    saved = make_plan(activations)
    assert compare_plans(saved, saved) == ()
    (sentence,) = compare_plans(saved, make_plan(later))
    assert "end-holders 40" in sentence


# Memory


def use(used: int, **listed: int | None) -> dict[str, GpuUse]:
    by_pid = {int(name[1:]): amount for name, amount in listed.items()}
    return {"a": GpuUse(label="GPU 0", total_bytes=80 * GIB, used_bytes=used, listed=by_pid)}


BUSY = use(71 * GIB, p40=60 * GIB, p41=10 * GIB)


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        (BUSY, use(11 * GIB, p41=10 * GIB), ""),
        (BUSY, BUSY, "GPU 0 is still held by process 40 (71.0 GiB in use)"),
        (BUSY, use(71 * GIB, p41=10 * GIB), "GPU 0 has 61.0 GiB in use that no process accounts"),
        (BUSY, use(40 * GIB, p41=10 * GIB, p77=29 * GIB), "held by process 77 now, which was not"),
        (BUSY, use(11 * GIB, p41=10 * GIB, p77=GIB // 2), ""),
        (BUSY, use(71 * GIB, p41=None), ""),
        (BUSY, {}, ""),
        # What nobody accounted for before stays, as that of another container.
        (use(40 * GIB, p40=10 * GIB), use(30 * GIB), ""),
        (use(40 * GIB, p40=10 * GIB), use(40 * GIB), "GPU 0 has 40.0 GiB in use"),
        # Unless it may have been that of the process that was ended.
        (use(40 * GIB, p40=None), use(40 * GIB), "GPU 0 has 40.0 GiB in use"),
        (use(40 * GIB, p40=None), use(GIB // 2), ""),
    ],
)
def test_whether_memory_has_come_back(before: Any, now: Any, says: str) -> None:
    told = find_unfreed(before, now, ended={40}, idle_bytes=lambda total: GIB)
    assert len(told) == bool(says)
    assert says in "".join(told)


def test_uses_are_read_for_the_wanted_gpus_alone() -> None:
    row = {"index": 3, "pci_bus_id": "a", "memory_total_bytes": 2, "memory_used_bytes": 1}
    processes = [{"pid": 7, "used_bytes": None}]
    gpus = [
        {**row, "processes": processes},
        {**row, "pci_bus_id": "b", "processes": None},
        {**row, "pci_bus_id": "c"},
        {**row, "pci_bus_id": "d", "memory_used_bytes": None},
    ]
    found = read_uses(gpus, ("a", "b", "d"))
    assert found["a"] == GpuUse(label="GPU 3", total_bytes=2, used_bytes=1, listed={7: None})
    assert found["b"].listed == {}
    assert set(found) == {"a", "b"}
