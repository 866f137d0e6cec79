"""What a real systemd does beyond the common contract; runs in the lab's containers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import HostError, SupervisorError
from stoker.model.facts import Facts, Target
from stoker.model.launch import DriftKind, Service, ServicePhase, Timing
from stoker.probes.observe import observe
from stoker.supervisors.logs import LARGEST_BYTES
from stoker.supervisors.systemd import SystemdSupervisor
from stoker.supervisors.systemd_unit import SYSTEM_BUS, unit_name
from tests.lab.tree import MARK
from tests.supervisors.worlds import (
    LIVE_PHASES,
    RUN_PROGRAM,
    SystemdWorld,
    await_phase,
    define,
    eventually,
    is_running,
    make_service,
    undefine,
)

if not Path(MARK).exists():
    pytest.skip("runs in the lab's containers, see tests/lab", allow_module_level=True)

needs_no_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a user's manager runs as that user")

UNIT = unit_name("one")
#: Of a service that says by itself when it is ready.
REPORTING = Timing(stop_seconds=1, start_seconds=60)


@pytest.fixture
def world(systemd_world: SystemdWorld) -> SystemdWorld:
    return systemd_world


def put(world: SystemdWorld, *words: str, name: str = "one", **changes: Any) -> Service:
    service = make_service(name, *words, log_path=world.supervisor.log_path(name), **changes)
    define(world, service)
    return service


def run(world: SystemdWorld, *words: str, **changes: Any) -> Service:
    """Start a service, and wait until it says that it is ready."""
    service = put(world, *words, **changes)
    world.supervisor.start(service.name)
    eventually(lambda: "ready" in said(world, service.name))
    return service


def said(world: SystemdWorld, name: str = "one") -> list[str]:
    """The lines of a service's log so far."""
    path = Path(world.supervisor.log_path(name))
    return path.read_text().splitlines() if path.exists() else []


def child_pid(world: SystemdWorld) -> int:
    """The pid of the service's child, once that is ready."""
    eventually(lambda: "child ready" in said(world))
    (line,) = (line for line in said(world) if line.startswith("child ") and line[6:].isdecimal())
    return int(line.removeprefix("child "))


def unit_path(world: SystemdWorld, name: str = "one") -> Path:
    path = Path(world.layout.unit(name))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def put_foreign(world: SystemdWorld) -> str:
    """A unit that somebody else wrote under a name of ours; it runs."""
    text = "[Service]\nExecStart=/bin/sleep 600\n"
    unit_path(world).write_text(text)
    world.systemctl("daemon-reload")
    assert world.systemctl("start", UNIT) == ""
    return text


def edit(world: SystemdWorld, old: str, new: str) -> None:
    """Change the unit on the disk, as a person with an editor would."""
    text = unit_path(world).read_text()
    assert old in text
    unit_path(world).write_text(text.replace(old, new))


