"""What a real supervisord does beyond the common contract, and what it is kept from doing."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import SupervisorError
from stoker.model.launch import DriftKind, Service, ServicePhase
from stoker.supervisors.supervisord_client import (
    ENDED_STATES,
    Fault,
    ProgramState,
    SupervisordClient,
    SupervisordDown,
    SupervisordRefused,
)
from tests.supervisors.worlds import (
    LIVE_PHASES,
    RUN_PROGRAM,
    SupervisordWorld,
    await_phase,
    define,
    eventually,
    is_running,
    make_service,
    undefine,
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the user")


@pytest.fixture
def world(supervisord_world: SupervisordWorld) -> SupervisordWorld:
    return supervisord_world


def put(world: SupervisordWorld, *words: str, name: str = "one", **changes: Any) -> Service:
    log_path = world.supervisor.log_path(name)
    service = make_service(name, *words, log_path=log_path, **changes)
    define(world, service)
    return service


def run(world: SupervisordWorld, *words: str, **changes: Any) -> Service:
    """Start a service, and wait until it says that it is ready."""
    service = put(world, *words, **changes)
    world.supervisor.start(service.name)
    eventually(lambda: "ready" in said(world, service.name))
    return service


def said(world: SupervisordWorld, name: str = "one") -> list[str]:
    """The lines of a service's log so far."""
    path = Path(world.supervisor.log_path(name))
    return path.read_text().splitlines() if path.exists() else []


def child_pid(world: SupervisordWorld) -> int:
    """The pid of the service's child, once that is ready."""
    eventually(lambda: "child ready" in said(world))
    (line,) = (line for line in said(world) if line.startswith("child ") and line[6:].isdecimal())
    return int(line.removeprefix("child "))


class TestDrift:
    def kinds(self, world: SupervisordWorld, service: Service) -> list[DriftKind]:
        return [each.kind for each in world.supervisor.find_drift(service)]

    def edit(self, world: SupervisordWorld, old: str, new: str) -> None:
        path = Path(world.layout.program("one"))
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def test_a_file_that_was_edited_under_a_running_service(self, world: SupervisordWorld) -> None:
        service = run(world)
        self.edit(world, "stopsignal=TERM", "stopsignal=INT")
        assert self.kinds(world, service) == [DriftKind.EDITED, DriftKind.UNREAD]
        define(world, service)
        assert self.kinds(world, service) == []

    def test_a_file_that_the_daemon_has_not_taken_up(self, world: SupervisordWorld) -> None:
        service = run(world)
        self.edit(world, "stopsignal=TERM", "stopsignal=INT")
        world.supervisor.restart("one")
        define(world, service)
        # Only a restart makes the daemon take up the file of a program that runs.
        assert self.kinds(world, service) == [DriftKind.PENDING]
        (pending,) = world.supervisor.find_drift(service)
        assert "it will with the next start" in pending.sentence
        world.supervisor.restart("one")
        assert self.kinds(world, service) == []

    def test_one_of_a_stopped_service_is_taken_up_by_a_reload(
        self, world: SupervisordWorld
    ) -> None:
        service = run(world)
        world.supervisor.stop("one")
        self.edit(world, "stopsignal=TERM", "stopsignal=INT")
        assert self.kinds(world, service) == [DriftKind.EDITED, DriftKind.UNREAD]
        define(world, service)
        assert self.kinds(world, service) == []

    def test_a_file_that_cannot_be_read_as_one(self, world: SupervisordWorld) -> None:
        service = run(world)
        self.edit(world, "stopsignal=TERM", "stopsignal=NONSENSE")
        (edit, unread) = world.supervisor.find_drift(service)
        assert (edit.kind, unread.kind) == (DriftKind.EDITED, DriftKind.UNREAD)
        assert "cannot read its configuration" in unread.sentence

    def test_a_process_of_an_edited_file(self, world: SupervisordWorld) -> None:
        service = put(world, env={"MODE": "slow"})
        self.edit(world, "slow", "fast")
        world.supervisor.start("one")
        define(world, service)
        drift = world.supervisor.find_drift(service)
        assert [each.kind for each in drift] == [DriftKind.PROCESS, DriftKind.PENDING]
        assert "MODE differ" in drift[0].sentence


def test_the_daemon_tells_of_a_service(world: SupervisordWorld) -> None:
    run(world)
    put(world, name="one-more")
    world.supervisor.start("one-more")
    messages = world.supervisor.read_messages("one", 9)
    assert any("spawned: 'one'" in message for message in messages)
    assert not any("one-more" in message for message in messages)


