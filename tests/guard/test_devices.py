"""Whether an engine may be started on its GPUs: what is seen, and what follows from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import UsageError
from stoker.guard import gpu_reader
from stoker.guard.config import Devices, GuardConfig, parse_config
from stoker.guard.devices import HELD_SECONDS, Look, count_memory, decide_boot, parse_look
from stoker.guard.gpu_reader import look, parse_holds, parse_rooms, shorten_address
from stoker.model.document import render_document
from stoker.model.gpu import (
    GpuDevice,
    GpuHold,
    GpuRoom,
    GpuSight,
    are_in_the_way,
    find_flaw,
)
from stoker.ports import Command, CommandResult
from tests.fakes.host import MemoryHost
from tests.guard.simulation import CONFIG

GIB = 1 << 30
A, B = "0000:41:00.0", "0000:61:00.0"
GPU = GpuDevice(address=A, uuid="GPU-aa", minor=0)
FINE = GpuSight(
    address=A,
    is_present=True,
    driver="nvidia",
    is_lost=False,
    is_known=True,
    node="/dev/nvidia0",
    node_error="",
)


def seen(**changes: Any) -> GpuSight:
    return GpuSight(**{**asdict(FINE), **changes})


# What is wrong with a GPU


@pytest.mark.parametrize(
    ("sight", "sentence", "may_pass"),
    [
        (seen(is_present=False), f"GPU {A} is not on the PCI bus", False),
        (seen(is_lost=True), f"GPU {A} has fallen off the bus", False),
        (
            seen(driver="vfio-pci"),
            f"GPU {A} is bound to vfio-pci: it is handed to a virtual machine",
            False,
        ),
        (seen(driver="nvgrace_gpu_vfio_pci"), "it is handed to a virtual machine", False),
        (seen(driver="nouveau"), "is bound to nouveau, so NVIDIA's driver does not", False),
        (seen(driver=""), f"GPU {A}: no driver is bound to it", True),
        (seen(is_known=False), "NVIDIA's driver does not list it", True),
        (seen(node_error="ENOENT"), "there is no device /dev/nvidia0", True),
        (seen(node_error="EACCES"), "this user may not open /dev/nvidia0", True),
        (seen(node_error="EPERM"), "/dev/nvidia0 is forbidden here", False),
        (seen(node_error="EIO"), "/dev/nvidia0 cannot be opened (EIO)", True),
    ],
)
def test_what_is_wrong_and_whether_it_may_pass(
    sight: GpuSight, sentence: str, may_pass: bool
) -> None:
    flaw = find_flaw(sight)
    assert flaw is not None
    assert sentence in flaw.sentence
    assert flaw.may_pass is may_pass


def test_nothing_is_wrong_with_what_is_fine_or_could_not_be_seen() -> None:
    assert find_flaw(FINE) is None
    assert find_flaw(GpuSight(address=A)) is None


# Room


@pytest.mark.parametrize(
    ("held", "needed", "answer"),
    [
        (7, (99, 99), False),
        (8, (99, 99), False),
        (9, (71, 71), False),
        (9, (72, 72), True),
        (9, (72, None), True),
        (9, (10, None), None),
        (9, (10, 99), None),
        (9, (10, 71), False),
    ],
)
def test_little_is_never_in_the_way_and_much_only_if_the_rest_is_too_little(
    held: int, needed: tuple[int, int | None], answer: bool | None
) -> None:
    rooms = [GpuRoom(total_bytes=80, held_bytes=held)]
    assert are_in_the_way(rooms, share=0.1, needed=needed) is answer


@given(
    held=st.lists(st.integers(0, 100), min_size=1, max_size=3),
    needed=st.integers(0, 400),
    least=st.integers(0, 400),
    most=st.integers(0, 400) | st.none(),
)
def test_learning_what_is_needed_never_turns_the_answer(
    held: list[int], needed: int, least: int, most: int | None
) -> None:
    rooms = [GpuRoom(total_bytes=100, held_bytes=each) for each in held]
    bounds = (min(least, needed), None if most is None else max(most, needed))
    before = are_in_the_way(rooms, share=0.1, needed=bounds)
    assert before in (None, are_in_the_way(rooms, share=0.1, needed=(needed, needed)))


# What follows


def devices(**changes: Any) -> Devices:
    return Devices(**{"gpus": (GPU,), "wait_seconds": 60.0, "held_share": 0.1, **changes})


ROOMS = {A: GpuRoom(total_bytes=80 * GIB, held_bytes=61 * GIB)}
HOLD = GpuHold(address=A, pid=4711, name="python3", used_bytes=60 * GIB)


def test_a_gpu_that_is_well_lets_the_engine_start() -> None:
    assert decide_boot(devices(), Look(sights=(FINE,)), 0).sentence == ""


def test_what_may_pass_is_waited_for_and_then_given_up() -> None:
    late = Look(sights=(seen(driver=""),))
    assert [decide_boot(devices(), late, at).gives_up for at in (0, 59, 60)] == [
        False,
        False,
        True,
    ]
    assert decide_boot(devices(), late, 0).sentence == f"GPU {A}: no driver is bound to it"


def test_what_does_not_pass_is_given_up_at_once() -> None:
    both = Look(sights=(seen(driver=""), seen(address=B, driver="vfio-pci")))
    decision = decide_boot(devices(), both, 0)
    assert decision.gives_up
    assert decision.sentence.startswith(f"GPU {B} is bound to vfio-pci")


def test_a_driver_that_hangs_is_waited_for() -> None:
    decisions = [decide_boot(devices(), Look(is_answered=False), at) for at in (0, 60)]
    assert [each.gives_up for each in decisions] == [False, True]
    assert "does not answer" in decisions[0].sentence


def test_memory_of_others_is_named_and_waited_for_a_little() -> None:
    held = Look(sights=(FINE,), rooms=ROOMS, holds=(HOLD,))
    decisions = [decide_boot(devices(), held, at) for at in (0, HELD_SECONDS)]
    assert [each.gives_up for each in decisions] == [False, True]
    assert decisions[0].sentence == (
        f"GPU {A} is held by python3 (process 4711): 60.0 GiB of 80.0 GiB are in use"
    )


@pytest.mark.parametrize(
    ("changes", "look"),
    [
        ({"held_share": None}, Look(rooms=ROOMS, holds=(HOLD,))),
        ({"needed_bytes": 20 * GIB}, Look(rooms=ROOMS, holds=(HOLD,))),
        ({}, Look(rooms=ROOMS)),  # what draws, or what the driver keeps
        ({}, Look(rooms=None, holds=())),
    ],
)
def test_memory_that_is_no_reason(changes: Any, look: Look) -> None:
    assert decide_boot(devices(**changes), look, 0).sentence == ""


def test_memory_of_which_no_amounts_are_told_counts_whole() -> None:
    hold = GpuHold(address=A, pid=4711)
    look = Look(rooms=ROOMS, holds=(hold,))
    assert "is held by process 4711: 61.0 GiB" in decide_boot(devices(), look, 0).sentence


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"rooms": 3, "holds": []}', "{}"])
def test_a_reader_that_printed_nothing_of_use_has_seen_nothing(text: str) -> None:
    assert parse_look(text) == Look()
    assert not parse_look(None).is_answered


@pytest.mark.parametrize(
    ("holds", "pids", "used"),
    [
        ((HOLD,), {4711}, 60 * GIB),
        ((HOLD, GpuHold(address=A, pid=8, used_bytes=GIB)), {8}, GIB),
        ((HOLD,), {8}, 61 * GIB),
        ((GpuHold(address=A, pid=8),), {8}, 61 * GIB),
        ((GpuHold(address=A, pid=8, used_bytes=GIB + 5),), {8}, GIB),
    ],
)
def test_memory_is_counted_of_the_engines_own_processes_if_they_are_told(
    holds: Any, pids: set[int], used: int
) -> None:
    assert count_memory(Look(rooms=ROOMS, holds=holds), pids) == used


def test_memory_that_nobody_tells_is_not_counted() -> None:
    assert count_memory(Look(), {8}) is None


# What is seen


def machine(
    folder: Path, *, driver: str | None = "nvidia", config: bytes = b"\xde\x10\x35\x23"
) -> str:
    """A machine's /sys, /proc and /dev with one GPU whose node has the number 3."""
    device = folder / "sys/bus/pci/devices" / A
    device.mkdir(parents=True)
    (device / "config").write_bytes(config)
    (device / "uevent").mkdir()  # reading it hangs while a driver is stuck, so nobody may
    (device / "driver_override").mkdir()
    if driver:
        (device / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
    listed = folder / "proc/driver/nvidia/gpus" / A
    listed.mkdir(parents=True)
    (listed / "information").write_text("GPU UUID: \t GPU-aa\nDevice Minor: \t 3\n")
    (folder / "dev").mkdir()
    (folder / "dev/nvidia3").symlink_to("/dev/null")
    return str(folder)


def test_a_machine_whose_gpu_is_fine(tmp_path: Path) -> None:
    assert look(GPU, machine(tmp_path)) == seen(node="/dev/nvidia3")


def test_a_board_that_has_another_address_now_is_found(tmp_path: Path) -> None:
    moved = GpuDevice(address=B, uuid="GPU-aa", minor=0)
    assert look(moved, machine(tmp_path)) == seen(node="/dev/nvidia3")
    stranger = GpuDevice(address=B, uuid="GPU-zz", minor=0)
    assert look(stranger, str(tmp_path)).is_present is False


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"driver": "vfio-pci"}, "is bound to vfio-pci"),
        ({"driver": None}, "no driver is bound to it"),
        ({"config": b"\xff" * 64}, "has fallen off the bus"),
    ],
)
def test_a_machine_whose_gpu_is_not(tmp_path: Path, changes: Any, sentence: str) -> None:
    sight = look(GPU, machine(tmp_path, **changes))
    flaw = find_flaw(sight)
    assert flaw is not None
    assert sentence in flaw.sentence
    assert sight.node_error is None, "a GPU that is not ours is not opened"


