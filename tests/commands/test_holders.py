"""`--end-holders`: choosing by real facts, ending real processes, and waiting for memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from stoker.commands import holders
from stoker.commands.holders import (
    Judged,
    end_named,
    freeing,
    judge_without,
    parse_pids,
)
from stoker.commands.judge import judge
from stoker.commands.resolve import Resolved
from stoker.commands.world import World
from stoker.errors import HostError, UsageError
from stoker.hosts.local import LocalHost
from stoker.model.plan import Activation, ActivationKind, NamedProcess
from stoker.model.units import parse_process_identity
from stoker.ports import Command, CommandResult
from tests.fakes.host import MemoryHost
from tests.hosts.worlds import is_running
from tests.knowledge.cases import GIB, make_case, make_deployment, make_place
from tests.knowledge.gpus import ENGINE, A, facts_with, gpu, opener, user
from tests.laws.worlds import Machine

ADDRESSES = ("0000:41:00.0",)


# The option


@pytest.mark.parametrize(
    ("text", "pids"),
    [(None, ()), ("4711", (4711,)), ("4711, 12,4711", (4711, 12)), ("2", (2,))],
)
def test_pids_are_numbers_with_commas(text: str | None, pids: tuple[int, ...]) -> None:
    assert parse_pids(text) == pids


@pytest.mark.parametrize(
    "text", ["", "a", "-1", "0", "4711,", "1.5", "٣", "99999999999999999999", "4711 12", "all"]
)
def test_what_is_no_pid_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no process"):
        parse_pids(text)


# Choosing


def stat_line(pid: int, *, parent: int = 1, group: int = 0, start: int = 77, flags: int = 0) -> str:
    rest = " ".join(["0"] * 12)
    return (
        f"{pid} (a) b) S {parent} {group or pid} {group or pid} 0 -1 {flags} {rest} {start} 0 0\n"
    )


class Host(MemoryHost):
    """A machine with processes to look at."""

    def show(self, pid: int, cgroup: str = "0::/\n", **changes: int) -> None:
        self.put(f"/proc/{pid}/stat", stat_line(pid, **changes))
        self.put(f"/proc/{pid}/cgroup", cgroup)


def make_world(host: Any) -> World:
    machine = Machine()
    return replace(machine.world(), host=host)


LISTENER = {"address": "127.0.0.1", "port": 30000, "pid": 4900, "command": "x", "user": "bob"}


def resolve_with(**changes: Any) -> Resolved:
    """The deployment `smol` on a machine whose GPU is full and whose port is taken."""
    busy = gpu(0, 76 * GIB, user(4711, 75 * GIB), user(4800, GIB, unit="a.service"))
    probes = {"listeners": {"listeners": [LISTENER]}, **changes}
    facts = facts_with(busy, holders=[opener(4712, A)], **probes)
    case = make_case(make_deployment(engine=ENGINE), facts)
    return Resolved(
        deployment=case.deployment,
        source="",
        table=case.table,
        facts=facts,
        place=make_place(case.deployment, case.launch.engine_build),
        launch=case.launch,
        user="nobody",
        model="m",
        preparations=(),
    )


def judge_on(host: MemoryHost, *pids: int, **changes: Any) -> Judged:
    return judge_without(make_world(host), resolve_with(**changes), pids)


def blocking(judged: Judged) -> set[str]:
    found = judge(judged.tree, make_deployment(engine=ENGINE))
    return {each.rule for each in found if each.blocks} & {"gpu.held", "safety.port-in-use"}


@pytest.fixture
def host() -> Host:
    host = Host(user="root")
    for pid in (4711, 4712, 4900):
        host.show(pid)
    host.show(4800, "0::/system.slice/a.service\n")
    return host


def test_without_the_option_the_rules_block_and_nothing_is_ended(host: Host) -> None:
    judged = judge_on(host)
    assert blocking(judged) == {"gpu.held", "safety.port-in-use"}
    assert judged.clearing.ending == ()
    assert judged.clearing.gpus == ADDRESSES


def test_those_that_are_named_block_no_more(host: Host) -> None:
    judged = judge_on(host, 4711)
    assert blocking(judged) == {"safety.port-in-use"}
    assert [each.process for each in judged.clearing.ending] == ["4711:77"]
    assert blocking(judge_on(host, 4900)) == {"gpu.held"}
    assert blocking(judge_on(host, 4900, 4711)) == set()


def test_what_a_named_one_started_goes_with_it(host: Host) -> None:
    """Its workers hold the memory, and it itself the port."""
    worker = gpu(0, 76 * GIB, user(5000, 75 * GIB))
    host.show(5000, parent=4900)
    judged = judge_on(host, 4900, gpus={"gpus": [worker]})
    assert blocking(judged) == set()
    assert [each.pid for each in judged.clearing.ending] == [4900]


def test_one_that_only_has_a_gpu_open_may_be_named(host: Host) -> None:
    (named,) = judge_on(host, 4712).clearing.ending
    assert named.title.startswith("python3 train.py (process 4712 of alice, has GPU 0 open)")


def test_a_process_in_a_unit_is_refused_whoever_asked_the_kernel(host: Host) -> None:
    with pytest.raises(UsageError, match="would start it again") as caught:
        judge_on(host, 4800)
    assert caught.value.hint == "use `systemctl stop a.service`"
    host.show(4900, "0::/system.slice/nginx.service\n")
    with pytest.raises(UsageError) as caught:
        judge_on(host, 4900)
    assert caught.value.hint == "use `systemctl stop nginx.service`"


def test_a_later_process_with_the_pid_of_a_holder_is_refused(host: Host) -> None:
    host.show(4711, start=78)
    with pytest.raises(UsageError, match="holds neither the GPUs nor the port"):
        judge_on(host, 4711)


@pytest.mark.parametrize("pid", [4999, 1])
def test_nobody_else_is_ended(host: Host, pid: int) -> None:
    host.show(pid)
    with pytest.raises(UsageError):
        judge_on(host, pid)


def test_a_thread_of_the_kernel_is_refused(host: Host) -> None:
    host.show(4711, flags=0x00200000)
    with pytest.raises(UsageError, match="a thread of the kernel"):
        judge_on(host, 4711)


def test_whoever_started_us_is_refused() -> None:
    with pytest.raises(UsageError, match="is this very command, or one that it was started from"):
        judge_without(make_world(LocalHost()), resolve_with(), (os.getppid(),))


def test_what_could_not_be_seen_is_said(host: Host) -> None:
    resolved = resolve_with()
    unread = {
        name: replace(each, value=None, unknown="no answer") if name == "gpus" else each
        for name, each in resolved.facts.observations.items()
    }
    blind = replace(resolved, facts=replace(resolved.facts, observations=unread))
    with pytest.raises(UsageError, match="could not be seen: no answer"):
        judge_without(make_world(host), blind, (4711,))


# Ending


FAMILY = """
import os, signal, sys, time
deaf = sys.argv[1] == "deaf"
signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else signal.SIG_DFL)
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        print(os.getppid(), os.getpid(), flush=True)
    time.sleep(600)