class TestWhatTheProgramGets:
    def test_its_arguments_and_its_environment(self, world: SystemdWorld) -> None:
        env = {
            "PERCENT": "100% %h %%",
            "DOLLAR": "$HOME ${HOME} $$",
            "MARKS": "\"it's\" 'so' \\ ; #",
            "LINES": "a\nb\tc\r",
            "WORDS": "zwölf 🔥",
            "EMPTY": "",
        }
        words = ("a b", "$HOME", "${PATH}", "$$", "%n", "-x", ";", "\\", "", "'\"", "a\nb", "é🔥")
        service = run(world, *words, env=env)
        given = json.loads(said(world)[0])
        stamps = {
            "STOKER_DIGEST": service.digest,
            "STOKER_DEPLOYMENT": "one",
            "STOKER_HOME": world.home,
        }
        assert given["argv"] == list(words)
        assert given["env"].items() >= {**env, **stamps}.items()
        assert world.supervisor.state("one").digest == service.digest

    def test_its_output_and_errors_go_to_its_log(self, world: SystemdWorld) -> None:
        put(world, argv=("/bin/sh", "-c", "echo out; echo err >&2; exec sleep 60"))
        for _ in range(2):
            world.supervisor.restart("one")
        eventually(lambda: sorted(said(world)) == ["err", "err", "out", "out"])

    def test_its_log_may_have_any_name(self, world: SystemdWorld) -> None:
        log = Path(f"{world.logs}/100 %h é \"'$HOME;#\\ .log")
        service = make_service("one", argv=("/bin/sh", "-c", "echo out"), log_path=str(log))
        define(world, service)
        world.supervisor.start("one")
        eventually(lambda: log.exists() and log.read_text() == "out\n")

    @needs_root
    def test_its_user_need_not_reach_the_log(self, world: SystemdWorld) -> None:
        put(world, argv=("/bin/sh", "-c", "id -un; exec sleep 60"), user="nobody")
        world.supervisor.start("one")
        eventually(lambda: said(world) == ["nobody"])
        assert Path(world.home).stat().st_mode & 0o777 == 0o700
        assert Path(world.logs).stat().st_mode & 0o777 == 0o700

    @needs_root
    @pytest.mark.parametrize("user", [None, "nobody"])
    def test_it_writes_to_its_folder_and_to_nothing_else(
        self, world: SystemdWorld, user: str | None
    ) -> None:
        place = f"/opt/lab-{os.getpid()}"
        script = (
            'for folder in "$PWD" /tmp /dev/shm /var/lib /var/cache /usr /etc /root /opt; do '
            'if touch "$folder/x" 2>/dev/null; then rm "$folder/x"; echo "$folder"; fi; done; '
            "exec sleep 60"
        )
        put(world, argv=("/bin/sh", "-c", script), directory=f"{place}/work", user=user)
        try:
            world.supervisor.start("one")
            eventually(lambda: len(said(world)) >= 3)
            assert said(world) == [f"{place}/work", "/tmp", "/dev/shm"]
            assert Path(place, "work").owner() == (user or "root")
        finally:
            shutil.rmtree(place)

    @needs_root
    @pytest.mark.parametrize("user", [None, "nobody"])
    def test_a_link_is_no_folder_of_its_own(self, world: SystemdWorld, user: str | None) -> None:
        Path(world.place).mkdir()
        Path(world.place, "work").symlink_to("/etc")
        put(world, directory=f"{world.place}/work", user=user)
        with pytest.raises((SupervisorError, HostError), match="link"):
            world.supervisor.start("one")
        assert world.supervisor.state("one").phase is ServicePhase.STOPPED

    def test_it_has_no_privilege(self, world: SystemdWorld) -> None:
        run(world)
        pid = world.supervisor.state("one").pid
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"
        if os.geteuid() == 0:
            assert int(status["CapBnd"], 16) == 0

    def test_code_may_be_compiled_while_it_runs(self, world: SystemdWorld) -> None:
        script = "import mmap; mmap.mmap(-1, 4096, prot=7); print('compiled', flush=True)"
        put(world, argv=(*RUN_PROGRAM[:-1], "-c", script), restart="never")
        world.supervisor.start("one")
        eventually(lambda: said(world) == ["compiled"])


class TestBoot:
    def links(self, world: SystemdWorld) -> list[str]:
        folder = Path(world.layout.wants_folder)
        found = folder.iterdir() if folder.exists() else ()
        return [path.name for path in found if path.name.startswith("stoker-")]

    def test_what_is_defined_so_is_enabled(self, world: SystemdWorld) -> None:
        put(world)
        put(world, name="two", on_boot=False)
        for _ in range(2):
            world.supervisor.reload()
            assert self.links(world) == [UNIT]
        assert world.systemctl("is-enabled", UNIT) == "enabled\n"

    def test_it_follows_the_definition(self, world: SystemdWorld) -> None:
        put(world)
        world.supervisor.reload()
        put(world, on_boot=False)
        world.supervisor.reload()
        assert self.links(world) == []
        put(world)
        world.supervisor.reload()
        assert self.links(world) == [UNIT]

    def test_it_goes_with_the_definition(self, world: SystemdWorld) -> None:
        service = put(world)
        world.supervisor.start("one")
        world.supervisor.reload()
        undefine(world, service)
        world.supervisor.reload()
        assert self.links(world) == []
        assert UNIT not in world.systemctl("list-units", "--all")

    def test_a_link_that_a_crash_left_behind_goes_too(self, world: SystemdWorld) -> None:
        service = put(world)
        world.supervisor.reload()
        undefine(world, service)
        world.systemctl("daemon-reload")
        world.supervisor.reload()
        assert self.links(world) == []


