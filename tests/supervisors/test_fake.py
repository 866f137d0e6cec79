"""What the fake offers beyond the port: crashes at any effect, and things that go wrong."""

from __future__ import annotations

import pytest

from stoker.errors import SupervisorError
from stoker.model.launch import ServicePhase
from tests.fakes.host import Crash
from tests.supervisors.worlds import FakeWorld, define, make_service


@pytest.fixture
def world(fake_world: FakeWorld) -> FakeWorld:
    define(fake_world, make_service("one"))
    fake_world.supervisor.reload()
    fake_world.supervisor.start("one")
    return fake_world


def blow(world: FakeWorld, where: tuple[str, str]) -> None:
    """Let the machine crash there, once."""

    def fuse(moment: str, effect: str) -> None:
        if (moment, effect) == where:
            world.fake.fuse = None
            raise Crash

    world.fake.fuse = fuse


@pytest.mark.parametrize(
    ("where", "running"),
    [
        (("before", "stop:one"), {"one": "d1"}),
        (("after", "stop:one"), {}),
        (("before", "start:one"), {}),
        (("after", "start:one"), {"one": "d2"}),
    ],
)
def test_a_restart_may_crash_anywhere(
    world: FakeWorld, where: tuple[str, str], running: dict[str, str]
) -> None:
    define(world, make_service("one", digest="d2"))
    blow(world, where)
    with pytest.raises(Crash):
        world.supervisor.restart("one")
    assert world.fake.running == running
    world.supervisor.restart("one")
    assert world.fake.running == {"one": "d2"}


def test_effects_are_told_in_order(world: FakeWorld) -> None:
    define(world, make_service("one", digest="d2"))
    world.supervisor.reload()
    world.supervisor.restart("one")
    world.supervisor.stop("one")
    assert world.fake.effects == [
        *("reload", "start:one"),
        *("reload", "stop:one", "start:one"),
        "stop:one",
    ]


def test_a_refused_start_leaves_nothing_running(world: FakeWorld) -> None:
    world.fake.refused.add("one")
    with pytest.raises(SupervisorError):
        world.supervisor.restart("one")
    assert world.fake.running == {}
    assert world.supervisor.state("one").phase is ServicePhase.STOPPED


def test_a_process_may_end_by_itself(world: FakeWorld) -> None:
    world.fake.crash("one")
    assert world.fake.running == {}
    assert world.supervisor.state("one").phase is ServicePhase.FAILED
    world.supervisor.start("one")
    assert world.fake.running == {"one": "d1"}