def test_a_node_that_is_not_there_and_one_that_is_closed(tmp_path: Path) -> None:
    root = machine(tmp_path)
    (tmp_path / "dev/nvidia3").unlink()
    assert look(GPU, root).node_error == "ENOENT"
    (tmp_path / "dev/nvidia3").mkdir()
    assert look(GPU, root).node_error == "EISDIR"


def test_a_container_without_a_view_of_the_bus_is_not_judged(tmp_path: Path) -> None:
    sight = look(GpuDevice(address=A), str(tmp_path))
    assert sight == GpuSight(address=A)
    assert find_flaw(sight) is None


ROWS = f"0000{A}, 143771, 615\n0000{B}, [N/A], 3\nnonsense\n"
APPS = (
    f"0000{A}, 4711, 61440, /usr/bin/python3, as a title\n0000{A}, 8, [N/A], [Not Found]\n"
    f"0000{B}, none, 3, x\n"
)


def test_what_nvidias_tool_prints() -> None:
    room = GpuRoom(total_bytes=143771 << 20, held_bytes=615 << 20)
    assert list(parse_rooms(ROWS)) == [(A, room)]
    assert [(hold.pid, hold.used_bytes, hold.name) for hold in parse_holds(APPS)] == [
        (4711, 60 * GIB, "python3, as a title"),
        (8, None, "[Not Found]"),
    ]
    assert shorten_address("00000001:1B:00.0") == "0001:1b:00.0"
    assert shorten_address("10000000:1B:00.0") == "10000000:1b:00.0"


