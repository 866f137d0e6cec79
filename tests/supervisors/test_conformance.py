"""The contract of the Supervisor port, on the fake, a real supervisord and a real systemd.

What begins and ends with our services (``mortal_world``) is not asked of systemd, which is there
before them and cannot be killed. Its part runs where ``tests/lab`` lets it.
"""

from __future__ import annotations

import pytest

from stoker.errors import SupervisorError
from stoker.model.facts import Facts
from stoker.model.launch import DriftKind, Service, ServicePhase
from stoker.model.units import digest_text
from tests.supervisors.worlds import (
    LIVE_PHASES,
    World,
    await_phase,
    define,
    make_service,
    undefine,
)


def put(world: World, name: str, *words: str, digest: str = "d1", **changes: object) -> Service:
    """Define a service and let the manager know."""
    service = prepare(world, name, *words, digest=digest, **changes)
    world.supervisor.reload()
    return service


def prepare(world: World, name: str, *words: str, digest: str = "d1", **changes: object) -> Service:
    """Define a service, and leave it at that."""
    log_path = world.supervisor.log_path(name)
    service = make_service(name, *words, digest=digest, log_path=log_path, **changes)
    define(world, service)
    return service


class TestFiles:
    def test_the_same_service_gives_the_same_files(self, world: World) -> None:
        one = make_service("one", env={"A": "1", "B": "2"}, log_path="/log")
        two = make_service("one", env={"B": "2", "A": "1"}, log_path="/log")
        assert world.supervisor.render(one) == world.supervisor.render(two)
        assert world.supervisor.render_shared() == world.supervisor.render_shared()

    def test_files_are_named_absolutely_and_hold_what_their_digest_says(self, world: World) -> None:
        service = make_service("one", log_path="/log")
        files = {**world.supervisor.render_shared(), **world.supervisor.render(service)}
        assert files
        for path, image in files.items():
            assert path.startswith("/")
            assert image.content is not None
            assert image.digest == digest_text(image.content)

    def test_each_service_has_files_of_its_own(self, world: World) -> None:
        one = world.supervisor.render(make_service("one", log_path="/log"))
        two = world.supervisor.render(make_service("two", log_path="/log"))
        shared = world.supervisor.render_shared()
        assert not one.keys() & two.keys()
        assert not shared.keys() & (one.keys() | two.keys())

    def test_a_definition_carries_its_stamps(self, world: World) -> None:
        service = make_service("one", digest="0123abcd", log_path="/log")
        text = "".join(image.content or "" for image in world.supervisor.render(service).values())
        assert "STOKER_DIGEST" in text
        assert "0123abcd" in text
        assert "STOKER_DEPLOYMENT" in text

    def test_each_service_has_a_log_of_its_own(self, world: World) -> None:
        one, two = world.supervisor.log_path("one"), world.supervisor.log_path("two")
        assert one != two
        assert one.startswith(world.logs)

    def test_properties_are_constant(self, world: World) -> None:
        before = world.supervisor.properties
        put(world, "one")
        assert world.supervisor.properties == before
        assert before.kind


class TestWithoutManager:
    def test_an_unknown_service_is_absent(self, world: World) -> None:
        state = world.supervisor.state("nobody")
        assert state.phase is ServicePhase.ABSENT
        assert (state.name, state.pid, state.process, state.digest) == ("nobody", 0, "", "")

    def test_a_defined_service_is_stopped(self, world: World) -> None:
        prepare(world, "one")
        assert world.supervisor.state("one").phase is ServicePhase.STOPPED

    def test_nothing_is_left_behind(self, world: World) -> None:
        prepare(world, "one")
        assert world.supervisor.find_orphans("one") == ()

    def test_stopping_is_no_error(self, world: World) -> None:
        prepare(world, "one")
        world.supervisor.stop("one")
        world.supervisor.stop("nobody")

    def test_asking_and_stopping_start_no_manager(self, mortal_world: World) -> None:
        prepare(mortal_world, "one")
        mortal_world.supervisor.state("one")
        mortal_world.supervisor.find_orphans("one")
        mortal_world.supervisor.stop("one")
        assert not mortal_world.is_manager_up()

    def test_reload_without_definitions_starts_no_manager(self, mortal_world: World) -> None:
        mortal_world.supervisor.reload()
        assert not mortal_world.is_manager_up()

    def test_start_brings_the_manager(self, world: World) -> None:
        prepare(world, "one")
        world.supervisor.start("one")
        assert world.supervisor.state("one").phase in LIVE_PHASES

    def test_start_of_an_undefined_service_fails(self, world: World) -> None:
        with pytest.raises(SupervisorError):
            world.supervisor.start("nobody")