class TestWhatTheProgramGets:
    def test_its_arguments_and_nothing_but_its_environment(self, world: SupervisordWorld) -> None:
        env = {
            "PLAIN": "1",
            "COMMA": "a,b=c",
            "COMMENT": "a ;b #c",
            "MARKS": "\"it's\" 'so'",
            "PERCENT": "100% %(here)s %s",
            "SLASH": "C:\\",
            "WORDS": "zwölf 🔥",
            "EMPTY": "",
        }
        words = ("a b", "it's", '"', "%d", "; x", "\\", "", '{"method": "ngram"}', "é")
        service = run(world, *words, env=env)
        given = json.loads(said(world)[0])
        stamps = {
            "STOKER_DIGEST": service.digest,
            "STOKER_DEPLOYMENT": "one",
            "STOKER_HOME": world.home,
        }
        left = {name: value for name, value in given["env"].items() if name not in env | stamps}
        assert given["argv"] == list(words)
        assert given["env"].items() >= {**env, **stamps}.items()
        assert {name for name in left if not name.startswith("SUPERVISOR_")} <= {
            "PATH",
            "LANG",
            "LC_CTYPE",  # set by the interpreter of the program
        }
        assert world.supervisor.state("one").digest == service.digest

    def test_its_output_and_errors_go_to_its_log(self, world: SupervisordWorld) -> None:
        put(world, argv=("/bin/sh", "-c", "echo out; echo err >&2; exec sleep 60"))
        world.supervisor.start("one")
        eventually(lambda: sorted(said(world)) == ["err", "out"])

    def test_its_directory_and_umask(self, world: SupervisordWorld, tmp_path: Path) -> None:
        folder = tmp_path / "a % b"
        folder.mkdir()
        script = "umask; pwd; exec sleep 60"
        put(world, argv=("/bin/sh", "-c", script), directory=str(folder))
        world.supervisor.start("one")
        eventually(lambda: said(world) == ["0022", str(folder)])

    @needs_root
    def test_its_user(self, world: SupervisordWorld) -> None:
        put(world, argv=("/bin/sleep", "60"), user="nobody")
        world.supervisor.start("one")
        status = Path(f"/proc/{world.supervisor.state('one').pid}").stat()
        assert status.st_uid != 0
        assert Path(world.supervisor.log_path("one")).stat().st_uid == 0


class TestStop:
    def test_a_deaf_process_and_its_child_are_ended(self, world: SupervisordWorld) -> None:
        run(world, "deaf", "deaf-child")
        leader, child = world.supervisor.state("one").pid, child_pid(world)
        world.supervisor.stop("one")
        assert not is_running(leader)
        assert not is_running(child)
        assert world.supervisor.state("one").phase is ServicePhase.STOPPED

    @pytest.mark.parametrize("kind", ["deaf-child", "detached-child"])
    def test_a_child_that_outlives_its_parent_is_ended(
        self, world: SupervisordWorld, kind: str
    ) -> None:
        run(world, kind)
        child = child_pid(world)
        world.supervisor.stop("one")
        assert not is_running(child)

    def test_a_restart_leaves_nothing_of_the_old_process(self, world: SupervisordWorld) -> None:
        run(world, "deaf-child")
        child = child_pid(world)
        world.supervisor.restart("one")
        assert not is_running(child)
        assert world.supervisor.find_orphans("one") == ()

    def test_a_service_that_waits_for_its_next_try_is_stopped(
        self, world: SupervisordWorld
    ) -> None:
        put(world, "fails")
        world.supervisor.start("one")
        await_phase(world, "one", ServicePhase.BACKOFF)
        world.supervisor.stop("one")
        assert world.supervisor.state("one").phase is ServicePhase.STOPPED

    def test_a_service_that_is_being_stopped_is_started_again(
        self, world: SupervisordWorld
    ) -> None:
        run(world, "deaf")
        before = world.supervisor.state("one")
        SupervisordClient(world.layout.socket_path).stop("one")
        assert world.supervisor.state("one").phase is ServicePhase.STOPPING
        world.supervisor.start("one")
        after = world.supervisor.state("one")
        assert after.phase in LIVE_PHASES
        assert after.process != before.process

    def test_strange_names_reach_no_other_service(self, world: SupervisordWorld) -> None:
        run(world)
        for name in ("one:*", "*", "one:one", "../one", ""):
            world.supervisor.stop(name)
            assert world.supervisor.state(name).phase is ServicePhase.ABSENT
        assert world.supervisor.state("one").phase in LIVE_PHASES