time.sleep(600)
"""


class Family:
    """A process with a child in another session and a grandchild, which ignore TERM."""

    def __init__(self, how: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", FAMILY, how],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.pids = [self.process.pid, *map(int, self.process.stdout.readline().split())]

    def named(self, offset: int = 0) -> NamedProcess:
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            identity = parse_process_identity(file.read(), self.process.pid)
        pid, _, start = identity.partition(":")
        return NamedProcess(
            pid=self.process.pid, process=f"{pid}:{int(start) + offset}", title="it"
        )

    def close(self) -> None:
        for pid in self.pids:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def start_family(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Family]]:
    monkeypatch.setattr(holders, "END_SECONDS", 0.3)
    monkeypatch.setattr(holders, "FAMILY_SECONDS", 0.3)
    started: list[Family] = []

    def start(how: str) -> Family:
        started.append(Family(how))
        return started[-1]

    yield start
    for family in started:
        family.close()


def activation(*named: NamedProcess, gpus: tuple[str, ...] = ()) -> Activation:
    return Activation(kind=ActivationKind.END_HOLDERS, target="smol", processes=named, gpus=gpus)


@pytest.mark.parametrize("how", ["heeds", "deaf"])
def test_a_process_and_all_that_it_started_are_ended(
    start_family: Callable[[str], Family], how: str
) -> None:
    family, bystander, ended = start_family(how), start_family("heeds"), set[int]()
    end_named(make_world(LocalHost()), activation(family.named()), ended)
    assert not any(map(is_running, family.pids))
    assert all(map(is_running, bystander.pids))
    assert ended == {*family.pids}


def test_another_identity_is_left_alone_with_its_children(
    start_family: Callable[[str], Family],
) -> None:
    family, ended = start_family("heeds"), set[int]()
    end_named(make_world(LocalHost()), activation(family.named(offset=1)), ended)
    assert all(map(is_running, family.pids))
    assert ended == {family.process.pid}


@pytest.mark.parametrize(
    ("state", "says"),
    [("D", "waits in the kernel, most likely for a driver"), ("Z", "its parent 12 takes no note")],
)
def test_why_one_cannot_be_ended(state: str, says: str) -> None:
    host = Host(user="root")
    host.processes[4711] = "4711:77"
    host.stubborn.add(4711)
    host.put("/proc/4711/stat", stat_line(4711, parent=12).replace(" S ", f" {state} "))
    named = NamedProcess(pid=4711, process="4711:77", title="it")
    with pytest.raises(HostError) as caught:
        end_named(make_world(host), activation(named), set())
    assert says in caught.value.summary


# Waiting


def answer(used: int, *processes: tuple[int, int | None]) -> str:
    """What the program that asks NVIDIA's library prints."""
    rows = [{"pid": pid, "used_bytes": amount} for pid, amount in processes]
    row = gpu(0, used, *rows, pci_bus_id="00000000:41:00.0")
    return json.dumps({"driver_version": "580", "cuda_version": "13.0", "gpus": [row]})