class TestReload:
    def test_it_starts_the_manager_and_no_service(self, world: World) -> None:
        put(world, "one")
        assert world.is_manager_up()
        assert world.supervisor.state("one").phase is ServicePhase.STOPPED

    def test_it_may_be_repeated(self, world: World) -> None:
        put(world, "one")
        world.supervisor.reload()
        assert world.supervisor.state("one").phase is ServicePhase.STOPPED

    def test_a_running_service_is_left_alone(self, world: World) -> None:
        put(world, "one")
        world.supervisor.start("one")
        before = world.supervisor.state("one")
        put(world, "one", digest="d2")
        put(world, "two")
        after = world.supervisor.state("one")
        assert (after.process, after.digest) == (before.process, "d1")

    def test_a_service_that_is_no_longer_defined_is_stopped_and_forgotten(
        self, world: World
    ) -> None:
        service = put(world, "one")
        put(world, "two")
        for name in ("one", "two"):
            world.supervisor.start(name)
        states = {name: world.supervisor.state(name) for name in ("one", "two")}
        undefine(world, service)
        world.supervisor.reload()
        assert not world.is_alive(states["one"])
        assert world.supervisor.state("one").phase is ServicePhase.ABSENT
        assert world.supervisor.state("two").process == states["two"].process

    def test_the_last_definition_goes_as_well(self, world: World) -> None:
        service = put(world, "one")
        world.supervisor.start("one")
        before = world.supervisor.state("one")
        undefine(world, service)
        world.supervisor.reload()
        assert not world.is_alive(before)
        assert world.supervisor.state("one").phase is ServicePhase.ABSENT

    def test_the_manager_goes_with_the_last_definition(self, mortal_world: World) -> None:
        service = put(mortal_world, "one")
        mortal_world.supervisor.start("one")
        undefine(mortal_world, service)
        mortal_world.supervisor.reload()
        assert not mortal_world.is_manager_up()

    def test_the_manager_comes_back_with_the_next_one(self, world: World) -> None:
        undefine(world, put(world, "one"))
        world.supervisor.reload()
        put(world, "two")
        world.supervisor.start("two")
        assert world.supervisor.state("two").phase in LIVE_PHASES


class TestStart:
    def test_the_running_process_says_what_it_is(self, world: World) -> None:
        put(world, "one", digest="0123abcd")
        world.supervisor.start("one")
        state = world.supervisor.state("one")
        assert state.phase in LIVE_PHASES
        assert state.digest == "0123abcd"
        assert state.pid > 0
        assert state.process.startswith(f"{state.pid}:")
        assert world.is_alive(state)

    def test_it_comes_to_run(self, world: World) -> None:
        put(world, "one")
        world.supervisor.start("one")
        assert await_phase(world, "one", ServicePhase.RUNNING).digest == "d1"

    def test_a_second_start_changes_nothing(self, world: World) -> None:
        put(world, "one")
        world.supervisor.start("one")
        before = world.supervisor.state("one")
        world.supervisor.start("one")
        assert world.supervisor.state("one").process == before.process

    def test_it_takes_the_present_definition(self, world: World) -> None:
        put(world, "one")
        prepare(world, "one", digest="d2")
        world.supervisor.start("one")
        assert world.supervisor.state("one").digest == "d2"

    def test_it_replaces_an_older_definition_that_runs(self, world: World) -> None:
        put(world, "one")
        world.supervisor.start("one")
        before = world.supervisor.state("one")
        put(world, "one", digest="d2")
        world.supervisor.start("one")
        after = world.supervisor.state("one")
        assert after.digest == "d2"
        assert not world.is_alive(before)

    def test_it_takes_a_definition_that_was_stopped_before(self, world: World) -> None:
        put(world, "one")
        world.supervisor.start("one")
        world.supervisor.stop("one")
        put(world, "one", digest="d2")
        world.supervisor.start("one")
        assert world.supervisor.state("one").digest == "d2"

    def test_an_unknown_service_is_an_error(self, world: World) -> None:
        put(world, "one")
        with pytest.raises(SupervisorError):
            world.supervisor.start("nobody")
        with pytest.raises(SupervisorError):
            world.supervisor.restart("nobody")

    def test_a_program_that_does_not_exist_is_an_error(self, world: World) -> None:
        put(world, "one", argv=("/no/such/program",))
        with pytest.raises(SupervisorError):
            world.supervisor.start("one")
        assert world.supervisor.state("one").pid == 0

    def test_a_service_that_keeps_ending_fails_and_can_be_mended(self, world: World) -> None:
        put(world, "one", "fails")
        world.supervisor.start("one")
        state = await_phase(world, "one", ServicePhase.FAILED)
        assert (state.pid, state.process, state.digest) == (0, "", "")
        assert state.detail
        put(world, "one", digest="d2")
        world.supervisor.start("one")
        assert world.supervisor.state("one").digest == "d2"