class TestEndings:
    def test_a_good_end_is_a_stop(self, world: SupervisordWorld) -> None:
        put(world, "ends-well")
        world.supervisor.start("one")
        state = await_phase(world, "one", ServicePhase.STOPPED)
        assert "status 0" in state.detail

    def test_a_bad_end_is_a_failure(self, world: SupervisordWorld) -> None:
        put(world, "ends-badly", restart="never")
        world.supervisor.start("one")
        state = await_phase(world, "one", ServicePhase.FAILED)
        assert "status 3" in state.detail

    def test_a_killed_process_is_a_failure(self, world: SupervisordWorld) -> None:
        put(world, restart="never")
        world.supervisor.start("one")
        running = await_phase(world, "one", ServicePhase.RUNNING)
        os.kill(running.pid, signal.SIGKILL)
        assert "signal" in await_phase(world, "one", ServicePhase.FAILED).detail

    def test_a_process_that_will_be_started_again_has_not_failed(
        self, world: SupervisordWorld
    ) -> None:
        put(world, digest="d1")
        world.supervisor.start("one")
        before = await_phase(world, "one", ServicePhase.RUNNING)
        put(world, digest="d2")
        world.supervisor.reload()
        os.kill(before.pid, signal.SIGKILL)
        seen = [before]
        # Without a pause, or the moment in which supervisord has not made up its mind is missed.
        while seen[-1].process in ("", before.process) or not seen[-1].digest:
            seen.append(world.supervisor.state("one"))
        assert ServicePhase.FAILED not in {state.phase for state in seen}
        assert seen[-1].digest == "d1"  # the manager restarts what it knows


class TestOrphans:
    def test_children_are_found_too(self, world: SupervisordWorld) -> None:
        run(world, "detached-child")
        pids = {world.supervisor.state("one").pid, child_pid(world)}
        assert world.supervisor.find_orphans("one") == ()
        world.kill_manager()
        orphans = world.supervisor.find_orphans("one")
        assert {orphan.pid for orphan in orphans} == pids
        for orphan in orphans:
            assert world.host.end_process(orphan.pid, orphan.process, 0.2)
        assert world.supervisor.find_orphans("one") == ()

    def test_a_child_that_a_crash_left_behind_is_found_beside_the_new_process(
        self, world: SupervisordWorld
    ) -> None:
        run(world, "deaf-child")
        before, child = await_phase(world, "one", ServicePhase.RUNNING), child_pid(world)
        os.kill(before.pid, signal.SIGKILL)
        eventually(lambda: world.supervisor.state("one").pid not in (0, before.pid))
        eventually(lambda: [each.pid for each in world.supervisor.find_orphans("one")] == [child])

    def test_those_of_another_state_folder_are_not_ours(self, world: SupervisordWorld) -> None:
        put(world)
        stamps = {"STOKER_DEPLOYMENT": "one", "STOKER_HOME": f"{world.home}-of-another"}
        with subprocess.Popen([*RUN_PROGRAM], env=stamps, stdout=subprocess.DEVNULL) as other:
            try:
                assert world.supervisor.find_orphans("one") == ()
            finally:
                other.kill()


