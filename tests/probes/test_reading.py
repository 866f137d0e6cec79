"""What the probes read, on machines in memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from stoker.errors import AccessDenied, HostError
from stoker.model.facts import Target
from stoker.ports import Command, CommandResult
from stoker.probes import (
    cgroups,
    cpu,
    disk,
    engine,
    gpus,
    interpreters,
    listeners,
    memory,
    pci,
    reach,
    service_manager,
)
from tests.fakes.host import MemoryHost

V1_MOUNTS = (
    "40 30 0:36 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "41 30 0:37 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
BOTH_MOUNTS = (
    "40 30 0:36 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "42 30 0:38 / /sys/fs/cgroup/a\\040b rw - cgroup2 cgroup2 rw\n"
)
V2_MOUNT = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
CPUINFO = "processor\t: 0\ncore id\t: 0\n\nprocessor\t: 1\ncore id\t: 1\n\n"


def result(
    stdout: str, *, exit_status: int = 0, stderr: str = "", timed_out: bool = False
) -> CommandResult:
    return CommandResult(
        argv=(), exit_status=exit_status, stdout=stdout, stderr=stderr, timed_out=timed_out
    )


# Control groups


@pytest.mark.parametrize(
    ("groups", "mounts", "folders"),
    [
        ("0::/a/b\n", V2_MOUNT, ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]),
        ("0::/\n", V2_MOUNT, ["/sys/fs/cgroup"]),
        ("0::/../../x\n", V2_MOUNT, ["/sys/fs/cgroup"]),
        (
            "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n",
            V1_MOUNTS,
            ["/sys/fs/cgroup/cpu,cpuacct"],
        ),
        (
            "4:cpu,cpuacct:/box/inner\n0::/box\n",
            BOTH_MOUNTS,
            [
                "/sys/fs/cgroup/cpu/box/inner",
                "/sys/fs/cgroup/cpu/box",
                "/sys/fs/cgroup/cpu",
                "/sys/fs/cgroup/a b/box",
                "/sys/fs/cgroup/a b",
            ],
        ),
        ("0::/a\n", "", []),
        ("", V2_MOUNT, []),
        ("nonsense", "more nonsense - x", []),
    ],
)
def test_group_folders_from_the_own_group_to_the_mounted_root(
    groups: str, mounts: str, folders: list[str]
) -> None:
    assert list(cgroups.parse_folders(groups, mounts, "cpu")) == folders


def test_the_tightest_limit_above_us_counts() -> None:
    host = MemoryHost(
        {
            "/proc/cpuinfo": CPUINFO,
            "/proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 900 kB\n",
            "/proc/self/cgroup": "0::/a/b\n",
            "/proc/self/mountinfo": V2_MOUNT,
            "/sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            "/sys/fs/cgroup/a/cpu.max": "150000 100000\n",
            "/sys/fs/cgroup/a/memory.max": "204800\n",
            "/sys/fs/cgroup/a/memory.current": "102400\n",
        }
    )
    assert cpu.parse(cpu.read(host, Target()))["quota_cores"] == 1.5
    found = memory.parse(memory.read(host, Target()))
    assert (found["limit_bytes"], found["usable_bytes"]) == (204800, 102400)


def test_a_machine_that_tells_no_groups_has_no_limits() -> None:
    host = MemoryHost(
        {"/proc/cpuinfo": CPUINFO, "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 8 kB\n"}
    )
    assert cpu.parse(cpu.read(host, Target()))["usable_cores"] == 2
    assert memory.parse(memory.read(host, Target()))["usable_bytes"] == 8192


def test_threads_of_one_core_are_counted_once_where_only_sysfs_tells_them() -> None:
    folder = "/sys/devices/system/cpu"
    host = MemoryHost(
        {
            "/proc/cpuinfo": "".join(f"processor\t: {number}\n\n" for number in range(4)),
            **{
                f"{folder}/cpu{number}/topology/thread_siblings_list": f"{number % 2},{number + 2}"
                if number < 2
                else f"{number - 2},{number}"
                for number in range(4)
            },
            f"{folder}/cpufreq/boost": "1",
        }
    )
    assert cpu.parse(cpu.read(host, Target()))["physical_count"] == 2


@pytest.mark.parametrize(
    ("text", "count"), [("0-3,8\n", 5), ("0", 1), ("", 0), ("0-0,2,4-5", 4), ("0-191", 192)]
)
def test_lists_of_cores(text: str, count: int) -> None:
    assert cpu.parse_cpu_list(text) == count


# Disk


def test_free_bytes_of_each_folder() -> None:
    host = MemoryHost(free=77)
    raw = disk.read(host, Target(folders=("/srv/models", "/var/lib/x")))
    assert disk.parse(raw)["folders"]["/srv/models"] == {"free_bytes": 77}


# PCI and GPUs


def gpu_machine(nvml: Any, *, classes: Mapping[str, str], vendor: str = "0x10de") -> MemoryHost:
    host = MemoryHost(commands=lambda _: nvml)
    host.put_folder("/sys/bus/pci/devices")
    for address, class_ in classes.items():
        folder = f"/sys/bus/pci/devices/{address}"
        host.put(f"{folder}/class", f"{class_}\n")
        host.put(f"{folder}/vendor", f"{vendor}\n")
        host.put(f"{folder}/device", "0x2335\n")
    return host


ERROR = '{"error": "Driver Not Loaded"}'


def test_only_display_controllers_count() -> None:
    host = gpu_machine(None, classes={"0000:00:00.0": "0x060000", "0000:00:06.0": "0x030200"})
    host.put_link("/sys/bus/pci/devices/0000:00:06.0/driver", "../../../bus/pci/drivers/vfio-pci")
    assert pci.parse(pci.read(host, Target())) == [
        {
            "address": "0000:00:06.0",
            "vendor": "0x10de",
            "device": "0x2335",
            "class": "0x030200",
            "driver": "vfio-pci",
        }
    ]


def test_a_kernel_without_a_pci_bus_has_no_devices() -> None:
    assert pci.parse(pci.read(MemoryHost({"/sys/bus/usb/x": ""}), Target())) == []
    with pytest.raises(HostError):
        pci.read(MemoryHost(), Target())


def test_no_gpu_is_a_value_only_where_it_is_certain() -> None:
    without = gpu_machine(result(ERROR), classes={"0000:00:01.0": "0x030000"}, vendor="0x1a03")
    assert gpus.parse(gpus.read(without, Target()))["gpus"] == []
    with_one = gpu_machine(result(ERROR), classes={"0000:00:01.0": "0x030200"})
    with pytest.raises(ValueError, match=r"Driver Not Loaded, although .* 0000:00:01\.0"):
        gpus.parse(gpus.read(with_one, Target()))
    blind = MemoryHost(commands=lambda _: result(ERROR))
    with pytest.raises(ValueError, match="PCI bus could not be read"):
        gpus.parse(gpus.read(blind, Target()))


def test_a_driver_that_hangs_or_crashes_says_so() -> None:
    classes = {"0000:00:06.0": "0x030200"}
    hanging = gpu_machine(result("", exit_status=-9, timed_out=True), classes=classes)
    with pytest.raises(HostError, match="did not answer within"):
        gpus.read(hanging, Target())
    crashing = gpu_machine(result("", exit_status=1, stderr="Traceback\nOops\n"), classes=classes)
    with pytest.raises(HostError, match="Oops"):
        gpus.read(crashing, Target())


def test_the_driver_is_asked_where_the_bus_shows_no_gpu_of_its_own() -> None:
    """A container may see the driver's devices and nothing of the bus."""
    host = gpu_machine(result("", exit_status=1, stderr="asked\n"), classes={})
    assert "no driver" in gpus.read(host, Target())["nvml"]
    host.put("/dev/nvidiactl", "")
    with pytest.raises(HostError, match="asked"):
        gpus.read(host, Target())