class Driver:
    """A driver that gives one answer after the other, and the last one for ever."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, command: Command) -> CommandResult:
        self.asked += 1
        text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return CommandResult(argv=command.argv, exit_status=0, stdout=text, stderr="")


def make_gpu_world(driver: Driver) -> World:
    host = Host({"/dev/nvidiactl": ""}, driver, user="root")
    host.put_folder("/sys/bus")
    return make_world(host)


def wait_for_memory(world: World, gpus: tuple[str, ...] = ADDRESSES) -> list[str]:
    with freeing(world, activation(gpus=gpus)) as ended:
        ended.add(4711)
    return [event.text for event in world.reporter.events]  # type: ignore[attr-defined]


FULL = answer(76 * GIB, (4711, 75 * GIB))


def test_it_waits_until_the_memory_is_really_free() -> None:
    """The process is gone at once, and the driver takes its time."""
    driver = Driver(FULL, FULL, answer(76 * GIB), answer(30 * GIB), answer(GIB // 2))
    told = wait_for_memory(make_gpu_world(driver))
    assert told == [
        "waiting for memory: GPU 0 is still held by process 4711 (76.0 GiB in use)",
        "waiting for memory: GPU 0 has 76.0 GiB in use that no process accounts for",
        "waiting for memory: GPU 0 has 30.0 GiB in use that no process accounts for",
    ]


def test_memory_of_others_is_not_waited_for() -> None:
    driver = Driver(
        answer(76 * GIB, (4711, 45 * GIB), (9, 30 * GIB)), answer(31 * GIB, (9, 30 * GIB))
    )
    assert wait_for_memory(make_gpu_world(driver)) == []


def test_memory_that_never_comes_back_is_an_error_that_says_what_holds_it() -> None:
    world = make_gpu_world(Driver(FULL))
    world.host.put(  # type: ignore[attr-defined]
        "/proc/4711/stat", stat_line(4711).replace(" S ", " D ")
    )
    with pytest.raises(HostError) as caught:
        wait_for_memory(world)
    assert "GPU 0 is still held by process 4711" in caught.value.summary
    assert "process 4711: it waits in the kernel" in caught.value.summary
    assert caught.value.hint


def test_one_that_is_started_again_is_noticed() -> None:
    world = make_gpu_world(Driver(FULL, answer(76 * GIB, (4999, 75 * GIB))))
    with pytest.raises(HostError, match="held by process 4999 now, which was not there before"):
        wait_for_memory(world)


def test_a_driver_that_says_nothing_is_not_waited_for() -> None:
    world = make_gpu_world(Driver(json.dumps({"error": "Driver Not Loaded"})))
    assert wait_for_memory(world) == ["whether the GPUs' memory is free again cannot be seen"]


def test_a_service_without_gpus_asks_no_driver() -> None:
    driver = Driver(FULL)
    assert wait_for_memory(make_gpu_world(driver), ()) == []
    assert driver.asked == 0


def test_a_failed_end_is_not_hidden_by_the_wait() -> None:
    driver = Driver(FULL)
    with (
        pytest.raises(HostError, match="cannot be ended"),
        freeing(make_gpu_world(driver), activation(gpus=ADDRESSES)),
    ):
        raise HostError("process 4711 cannot be ended")
    assert driver.asked == 1
