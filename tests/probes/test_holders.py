"""Who has a device open or mapped: real processes, and another device in the place of a GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.model.facts import Target
from stoker.ports import Command, CommandResult
from stoker.probes import gpu_holders, holders_reader, listeners, nvml_reader
from stoker.probes.control_groups import parse_owner
from stoker.probes.process_reader import Seen, describe_process, find_held, parse_maps
from tests.fakes.host import MemoryHost
from tests.hosts.worlds import NOBODY, as_nobody

#: /dev/zero stands for a GPU, /dev/full for what belongs to the driver as a whole (mem(4)).
ZERO, FULL = (1, 5), (1, 7)
ADDRESS = "0000:41:00.0"
NUMBERS = {ZERO: ADDRESS}
MAJORS = {1: "mem"}

#: Python's own mmap would keep a descriptor.
HOLD = """
import ctypes, os, sys, time
file = os.open(sys.argv[1], os.O_RDWR)
how = sys.argv[2]
if how != "open":
    memory = ctypes.CDLL(None).mmap
    memory.restype = ctypes.c_void_p
    PROT_READ, MAP_PRIVATE = 1, 2
    kept = memory(None, ctypes.c_size_t(4096), PROT_READ, MAP_PRIVATE, file, ctypes.c_long(0))
    os.close(file)
if how == "forks":
    os.fork()