def test_the_library_is_asked_in_a_child_with_a_deadline_and_our_import_path() -> None:
    commands: list[Command] = []

    def answer(command: Command) -> CommandResult:
        commands.append(command)
        return CommandResult(argv=(), exit_status=0, stdout=ERROR, stderr="")

    gpus.read(MemoryHost(commands=answer), Target())
    (command,) = commands
    assert command.argv == (sys.executable, "-P", "-m", "stoker.probes.nvml_reader")
    assert command.timeout_seconds <= 60
    assert "" not in command.env["PYTHONPATH"].split(":")


# Service manager


def test_nothing_of_the_environment_of_process_1_is_kept_but_the_container() -> None:
    host = MemoryHost(
        {"/proc/1/comm": "systemd\n", "/proc/1/environ": "TOKEN=hunter2\0container=lxc\0"}
    )
    host.put_folder("/run/systemd/system")
    raw = service_manager.read(host, Target())
    assert "hunter2" not in json.dumps(raw)
    assert service_manager.parse(raw) == {
        "pid1": "systemd",
        "systemd_running": True,
        "container": "lxc",
    }


def test_a_marker_tells_a_container() -> None:
    host = MemoryHost({"/proc/1/comm": "sh\n", "/.dockerenv": ""})
    host.denied.add("/proc/1/environ")
    assert service_manager.parse(service_manager.read(host, Target()))["container"] == "docker"