class TestReload:
    def test_a_service_is_stopped_that_systemd_has_forgotten_before_us(
        self, world: SystemdWorld
    ) -> None:
        service = run(world)
        state = world.supervisor.state("one")
        undefine(world, service)
        world.systemctl("daemon-reload")
        assert world.supervisor.state("one").process == state.process
        world.supervisor.reload()
        assert not is_running(state.pid)
        assert world.supervisor.state("one").phase is ServicePhase.ABSENT


class TestStop:
    def test_a_deaf_process_and_its_children_are_ended(self, world: SystemdWorld) -> None:
        run(world, "deaf", "detached-child")
        leader, child = world.supervisor.state("one").pid, child_pid(world)
        world.supervisor.stop("one")
        assert not is_running(leader)
        assert not is_running(child)
        assert world.supervisor.state("one").phase is ServicePhase.STOPPED

    def test_it_is_seen_while_it_lasts_and_may_be_followed_by_a_start(
        self, world: SystemdWorld
    ) -> None:
        run(world, "deaf", timing=Timing(stop_seconds=2))
        before = world.supervisor.state("one")
        world.systemctl("stop", "--no-block", UNIT)
        assert await_phase(world, "one", ServicePhase.STOPPING).process == before.process
        world.supervisor.start("one")
        after = world.supervisor.state("one")
        assert after.phase in LIVE_PHASES
        assert after.process != before.process

    def test_a_service_that_waits_for_its_next_try_is_stopped(self, world: SystemdWorld) -> None:
        put(world, "fails")
        world.supervisor.start("one")
        await_phase(world, "one", ServicePhase.BACKOFF)
        world.supervisor.stop("one")
        assert world.supervisor.state("one").phase is ServicePhase.STOPPED

    def test_strange_names_reach_no_service(self, world: SystemdWorld) -> None:
        run(world)
        for name in ("*", "one.service", "../one", "", "one@two"):
            world.supervisor.stop(name)
            assert world.supervisor.state(name).phase is ServicePhase.ABSENT
        assert world.supervisor.state("one").phase in LIVE_PHASES