class TestFolder:
    def test_it_is_made_for_the_service_alone(self, world: World) -> None:
        folder = f"{world.place}/one/work"
        put(world, "one", directory=folder)
        assert world.host.stat(folder) is None
        world.supervisor.start("one")
        found = world.host.stat(folder)
        assert found is not None
        assert (found.kind, found.mode) == ("folder", 0o700)

    def test_it_is_made_again_where_it_was_lost(self, world: World) -> None:
        folder = f"{world.place}/one/work"
        put(world, "one", directory=folder)
        world.supervisor.start("one")
        world.supervisor.stop("one")
        world.host.remove_tree(folder)
        world.supervisor.restart("one")
        assert world.host.stat(folder) is not None
        assert world.supervisor.state("one").phase in LIVE_PHASES

    def test_one_that_is_there_stays_as_it_is(self, world: World) -> None:
        folder = f"{world.place}/one/work"
        world.host.make_folder(folder, 0o755)
        put(world, "one", directory=folder)
        world.supervisor.start("one")
        found = world.host.stat(folder)
        assert found is not None
        assert found.mode == 0o755


class TestDrift:
    def kinds(self, world: World, service: Service) -> set[DriftKind]:
        found = world.supervisor.find_drift(service)
        assert all(each.sentence and each.path for each in found)
        return {each.kind for each in found}

    def test_there_is_none_where_all_is_as_it_was_written(self, world: World) -> None:
        service = prepare(world, "one", env={"A": "1"})
        assert self.kinds(world, service) == set()
        world.supervisor.reload()
        assert self.kinds(world, service) == set()
        world.supervisor.start("one")
        assert self.kinds(world, service) == set()
        world.supervisor.stop("one")
        assert self.kinds(world, service) == set()

    def test_an_edited_definition(self, world: World) -> None:
        service = put(world, "one")
        (path,) = world.supervisor.render(service)
        text = world.host.read_text(path)
        world.host.write_file(path, text.replace("on-failure", "always").encode() + b"\n", 0o600)
        assert DriftKind.EDITED in self.kinds(world, service)
        define(world, service)
        world.supervisor.reload()
        assert self.kinds(world, service) == set()

    def test_a_definition_that_is_gone(self, world: World) -> None:
        service = put(world, "one")
        undefine(world, service)
        assert DriftKind.EDITED in self.kinds(world, service)

    def test_the_definition_of_another_generation(self, world: World) -> None:
        service = put(world, "one", digest="d2")
        put(world, "one", digest="d1")
        assert DriftKind.EDITED in self.kinds(world, service)

    def test_a_process_of_another_definition(self, world: World) -> None:
        put(world, "one")
        world.supervisor.start("one")
        service = put(world, "one", digest="d2")
        assert DriftKind.PROCESS in self.kinds(world, service)
        world.supervisor.restart("one")
        assert self.kinds(world, service) == set()


class TestUse:
    def test_a_manager_that_is_there_or_ours_can_be_used(self, world: World) -> None:
        world.supervisor.check_usable()
        world.supervisor.check_foreign("one")

    def test_asking_starts_no_manager(self, mortal_world: World) -> None:
        mortal_world.supervisor.check_usable()
        mortal_world.supervisor.find_drift(prepare(mortal_world, "one"))
        mortal_world.supervisor.read_messages("one", 9)
        assert not mortal_world.is_manager_up()

    def test_facts_that_say_nothing_change_no_definition(self, world: World) -> None:
        service = put(world, "one")
        facts = Facts(host="here", stoker_version="0")
        fitted = world.supervisor.fit("one", facts)
        assert fitted.render(service) == world.supervisor.render(service)
        assert fitted.properties == world.supervisor.properties

    def test_messages_are_lines_that_harm_no_terminal(self, world: World) -> None:
        put(world, "one")
        world.supervisor.start("one")
        world.supervisor.stop("one")
        messages = world.supervisor.read_messages("one", 5)
        assert len(messages) <= 5
        assert all(message.isprintable() for message in messages)
        assert world.supervisor.read_messages("one", 0) == ()