class TestDaemon:
    def test_it_keeps_its_files_to_itself(self, world: SupervisordWorld) -> None:
        run(world)
        found = Path(world.layout.socket_path).stat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o700
        for folder in (world.layout.folder, world.layout.logs):
            assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700

    def test_it_says_nothing_critical_but_that_there_is_no_password(
        self, world: SupervisordWorld
    ) -> None:
        run(world)
        log = Path(world.layout.folder, "supervisord.log").read_text()
        critical = [line for line in log.splitlines() if "CRIT" in line or "WARN" in line]
        assert len(critical) == 1
        assert "authentication" in critical[0]

    def test_what_a_killed_one_left_does_not_matter(self, world: SupervisordWorld) -> None:
        put(world)
        world.supervisor.reload()
        world.kill_manager()
        assert Path(world.layout.socket_path).exists()
        # The pid may belong to somebody else by now.
        Path(world.layout.pid_file).write_text(f"{os.getpid()}\n")
        assert world.supervisor.state("one").phase is ServicePhase.STOPPED
        world.supervisor.start("one")
        assert world.supervisor.state("one").phase in LIVE_PHASES

    def test_it_survives_a_new_configuration_and_a_new_program(
        self, world: SupervisordWorld, tmp_path: Path
    ) -> None:
        run(world)
        before, pid = world.supervisor.state("one"), world.daemon_pid()
        with Path(world.layout.configuration).open("a") as file:
            file.write("; another version of this file\n")
        world.supervisor.reload()
        upgraded = world.adapter(daemon=str(tmp_path / "newer" / "supervisord"))
        upgraded.reload()
        assert world.daemon_pid() == pid
        assert upgraded.state("one").process == before.process

    def test_one_that_is_shutting_down_is_waited_for(self, world: SupervisordWorld) -> None:
        run(world, "deaf")
        client = SupervisordClient(world.layout.socket_path)
        client.shut_down()
        assert world.supervisor.state("one").phase is ServicePhase.STOPPING
        world.supervisor.start("one")
        assert world.supervisor.state("one").phase in LIVE_PHASES

    def test_a_program_that_is_not_there_is_an_error(self, world: SupervisordWorld) -> None:
        adapter = world.adapter(daemon="/no/such/supervisord")
        put(world)
        with pytest.raises(SupervisorError, match="did not start"):
            adapter.reload()

    def test_a_program_that_refuses_is_an_error_with_its_words(
        self, world: SupervisordWorld
    ) -> None:
        service = put(world)
        world.host.remove_file(world.layout.configuration)
        with pytest.raises(SupervisorError, match="could not find config file"):
            world.supervisor.start(service.name)

    @needs_root
    def test_a_definition_that_it_cannot_read_disturbs_nobody(
        self, world: SupervisordWorld
    ) -> None:
        run(world)
        before = world.supervisor.state("one")
        bad = put(world, name="two", user="no-such-user")
        with pytest.raises(SupervisorError, match="no-such-user"):
            world.supervisor.reload()
        assert world.supervisor.state("one").process == before.process
        undefine(world, bad)
        world.supervisor.reload()

    def test_a_socket_among_strangers_is_refused(
        self, world: SupervisordWorld, runtime_folder: str
    ) -> None:
        put(world)
        adapter = world.adapter(socket_path=f"{runtime_folder}/s.sock")
        os.chmod(runtime_folder, 0o755)
        for deed in (adapter.reload, lambda: adapter.state("one"), lambda: adapter.stop("one")):
            with pytest.raises(SupervisorError, match="socket cannot lie in"):
                deed()
        assert not world.is_manager_up()

    def test_a_state_folder_with_a_long_path(
        self, world: SupervisordWorld, tmp_path: Path, runtime_folder: str
    ) -> None:
        folder = tmp_path / ("long" * 25)
        folder.mkdir()
        far = SupervisordWorld(folder, daemon=world.layout.daemon, runtime_folder=runtime_folder)
        try:
            run(far)
            assert Path(far.layout.socket_path).parent == Path(runtime_folder)
        finally:
            far.close()


class TestClient:
    @pytest.fixture
    def listener(self, runtime_folder: str) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(f"{runtime_folder}/other.sock")
            yield listener

    def test_nobody_listens(self, listener: socket.socket, runtime_folder: str) -> None:
        for path in (listener.getsockname(), f"{runtime_folder}/nothing.sock"):
            with pytest.raises(SupervisordDown):
                SupervisordClient(path).read_pid()

    def test_something_else_is_there(self, runtime_folder: str) -> None:
        path = Path(runtime_folder, "file")
        path.write_text("")
        with pytest.raises(SupervisordDown):
            SupervisordClient(str(path)).read_pid()

    @pytest.mark.parametrize(
        "reply",
        [
            b"what?\r\n",
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        ],
    )
    def test_something_else_listens(self, listener: socket.socket, reply: bytes) -> None:
        listener.listen()
        answering = os.fork()
        if answering == 0:
            connection, _ = listener.accept()
            connection.recv(1 << 16)
            connection.sendall(reply)
            connection.close()
            os._exit(0)
        try:
            with pytest.raises(SupervisorError) as caught:
                SupervisordClient(listener.getsockname()).read_pid()
        finally:
            os.waitpid(answering, 0)
        assert not isinstance(caught.value, SupervisordDown)

    def test_a_refusal_carries_its_number(self, world: SupervisordWorld) -> None:
        put(world)
        world.supervisor.reload()
        client = SupervisordClient(world.layout.socket_path)
        with pytest.raises(SupervisordRefused, match="does not know") as caught:
            client.start("nobody")
        assert caught.value.code == Fault.BAD_NAME
        with pytest.raises(SupervisordRefused) as caught:
            client.stop("one")
        assert caught.value.code == Fault.NOT_RUNNING

    def test_its_numbers_are_supervisords_own(self, supervisord_folder: Path) -> None:
        """The enumerations are copies; these are the originals."""
        script = (
            "import json; from supervisor.xmlrpc import Faults;"
            "from supervisor.states import ProcessStates, STOPPED_STATES;"
            "names = lambda each: {k: v for k, v in vars(each).items() if k.isupper()};"
            "print(json.dumps([names(Faults), names(ProcessStates), sorted(STOPPED_STATES)]))"
        )
        python = supervisord_folder / "python"
        found = subprocess.run([python, "-c", script], capture_output=True, check=True, text=True)
        faults, states, ended = json.loads(found.stdout)
        assert {fault.name: fault.value for fault in Fault}.items() <= faults.items()
        assert {state.name: state.value for state in ProgramState} == states
        assert sorted(ENDED_STATES) == ended