class TestEndings:
    def test_a_good_end_is_a_stop(self, world: SystemdWorld) -> None:
        put(world, "ends-well")
        world.supervisor.start("one")
        await_phase(world, "one", ServicePhase.STOPPED)

    def test_a_bad_end_is_a_failure(self, world: SystemdWorld) -> None:
        put(world, "fails", restart="never")
        world.supervisor.start("one")
        assert "status 3" in await_phase(world, "one", ServicePhase.FAILED).detail

    def test_a_killed_process_is_started_again(self, world: SystemdWorld) -> None:
        run(world)
        before = world.supervisor.state("one")
        os.kill(before.pid, signal.SIGKILL)
        assert "SIGKILL" in await_phase(world, "one", ServicePhase.BACKOFF).detail
        after = await_phase(world, "one", ServicePhase.RUNNING)
        assert after.process != before.process

    def test_its_children_do_not_outlive_it(self, world: SystemdWorld) -> None:
        run(world, "detached-child", restart="never")
        child = child_pid(world)
        os.kill(world.supervisor.state("one").pid, signal.SIGKILL)
        await_phase(world, "one", ServicePhase.FAILED)
        assert not is_running(child)

    def test_a_crash_loop_ends_at_the_limit_and_says_why(self, world: SystemdWorld) -> None:
        put(world, "fails")
        world.supervisor.start("one")
        detail = await_phase(world, "one", ServicePhase.FAILED).detail
        assert detail == "exited with status 3; systemd gave up after 5 starts"
        assert len([line for line in said(world) if line.startswith("{")]) == 5

    def test_starts_by_hand_do_not_count(self, world: SystemdWorld) -> None:
        put(world)
        for _ in range(7):
            world.supervisor.restart("one")
        assert world.supervisor.state("one").phase in LIVE_PHASES

    @needs_root
    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"argv": ("/no/such/program",)}, "could not be executed"),
            ({"user": "nobody-of-that-name"}, "user does not exist"),
        ],
    )
    def test_a_start_that_cannot_be_is_explained_and_not_tried_again(
        self, world: SystemdWorld, changes: dict[str, Any], reason: str
    ) -> None:
        put(world, **changes)
        with pytest.raises(SupervisorError, match=reason) as caught:
            world.supervisor.start("one")
        assert "Failed at step" in caught.value.summary, "systemd's own words are not told"
        assert world.supervisor.state("one").phase is ServicePhase.STOPPED

    def test_a_later_start_that_cannot_be_is_explained_too(self, world: SystemdWorld) -> None:
        program = Path(world.place, "program")
        program.parent.mkdir()
        program.write_text("#!/bin/sh\nsleep 1; exit 3\n")
        program.chmod(0o755)
        put(world, argv=(str(program),))
        world.supervisor.start("one")
        program.unlink()
        told = "could not be executed (status 203)"
        eventually(lambda: told in world.supervisor.state("one").detail)
        assert "Failed at step EXEC" in world.supervisor.state("one").detail

    def test_what_it_said_last_is_told(self, world: SystemdWorld) -> None:
        script = "systemd-notify --status='stalled: no progress'; sleep 0.2; exit 90"
        put(world, argv=("/bin/sh", "-c", script), restart="never", timing=REPORTING)
        edit(world, "NotifyAccess=main", "NotifyAccess=all")
        world.supervisor.start("one")
        detail = await_phase(world, "one", ServicePhase.FAILED).detail
        assert detail == "exited with status 90; it said last: stalled: no progress"


class TestReadiness:
    @pytest.fixture
    def flag(self) -> Iterator[Path]:
        """A file that a service can see, unlike those in /tmp."""
        path = Path(f"/dev/shm/stoker-flag-{os.getpid()}")
        yield path
        path.unlink(missing_ok=True)

    def test_a_start_does_not_wait_until_a_service_says_that_it_is_ready(
        self, world: SystemdWorld, flag: Path
    ) -> None:
        script = (
            "systemd-notify --status='loading weights 62 %'; "
            f"until [ -e {flag} ]; do sleep 0.05; done; systemd-notify --ready; exec sleep 60"
        )
        put(world, argv=("/bin/sh", "-c", script), timing=REPORTING)
        # Of the shell's children the tool alone can speak.
        edit(world, "NotifyAccess=main", "NotifyAccess=all")
        world.supervisor.start("one")
        state = world.supervisor.state("one")
        assert (state.phase, state.digest) == (ServicePhase.STARTING, "d1")
        eventually(lambda: world.supervisor.state("one").detail == "loading weights 62 %")
        flag.touch()
        assert await_phase(world, "one", ServicePhase.RUNNING).process == state.process