if len(sys.argv) > 3:
    os.setgid(int(sys.argv[3]))
    os.setuid(int(sys.argv[3]))
    PR_SET_DUMPABLE = 4  # or it would be root's to look at
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
print("ready", flush=True)
time.sleep(600)
"""


class Holder:
    """A process that holds a device, and nothing else of the same kind."""

    def __init__(self, path: str, how: str, *user: str) -> None:
        # Its own streams must not be devices with the same major, as /dev/null is.
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", HOLD, path, how, *user],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"
        self.pid = self.process.pid

    def close(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def holders() -> Iterator[list[Holder]]:
    started: list[Holder] = []
    yield started
    for holder in started:
        holder.close()


def scan() -> dict[int, dict[str, Any]]:
    rows, _ = holders_reader.scan(MAJORS, NUMBERS, driver=frozenset({1}))
    return {row["pid"]: row for row in rows}


@pytest.mark.parametrize(("how", "is_mapped_only"), [("open", False), ("maps", True)])
def test_a_device_is_held_by_a_descriptor_and_by_a_mapping_after_its_end(
    holders: list[Holder], how: str, is_mapped_only: bool
) -> None:
    holders.append(Holder("/dev/zero", how))
    row = scan()[holders[0].pid]
    assert row["gpus"] == [ADDRESS]
    assert row["is_mapped_only"] is is_mapped_only
    assert row["process"].startswith(f"{holders[0].pid}:")
    assert row["parent"] == os.getpid()
    assert row["group"] == holders[0].pid
    assert row["command"].startswith("python")
    assert HOLD.strip() not in row["command"]


def test_a_child_holds_what_it_was_born_with(holders: list[Holder]) -> None:
    holders.append(Holder("/dev/zero", "forks"))
    rows = [row for row in scan().values() if row["group"] == holders[0].pid]
    assert [row["gpus"] for row in rows] == [[ADDRESS], [ADDRESS]]


def test_a_device_of_the_driver_is_no_gpu(holders: list[Holder]) -> None:
    holders.append(Holder("/dev/full", "open"))
    assert scan()[holders[0].pid]["gpus"] == []


def test_what_holds_nothing_is_not_told(holders: list[Holder], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(4096))
    holders.append(Holder(str(tmp_path / "file"), "maps"))
    assert holders[0].pid not in scan()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
@pytest.mark.parametrize("how", ["open", "maps"])
def test_another_name_is_the_same_device(holders: list[Holder], tmp_path: Path, how: str) -> None:
    """As in a container, whose nodes lie elsewhere and are other files."""
    node = tmp_path / "card"
    os.mknod(node, 0o600 | 0o020000, os.makedev(*ZERO))
    try:
        Path(node).open("rb").close()
    except PermissionError:
        pytest.skip("device nodes cannot be used in this folder")
    holders.append(Holder(str(node), how))
    assert scan()[holders[0].pid]["gpus"] == [ADDRESS]
    node.unlink()  # and when it has no name any more
    assert scan()[holders[0].pid]["gpus"] == [ADDRESS]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_without_root_others_are_hidden_and_not_left_out(holders: list[Holder]) -> None:
    holders.append(Holder("/dev/zero", "open"))

    def look() -> None:
        held = find_held(holders[0].pid, MAJORS, seen=Seen())
        assert held is not None
        assert not held.is_whole
        rows, unread_count = holders_reader.scan(MAJORS, NUMBERS, driver=frozenset({1}))
        assert holders[0].pid not in {row["pid"] for row in rows}
        assert unread_count > 0
        described = describe_process(holders[0].pid)
        assert described is not None
        assert described["user_id"] == 0

    assert as_nobody(look) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
@pytest.mark.parametrize("how", ["open", "maps"])
def test_without_root_ones_own_are_seen(holders: list[Holder], how: str) -> None:
    holders.append(Holder("/dev/zero", how, str(NOBODY)))

    def look() -> None:
        held = find_held(holders[0].pid, MAJORS, seen=Seen())
        assert held is not None
        assert ZERO in held.opened | held.mapped

    assert as_nobody(look) == ""


def test_a_process_that_is_gone_holds_nothing() -> None:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    assert find_held(ended.pid, MAJORS, seen=Seen()) is None
    assert describe_process(ended.pid) is None


def test_names_that_would_move_the_cursor_do_not() -> None:
    process = subprocess.Popen(["\x1b[2Jevil", "600"], executable="/bin/sleep", env={})
    try:
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
            time.sleep(0.01)  # it is just being executed
        described = describe_process(process.pid)
    finally:
        process.kill()
        process.wait()
    assert described is not None
    assert described["command"].isprintable()
    assert "evil" in described["command"]


def test_names_of_listeners_do_not_either() -> None:
    line = "   0: 0100007F:7530 00000000:0000 0A 0:0 00:0 0  1000        0 555 1 0 100 0 0 10 0\n"
    host = MemoryHost({"/proc/net/tcp": f"  sl\n{line}", "/proc/7/comm": "\x1b[2Jx\n"})
    host.put("/proc/7/cmdline", "\x1b]0;evil\a\0serve\0")
    host.put_link("/proc/7/fd/3", "socket:[555]")
    (listener,) = listeners.parse(listeners.read(host, Target()))["listeners"]
    assert str(listener["command"]).isprintable()
    assert "evil" in str(listener["command"])


# What the kernel and the driver write


def driver_tree(folder: Path) -> str:
    """A /proc of a machine with two GPUs, of which one was not started yet."""
    (folder / "devices").write_text(
        "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n238 nvidia-uvm\n"
        "\nBlock devices:\n  9 nvidia-block\n"
    )
    for address, minor, uuid in (("0000:41:00.0", 0, "GPU-aa"), ("0000:61:00.0", 1, "GPU-????")):
        place = folder / "driver/nvidia/gpus" / address
        place.mkdir(parents=True)
        (place / "information").write_text(
            f"Model: \t\t NVIDIA H200\nIRQ:   \t\t 31\nGPU UUID: \t {uuid}\n"
            f"Bus Location: \t {address.upper()}\nDevice Minor: \t {minor}\n"
        )
    return str(folder)


def test_majors_are_read_and_not_remembered(tmp_path: Path) -> None:
    assert holders_reader.read_majors(driver_tree(tmp_path)) == {
        195: frozenset({"nvidia", "nvidiactl"}),
        238: frozenset({"nvidia-uvm"}),
    }
    assert holders_reader.read_majors(str(tmp_path / "nowhere")) == {}


def test_gpus_are_those_that_the_driver_lists(tmp_path: Path) -> None:
    assert holders_reader.read_gpus(driver_tree(tmp_path)) == [
        {"address": "0000:41:00.0", "minor": 0, "uuid": "GPU-aa"},
        {"address": "0000:61:00.0", "minor": 1, "uuid": None},
    ]


def test_graphics_nodes_belong_to_their_gpu(tmp_path: Path) -> None:
    proc = driver_tree(tmp_path)
    (tmp_path / "0000:41:00.0").mkdir()
    for name, numbers in (("card1", "226:1"), ("renderD128", "226:128")):
        (tmp_path / "drm" / name).mkdir(parents=True)
        (tmp_path / "drm" / name / "dev").write_text(f"{numbers}\n")
        (tmp_path / "drm" / name / "device").symlink_to(tmp_path / "0000:41:00.0")
    (tmp_path / "drm" / "version").write_text("drm")
    found = holders_reader.read_holders(proc, str(tmp_path / "drm"))
    assert [gpu["address"] for gpu in found["gpus"]] == ["0000:41:00.0", "0000:61:00.0"]
    assert found["holders"] == []


@pytest.mark.parametrize("text", ["", "Device Minor: many\n", "nonsense", "Device Minor:\n\0: :"])
def test_odd_information_gives_no_number(text: str) -> None:
    gpu = holders_reader.parse_gpu("0000:41:00.0", text)
    assert gpu == {"address": "0000:41:00.0", "minor": None, "uuid": None}


def test_mappings_are_named_as_the_kernel_names_their_links() -> None:
    text = (
        "7f0000001000-7f0000002000 rw-s 00000000 00:05 123    /dev/nvidia0\n"
        "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/a b\n"
        "7ffc0000-7ffd0000 rw-p 00000000 00:00 0 [stack]\n"
        "7ffd0000-7ffe0000 rw-p 00000000 00:00 0\n"
    )
    assert list(parse_maps(text)) == [
        (("00:05", "123", "/dev/nvidia0"), "7f0000001000-7f0000002000", "/dev/nvidia0"),
        (("08:02", "173521", "/usr/bin/a b"), "400000-452000", "/usr/bin/a b"),
    ]


ID = "3f2a9c41d5e6" + "0" * 52


@pytest.mark.parametrize(
    ("text", "unit", "manager", "container"),
    [
        ("0::/system.slice/ollama.service\n", "ollama.service", "system", None),
        ("0::/system.slice/ollama.service/runner\n", "ollama.service", "system", None),
        (
            "5:memory:/else\n1:name=systemd:/system.slice/a@1.service\n",
            "a@1.service",
            "system",
            None,
        ),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", None, None, None),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.service\n",
            "a.service",
            "user",
            None,
        ),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/tmux.scope\n",
            None,
            None,
            None,
        ),
        ("0::/system.slice/ssh.service\n", None, None, None),
        ("0::/system.slice/cron.service\n", None, None, None),
        (f"0::/system.slice/docker-{ID}.scope\n", None, None, "docker 3f2a9c41d5e6"),
        (
            f"9:memory:/docker/{ID}\n1:name=systemd:/docker/{ID}\n",
            None,
            None,
            "docker 3f2a9c41d5e6",
        ),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", None, None, "podman 3f2a9c41d5e6"),
        (
            f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope\n",
            None,
            None,
            "kubernetes 3f2a9c41d5e6",
        ),
        ("0::/lxc.payload.101/system.slice/ollama.service\n", None, None, "lxc 101"),
        ("0::/lxc/101/ns/system.slice/ollama.service\n", None, None, "lxc 101"),
        ("0::/machine.slice/machine-qemu\\x2d1.scope\n", None, None, "machine qemu\\x2d1"),
        ("0::/\n", None, None, None),
        ("", None, None, None),
        ("nonsense", None, None, None),
        ("0::/system.slice/\x1b[2J.service\n", None, None, None),
    ],
)
def test_whose_a_process_is(
    text: str, unit: str | None, manager: str | None, container: str | None
) -> None:
    assert parse_owner(text) == {"unit": unit, "manager": manager, "container": container}


# The probe


def gpu_machine(answer: Any) -> MemoryHost:
    host = MemoryHost({"/dev/nvidiactl": "", "/etc/passwd": "root:x:0:0::/:/bin/sh\n"})
    host.commands = lambda command: answer
    host.put_folder("/sys/bus")
    return host


def test_nothing_is_looked_through_where_no_gpu_can_be() -> None:
    asked: list[Command] = []
    host = MemoryHost(commands=asked.append)
    host.put_folder("/sys/bus")
    assert gpu_holders.parse(gpu_holders.read(host, Target()))["holders"] == []
    host = gpu_machine(None)
    host.commands = asked.append
    assert gpu_holders.parse(gpu_holders.read(host, Target(uses_gpus=False)))["holders"] == []
    assert asked == []


def test_the_probe_asks_a_child_with_a_deadline() -> None:
    asked: list[Command] = []
    told = CommandResult(
        argv=(), exit_status=0, stdout='{"gpus": [], "holders": [], "unread_count": 0}', stderr=""
    )
    host = gpu_machine(None)

    def answer(command: Command) -> CommandResult:
        asked.append(command)
        return told

    host.commands = answer
    assert gpu_holders.parse(gpu_holders.read(host, Target()))["is_whole"] is True
    assert asked[0].argv == (sys.executable, "-P", "-m", "stoker.probes.holders_reader")
    assert asked[0].timeout_seconds == 20.0


def test_the_child_prints_json_on_any_machine() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "stoker.probes.holders_reader"],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert json.loads(done.stdout).keys() == {"gpus", "holders", "unread_count"}


def test_who_uses_memory_is_described_as_far_as_it_is_seen() -> None:
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    rows: list[dict[str, Any]] = [{"pid": os.getpid()}, {"pid": gone.pid}]
    nvml_reader.describe_all({"gpus": [{"processes": rows}, {"processes": None}]})
    assert rows[0]["process"].startswith(f"{os.getpid()}:")
    assert rows[1] == {"pid": gone.pid, "is_holder": None}
    assert nvml_reader.describe_all({"error": "no driver"}) == {"error": "no driver"}