# Listeners

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
LISTENER = "0: 0100007F:7530 00000000:0000 0A 0:0 00:0 0 1000 0 {inode} 1 0 100 0 0 10 0\n"


def machine_with_listener() -> MemoryHost:
    host = MemoryHost(
        {
            "/proc/net/tcp": HEADER + LISTENER.format(inode=99),
            "/etc/passwd": "ann:x:1000:1000::/home/ann:/bin/sh\n",
            "/proc/12/comm": "python3\n",
            "/proc/12/cmdline": "/bin/python3\0-m\0server\0--api-key\0hunter2\0",
            "/proc/13/comm": "python3\n",
        }
    )
    host.put_link("/proc/12/fd/0", "/dev/null")
    host.put_link("/proc/12/fd/3", "socket:[99]")
    host.put_link("/proc/13/fd/3", "socket:[99]")
    host.put_folder("/proc/9/fd")
    host.denied.add("/proc/9/fd")
    return host


def test_the_first_process_with_the_socket_is_named_without_its_secrets() -> None:
    raw = listeners.read(machine_with_listener(), Target())
    assert "hunter2" not in json.dumps(raw)
    assert listeners.parse(raw) == {
        "listeners": [
            {
                "address": "127.0.0.1",
                "port": 30000,
                "pid": 12,
                "command": "python3 /bin/python3 -m server",
                "user": "ann",
            }
        ]
    }


def test_a_process_that_we_may_not_look_into_stays_nameless() -> None:
    host = machine_with_listener()
    host.denied.update({"/proc/12/fd", "/proc/13/fd"})
    (row,) = listeners.parse(listeners.read(host, Target()))["listeners"]
    assert (row["port"], row["pid"], row["command"]) == (30000, None, None)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["llama-server", "-m", "model.gguf", "--api-key", "K"], "x llama-server -m model.gguf"),
        (["server", "-pK"], "x server"),
        (["psql", "postgres://ann:K@db/x"], "x psql"),
        (["env", "TOKEN=K", "server"], "x env"),
        (["one", "two", "three", "four", "five"], "x one two three four"),
        (["y" * 100], "x " + "y" * 78),
        ([], "x"),
    ],
)
def test_commands_are_shown_without_what_may_be_secret(words: list[str], shown: str) -> None:
    assert listeners.shorten_command("x", words) == shown


def test_a_process_that_renamed_itself_hides_its_secrets_too() -> None:
    host = machine_with_listener()
    host.put("/proc/12/cmdline", "server: --api-key hunter2 running")
    assert "hunter2" not in json.dumps(listeners.read(host, Target()))


# Interpreters


def python_machine() -> MemoryHost:
    answers = {
        "/usr/bin/python3": '{"version": [3, 11, 2], "path": "/usr/bin/python3.11"}',
        "/usr/bin/python3.11": '{"version": [3, 11, 2], "path": "/usr/bin/python3.11"}',
        "/usr/bin/python3.9": '{"version": [3, 9, 2], "path": "/usr/bin/python3.9"}',
        "/usr/local/bin/python3.12": '{"version": [3, 12, 1], "path": "/opt/py/bin/python3.12"}',
        "/usr/local/bin/python3.13": "Oops",
    }
    host = MemoryHost(
        dict.fromkeys(answers, ""),
        commands=lambda command: (
            result(answers[command.argv[0]]) if command.argv[0] in answers else None
        ),
    )
    for path in (*answers, "/opt/py/bin/python3.12"):
        host.put(path, "", mode=0o755)
    host.put("/usr/bin/python3-config", "")
    host.set_mode("/opt/py", 0o750)
    return host


def test_interpreters_by_their_real_paths_and_whether_others_may_run_them() -> None:
    raw = interpreters.read(python_machine(), Target())
    assert interpreters.parse(raw) == {
        "interpreters": [
            {"path": "/usr/bin/python3.11", "version": [3, 11, 2], "reachable_by_others": True},
            {"path": "/opt/py/bin/python3.12", "version": [3, 12, 1], "reachable_by_others": False},
        ]
    }


# Engine