class TestDrift:
    def sentences(self, world: SystemdWorld, service: Service) -> dict[DriftKind, str]:
        return {each.kind: each.sentence for each in world.supervisor.find_drift(service)}

    def test_an_edited_unit_is_told_of_and_taken_at_the_next_start(
        self, world: SystemdWorld
    ) -> None:
        service = run(world, env={"MODE": "slow"})
        edit(world, "MODE=slow", "MODE=fast")
        drift = self.sentences(world, service)
        assert set(drift) == {DriftKind.EDITED, DriftKind.UNREAD}
        assert str(unit_path(world)) in drift[DriftKind.EDITED]
        world.systemctl("daemon-reload")
        assert set(self.sentences(world, service)) == {DriftKind.EDITED}
        world.supervisor.restart("one")
        drift = self.sentences(world, service)
        assert set(drift) == {DriftKind.EDITED, DriftKind.PROCESS}
        assert "had been edited" in drift[DriftKind.PROCESS]
        define(world, service)
        world.supervisor.reload()
        drift = self.sentences(world, service)
        assert set(drift) == {DriftKind.PROCESS}
        assert "MODE differ" in drift[DriftKind.PROCESS]

    def test_a_unit_that_systemd_has_not_read_again(self, world: SystemdWorld) -> None:
        service = run(world)
        define(world, service)
        assert set(self.sentences(world, service)) == {DriftKind.UNREAD}
        world.supervisor.reload()
        assert self.sentences(world, service) == {}

    def test_a_process_that_is_older_than_its_unit(self, world: SystemdWorld) -> None:
        run(world, env={"MODE": "slow"})
        service = put(world, env={"MODE": "fast"})
        world.supervisor.reload()
        assert set(self.sentences(world, service)) == {DriftKind.PROCESS}
        world.supervisor.restart("one")
        assert self.sentences(world, service) == {}

    def test_a_drop_in_is_named_before_and_after_it_is_read(self, world: SystemdWorld) -> None:
        service = run(world, env={"MODE": "slow"})
        drop_in = Path(f"{unit_path(world)}.d", "more memory.conf")
        drop_in.parent.mkdir()
        drop_in.write_text("[Service]\nEnvironment=MODE=fast\n")
        assert DriftKind.UNREAD in self.sentences(world, service)
        world.systemctl("daemon-reload")
        drift = self.sentences(world, service)
        assert set(drift) == {DriftKind.ADDED, DriftKind.PROCESS}
        assert str(drop_in) in drift[DriftKind.ADDED]
        world.supervisor.restart("one")
        assert set(self.sentences(world, service)) == {DriftKind.ADDED}

    def test_what_changes_every_service_is_not_about_ours(self, world: SystemdWorld) -> None:
        folder = Path(world.layout.unit_folder, "service.d")
        service = run(world)
        folder.mkdir()
        try:
            (folder / "all.conf").write_text("[Service]\nTimeoutStopFailureMode=abort\n")
            world.systemctl("daemon-reload")
            assert self.sentences(world, service) == {}
        finally:
            shutil.rmtree(folder)
            world.systemctl("daemon-reload")

    def test_a_unit_that_became_nonsense_is_an_error(self, world: SystemdWorld) -> None:
        run(world)
        before = world.supervisor.state("one").process
        edit(world, "ExecStart=", "X-ExecStart=")
        with pytest.raises(SupervisorError, match="cannot load"):
            world.supervisor.restart("one")
        assert world.supervisor.state("one").process == before