def tool_host(answers: dict[str, str | None]) -> MemoryHost:
    def run(command: Command) -> CommandResult | None:
        key = next(word for word in command.argv if word.startswith("--query"))
        text = answers.get(key.partition("=")[0])
        code = 9 if text is None else 0
        return CommandResult(argv=(), exit_status=code, stdout=text or "", stderr="")

    host = MemoryHost(commands=run)
    host.put("/usr/bin/nvidia-smi", "", mode=0o755)
    return host


def test_only_the_chosen_gpus_are_asked_for() -> None:
    host = tool_host({"--query-gpu": ROWS, "--query-compute-apps": APPS})
    rooms, holds = gpu_reader.read_use(host, (GPU,))
    assert rooms is not None
    assert set(rooms) == {A}
    assert {hold.pid for hold in holds} == {4711, 8}
    assert all(f"--id={A}" in effect for effect in host.effects)


def test_a_tool_that_is_not_there_or_fails_tells_nothing() -> None:
    assert gpu_reader.read_use(MemoryHost(), (GPU,)) == (None, [])
    assert gpu_reader.read_use(tool_host({}), (GPU,)) == (None, [])
    half = tool_host({"--query-gpu": ROWS})
    assert gpu_reader.read_use(half, (GPU,))[1] == []
    assert gpu_reader.read_use(half, ()) == (None, [])


@pytest.mark.parametrize("what", ["look", "use"])
def test_the_program_answers_on_any_machine(what: str) -> None:
    argv = [sys.executable, "-P", "-m", "stoker.guard.gpu_reader", what]
    gone = json.dumps([{"address": "ffff:ff:1f.7", "uuid": None, "minor": None}])
    done = subprocess.run([*argv, gone], capture_output=True, check=True, text=True, timeout=60)
    found = parse_look(done.stdout)
    assert len(found.sights) == (what == "look")
    if what == "look" and os.path.isdir("/sys/bus/pci/devices"):
        assert found.sights[0].is_present is False


# The orders


def test_gpus_read_as_they_were_written() -> None:
    data = json.loads(render_document(CONFIG))
    wanted = devices(needed_bytes=GIB)
    data["devices"] = json.loads(render_document(wanted))
    assert parse_config(data).devices == wanted


def test_orders_without_gpus_are_as_before() -> None:
    data = json.loads(render_document(CONFIG))
    del data["devices"]
    assert parse_config(data) == CONFIG
    assert GuardConfig.SCHEMA == "guard/1"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("gpus", [{"address": "41:00.0"}], r"devices\.gpus\.0\.address"),
        ("gpus", [{"address": "../../../etc"}], r"devices\.gpus\.0\.address"),
        ("gpus", [{"address": A, "minor": "0"}], r"devices\.gpus\.0\.minor"),
        ("gpus", [{"address": A, "name": "x"}], r"devices\.gpus\.0\.name` is unknown"),
        ("gpus", {"address": A}, r"devices\.gpus` is no list"),
        ("wait_seconds", 0, r"devices\.wait_seconds"),
        ("held_share", 2, r"devices\.held_share"),
        ("held_share", True, r"devices\.held_share"),
        ("needed_bytes", 1.5, r"devices\.needed_bytes"),
    ],
)
def test_orders_of_the_wrong_shape(key: str, value: object, says: str) -> None:
    data = json.loads(render_document(CONFIG))
    data["devices"] = {key: value}
    with pytest.raises(UsageError, match=says):
        parse_config(data)