def test_the_engine_is_asked_for_its_version() -> None:
    argv = ("/opt/engine/bin/server", "--version")
    host = MemoryHost({argv[0]: ""}, commands={argv: "version: 7\n"})
    raw = engine.read(host, Target(command=argv[:1]))
    answered = {"state": "answered", "version_text": "version: 7", "exit_status": 0}
    assert engine.parse(raw) == answered


def test_root_asks_an_engine_as_the_services_user() -> None:
    commands: list[Command] = []

    def answer(command: Command) -> CommandResult:
        commands.append(command)
        return result("version: 7\n", exit_status=126 if len(commands) > 1 else 0)

    passwd = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65533::/:/bin/false\n"
    files = {"/opt/server": "", "/usr/bin/setpriv": "", "/etc/passwd": passwd}
    host = MemoryHost(files, commands=answer)
    host.set_mode("/usr/bin/setpriv", 0o755)
    target = Target(command=("/opt/server",), user="nobody")
    assert engine.parse(engine.read(host, target))["state"] == "answered"
    identity = ("--reuid=65534", "--regid=65533", "--clear-groups", "--")
    assert commands[0].argv == ("/usr/bin/setpriv", *identity, "/opt/server", "--version")
    assert engine.parse(engine.read(host, target))["state"] == "not-executable"
    with pytest.raises(HostError, match="no such user"):
        engine.read(host, Target(command=("/opt/server",), user="eve"))


def test_an_engine_that_cannot_be_asked_is_a_value() -> None:
    def refuse(command: Command) -> CommandResult:
        raise AccessDenied(f"{command.argv[0]} may not be executed")

    target = Target(command=("/opt/server",))
    assert engine.parse(engine.read(MemoryHost(), target))["state"] == "missing"
    closed = MemoryHost({"/opt/server": ""}, commands=refuse)
    assert engine.parse(engine.read(closed, target))["state"] == "not-executable"
    torn = MemoryHost({"/opt/server": "#!/gone/python"})
    assert engine.parse(engine.read(torn, target))["state"] == "not-executable"


def test_an_engine_that_hangs_says_so() -> None:
    hanging = result("", exit_status=-9, timed_out=True)
    host = MemoryHost({"/opt/server": ""}, commands=lambda _: hanging)
    with pytest.raises(HostError, match="/opt/server did not tell its version"):
        engine.read(host, Target(command=("/opt/server",)))


# Reach


def test_the_first_closed_folder_is_named() -> None:
    host = MemoryHost({"/etc/passwd": "root:x:0:0::/:\nserve:x:9:9::/:\n"})
    host.put_folder("/home/ann", mode=0o750)
    host.put_folder("/srv/models", mode=0o755)
    host.put_folder("/srv/services", mode=0o700, owner="serve")
    folders = ("/home/ann/models", "/srv/models/new", "/srv/services")
    found = reach.parse(reach.read(host, Target(user="serve", folders=folders)))
    assert found == {
        "user": "serve",
        "exists": True,
        "folders": {
            "/home/ann/models": {"reachable": False, "closed_at": "/home/ann"},
            "/srv/models/new": {"reachable": True, "closed_at": None},
            "/srv/services": {"reachable": True, "closed_at": None},
        },
        "programs": {},
    }


def test_an_interpreter_behind_a_link_is_looked_for_too() -> None:
    host = MemoryHost({"/etc/passwd": "serve:x:9:9::/:\n"})
    host.put_folder("/root", mode=0o700)
    host.put("/root/python/bin/python3.11", "ELF", mode=0o755)
    host.put("/srv/engine/bin/vllm", "#!/srv/engine/bin/python3\n", mode=0o755)
    host.put_link("/srv/engine/bin/python3", "/root/python/bin/python3.11")
    target = Target(user="serve", command=("/srv/engine/bin/vllm",))
    programs = reach.parse(reach.read(host, target))["programs"]
    assert programs == {
        "/root/python/bin/python3.11": {"reachable": False, "closed_at": "/root"},
        "/srv/engine/bin/vllm": {"reachable": True, "closed_at": None},
    }


def test_a_user_of_a_directory_service_exists_too() -> None:
    argv = ("/usr/bin/getent", "passwd", "--", "serve")
    host = MemoryHost(commands={argv: "serve:x:70000:70000::/:/bin/false\n"})
    assert reach.parse(reach.read(host, Target(user="serve")))["exists"]
    nobody = MemoryHost(commands={argv: result("", exit_status=2)})
    assert not reach.parse(reach.read(nobody, Target(user="serve")))["exists"]