class TestForeign:
    def test_a_unit_of_somebody_else_is_never_touched(self, world: SystemdWorld) -> None:
        text = put_foreign(world)
        before = world.systemctl("show", "--property=MainPID", UNIT)
        for act in (world.supervisor.start, world.supervisor.restart, world.systemd.check_foreign):
            with pytest.raises(SupervisorError, match="belongs to somebody else"):
                act("one")
        world.supervisor.stop("one")
        world.supervisor.reload()
        state = world.supervisor.state("one")
        assert (state.phase, state.pid) == (ServicePhase.ABSENT, 0)
        assert "belongs to somebody else" in state.detail
        assert unit_path(world).read_text() == text
        assert world.systemctl("show", "--property=MainPID", UNIT) == before

    def test_one_that_has_lost_its_file_is_not_either(self, world: SystemdWorld) -> None:
        put_foreign(world)
        unit_path(world).unlink()
        world.supervisor.stop("one")
        world.supervisor.reload()
        with pytest.raises(SupervisorError, match="belongs to somebody else"):
            world.systemd.check_foreign("one")
        assert world.systemctl("is-active", UNIT) == "active\n"
        world.systemctl("stop", UNIT)

    def test_another_state_folder_is_somebody_else(
        self, world: SystemdWorld, tmp_path: Path
    ) -> None:
        other_folder = tmp_path / "other"
        other_folder.mkdir()
        other = SystemdWorld(other_folder)
        run(world)
        before = world.supervisor.state("one")
        with pytest.raises(SupervisorError, match="belongs to somebody else"):
            other.systemd.check_foreign("one")
        other.supervisor.reload()
        other.supervisor.stop("one")
        assert other.supervisor.state("one").phase is ServicePhase.ABSENT
        assert world.supervisor.state("one") == before

    def test_our_own_and_nothing_are_not_foreign(self, world: SystemdWorld) -> None:
        world.systemd.check_foreign("one")
        run(world)
        world.systemd.check_foreign("one")

    def test_a_masked_unit_stays_masked(self, world: SystemdWorld) -> None:
        unit_path(world).symlink_to("/dev/null")
        world.systemctl("daemon-reload")
        for act in (world.supervisor.start, world.supervisor.restart, world.systemd.check_foreign):
            with pytest.raises(SupervisorError, match="masked") as caught:
                act("one")
            assert f"unmask {UNIT}" in caught.value.hint
        world.supervisor.reload()
        state = world.supervisor.state("one")
        assert (state.phase, "masked" in state.detail) == (ServicePhase.ABSENT, True)
        assert unit_path(world).is_symlink()


class TestLog:
    def test_a_large_one_gives_way_at_a_start(self, world: SystemdWorld) -> None:
        log = Path(world.supervisor.log_path("one"))
        log.parent.mkdir()
        log.write_text("old\n")
        os.truncate(log, LARGEST_BYTES + 1)
        run(world)
        assert log.stat().st_size < LARGEST_BYTES
        assert log.with_name("one.log.1").stat().st_size == LARGEST_BYTES + 1
        before = said(world)
        world.supervisor.restart("one")
        eventually(lambda: len(said(world)) > len(before))
        assert said(world)[: len(before)] == before

    def test_the_manager_has_its_own_words(self, world: SystemdWorld) -> None:
        run(world)
        world.supervisor.stop("one")
        messages = world.supervisor.read_messages("one", 20)
        assert any("Stopped" in message for message in messages), messages


class TestSandbox:
    """What the probe finds in a container that lets services have everything."""

    def test_everything_works_and_the_unit_has_it(self, world: SystemdWorld) -> None:
        target = Target(trial=world.supervisor.describe_trial())
        facts = observe(
            world.host,
            target,
            stoker_version="0",
            now_seconds=0,
            only=frozenset({"service_sandbox"}),
        )
        layers = facts.read("service_sandbox.layers")
        assert layers == dict.fromkeys(world.layout.layers, "works"), facts
        service = make_service("one", log_path="/log")
        fitted = world.supervisor.fit("one", facts)
        assert fitted.render(service) == world.supervisor.render(service)

    def test_where_nothing_is_known_the_present_unit_decides(self, world: SystemdWorld) -> None:
        narrow = world.adapter(layers=world.layout.layers - {"limit"})
        service = make_service("one", log_path=world.supervisor.log_path("one"))
        for path, image in narrow.render(service).items():
            world.host.write_file(path, (image.content or "").encode(), image.mode)
        fitted = world.supervisor.fit("one", Facts(host="here", stoker_version="0"))
        assert fitted.render(service) == narrow.render(service)


