"""Which supervisor `auto` means, and that a deployment keeps the one that it has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.commands.supervising import choose_kind, using_wanted
from stoker.commands.world import World
from stoker.errors import SupervisorError
from stoker.model.deployment import Deployment
from stoker.ports import SupervisorProperties
from tests.fakes.supervisor import FakeSupervisor
from tests.laws.worlds import Machine, apply_variant


class Systemd(FakeSupervisor):
    """A systemd that may not answer."""

    is_there = True

    def check_usable(self) -> None:
        if not self.is_there:
            raise SupervisorError("systemd cannot be reached")


def make_world(*, has_systemd: bool, is_root: bool, lingers: bool = True) -> World:
    machine = Machine()
    world = replace(machine.world(), is_root=is_root)
    supervisors: dict[str, Any] = {"supervisord": world.supervisor, "fake": world.supervisor}
    if has_systemd:
        properties = SupervisorProperties(
            kind="systemd", starts_on_boot=is_root or lingers, changes_user=is_root
        )
        supervisors["systemd"] = Systemd(machine.host, properties=properties)
    return replace(world, supervisors=supervisors)


def deployment(supervisor: str) -> Deployment:
    return Deployment.model_validate(
        {
            "name": "law",
            "model": "path:/m.gguf",
            "engine": {"kind": "llamacpp"},
            "service": {"supervisor": supervisor},
        }
    )


@pytest.mark.parametrize("is_root", [True, False])
def test_auto_is_supervisord_without_systemd(is_root: bool) -> None:
    assert choose_kind(make_world(has_systemd=False, is_root=is_root)) == "supervisord"


def test_auto_is_systemd_for_root_even_if_it_does_not_answer() -> None:
    world = make_world(has_systemd=True, is_root=True)
    assert choose_kind(world) == "systemd"
    vars(world.supervisors["systemd"])["is_there"] = False
    assert choose_kind(world) == "systemd", "the plan is refused then, and says why"


@pytest.mark.parametrize("lingers", [True, False])
@pytest.mark.parametrize("answers", [True, False])
def test_auto_is_systemd_for_a_user_who_lingers(lingers: bool, answers: bool) -> None:
    world = make_world(has_systemd=True, is_root=False, lingers=lingers)
    vars(world.supervisors["systemd"])["is_there"] = answers
    assert choose_kind(world) == ("systemd" if lingers and answers else "supervisord")


def test_a_deployment_keeps_the_supervisor_that_it_has() -> None:
    world = make_world(has_systemd=True, is_root=True)
    assert using_wanted(world, deployment("auto")).supervisor is world.supervisors["systemd"]
    apply_variant("one")(world)
    assert using_wanted(world, deployment("auto")).supervisor is world.supervisors["fake"]