class TestStop:
    def test_nothing_runs_afterwards(self, world: World) -> None:
        put(world, "one")
        world.supervisor.start("one")
        before = world.supervisor.state("one")
        world.supervisor.stop("one")
        after = world.supervisor.state("one")
        assert not world.is_alive(before)
        assert after.phase is ServicePhase.STOPPED
        assert (after.pid, after.process, after.digest) == (0, "", "")

    def test_not_running_and_not_known_are_no_errors(self, world: World) -> None:
        put(world, "one")
        world.supervisor.stop("one")
        world.supervisor.stop("nobody")
        assert world.supervisor.state("one").phase is ServicePhase.STOPPED
        assert world.supervisor.state("nobody").phase is ServicePhase.ABSENT

    def test_other_services_run_on(self, world: World) -> None:
        put(world, "one")
        put(world, "two", digest="d2")
        for name in ("one", "two"):
            world.supervisor.start(name)
        before = world.supervisor.state("two")
        world.supervisor.stop("one")
        after = world.supervisor.state("two")
        assert (after.process, after.digest) == (before.process, "d2")
        assert world.is_alive(after)


class TestRestart:
    def test_there_is_another_process(self, world: World) -> None:
        put(world, "one")
        world.supervisor.start("one")
        before = world.supervisor.state("one")
        world.supervisor.restart("one")
        after = world.supervisor.state("one")
        assert after.process not in ("", before.process)
        assert after.digest == "d1"
        assert not world.is_alive(before)

    @pytest.mark.parametrize("is_reloaded", [True, False])
    def test_it_takes_the_definition_on_the_disk(self, world: World, is_reloaded: bool) -> None:
        put(world, "one")
        world.supervisor.start("one")
        (put if is_reloaded else prepare)(world, "one", digest="d2")
        world.supervisor.restart("one")
        assert world.supervisor.state("one").digest == "d2"

    def test_a_stopped_service_is_started(self, world: World) -> None:
        put(world, "one")
        world.supervisor.restart("one")
        assert world.supervisor.state("one").phase in LIVE_PHASES


class TestOrphans:
    def test_what_the_manager_holds_is_no_orphan(self, world: World) -> None:
        put(world, "one", "child")
        world.supervisor.start("one")
        assert world.supervisor.find_orphans("one") == ()
        assert world.supervisor.find_orphans("nobody") == ()

    def test_what_a_killed_manager_leaves_behind_is_found_by_name(
        self, mortal_world: World
    ) -> None:
        put(mortal_world, "one")
        put(mortal_world, "two")
        for name in ("one", "two"):
            mortal_world.supervisor.start(name)
        before = mortal_world.supervisor.state("one")
        mortal_world.kill_manager()
        (orphan,) = mortal_world.supervisor.find_orphans("one")
        assert (orphan.name, orphan.pid, orphan.process, orphan.digest) == (
            "one",
            before.pid,
            before.process,
            "d1",
        )
        assert mortal_world.supervisor.find_orphans("nobody") == ()

    def test_the_state_tells_of_them(self, mortal_world: World) -> None:
        put(mortal_world, "one")
        mortal_world.supervisor.start("one")
        mortal_world.kill_manager()
        state = mortal_world.supervisor.state("one")
        assert state.phase is ServicePhase.UNKNOWN
        assert state.detail

    def test_a_new_manager_does_not_hold_them(self, mortal_world: World) -> None:
        put(mortal_world, "one")
        mortal_world.supervisor.start("one")
        mortal_world.kill_manager()
        mortal_world.supervisor.reload()
        assert mortal_world.supervisor.state("one").phase is ServicePhase.STOPPED
        assert len(mortal_world.supervisor.find_orphans("one")) == 1

    def test_once_they_are_ended_the_service_starts_again(self, mortal_world: World) -> None:
        put(mortal_world, "one")
        mortal_world.supervisor.start("one")
        mortal_world.kill_manager()
        for orphan in mortal_world.supervisor.find_orphans("one"):
            assert mortal_world.host.end_process(orphan.pid, orphan.process, 5.0)
        assert mortal_world.supervisor.find_orphans("one") == ()
        assert mortal_world.supervisor.state("one").phase is ServicePhase.STOPPED
        mortal_world.supervisor.start("one")
        assert mortal_world.supervisor.state("one").phase in LIVE_PHASES
        assert mortal_world.supervisor.find_orphans("one") == ()