class TestOrphans:
    def test_what_has_left_the_control_group_is_found(self, world: SystemdWorld) -> None:
        run(world)
        stamps = {"STOKER_DEPLOYMENT": "one", "STOKER_HOME": world.home, "STOKER_DIGEST": "d7"}
        with subprocess.Popen([*RUN_PROGRAM], env=stamps, stdout=subprocess.PIPE) as other:
            try:
                assert other.stdout is not None
                other.stdout.readline()
                (orphan,) = world.supervisor.find_orphans("one")
                assert (orphan.pid, orphan.digest) == (other.pid, "d7")
                assert orphan.phase is ServicePhase.UNKNOWN
            finally:
                other.kill()
        assert world.supervisor.find_orphans("one") == ()


class TestPermission:
    @needs_no_root
    def test_who_may_not_is_told_what_to_run(self, world: SystemdWorld) -> None:
        put(world)
        adapter = world.adapter(scope="system", bus_address=SYSTEM_BUS)
        for act in (adapter.start, adapter.restart):
            with pytest.raises(SupervisorError, match="does not let this user") as caught:
                act("one")
            assert caught.value.hint.endswith("sudo systemctl daemon-reload")
        assert adapter.state("two").phase is ServicePhase.ABSENT

    @needs_no_root
    def test_the_machines_services_are_for_root_alone(self, world: SystemdWorld) -> None:
        adapter = world.adapter(scope="system", bus_address=SYSTEM_BUS)
        with pytest.raises(SupervisorError, match="root alone") as caught:
            adapter.check_usable()
        assert "sudo stoker" in caught.value.hint

    @needs_no_root
    def test_a_bus_of_somebody_else(self, world: SystemdWorld) -> None:
        adapter = world.adapter(bus_address="unix:path=/proc/1/root/bus")
        with pytest.raises(SupervisorError, match="Permission denied") as caught:
            adapter.check_usable()
        assert "sudo stoker" in caught.value.hint

    def test_a_service_at_boot_needs_a_manager_at_boot(self, world: SystemdWorld) -> None:
        lingers = world.adapter(linger="/etc/passwd").properties.starts_on_boot
        assert lingers is True
        does_not = world.adapter(linger="/no/such/file").properties.starts_on_boot
        assert does_not is (os.geteuid() == 0)


class TestUnreachable:
    def adapter(self, world: SystemdWorld, **changes: Any) -> SystemdSupervisor:
        return world.adapter(bus_address="unix:path=/nowhere/bus", **changes)

    def test_it_cannot_be_used_and_what_to_do_is_said(self, world: SystemdWorld) -> None:
        with pytest.raises(SupervisorError, match="cannot be reached") as caught:
            self.adapter(world).check_usable()
        hint = "apt install dbus" if os.geteuid() == 0 else "enable-linger"
        assert hint in caught.value.hint

    def test_only_the_file_can_differ(self, world: SystemdWorld) -> None:
        service = run(world)
        blind = self.adapter(world)
        assert blind.find_drift(service) == ()
        edit(world, "Restart=on-failure", "Restart=no")
        assert [each.kind for each in blind.find_drift(service)] == [DriftKind.EDITED]

    def test_nobody_can_be_asked_to_start(self, world: SystemdWorld) -> None:
        put(world)
        blind = self.adapter(world)
        for act in (blind.start, blind.restart):
            with pytest.raises(SupervisorError, match="cannot be reached") as caught:
                act("one")
            assert "is-system-running" in caught.value.hint
        with pytest.raises(SupervisorError, match="cannot be reached"):
            blind.reload()

    def test_what_does_not_run_is_stopped(self, world: SystemdWorld) -> None:
        put(world)
        blind = self.adapter(world)
        blind.stop("one")
        assert blind.state("one").phase is ServicePhase.STOPPED
        assert blind.state("two").phase is ServicePhase.ABSENT

    def test_what_runs_is_not_known(self, world: SystemdWorld) -> None:
        run(world)
        blind = self.adapter(world)
        state = blind.state("one")
        assert (state.phase, state.digest) == (ServicePhase.UNKNOWN, "d1")
        assert "cannot be reached" in state.detail
        assert blind.find_orphans("one") == ()
        with pytest.raises(SupervisorError, match="cannot be reached"):
            blind.stop("one")
