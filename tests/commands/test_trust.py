"""Folders that services run from: ours alone, all the way from the root."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.commands.trust import check_data_folders
from stoker.commands.world import World
from stoker.errors import StateError
from stoker.model.plan import Folders
from tests.laws.worlds import Machine


def world_with(data: str) -> tuple[Machine, World]:
    machine = Machine()
    machine.host.users.add("eve")
    folders = Folders(
        state="/var/lib/stoker",
        environments=f"{data}/environments",
        models=f"{data}/models",
        services=f"{data}/services/x",
    )
    return machine, replace(machine.world(), folders=folders)


def test_a_folder_of_root_is_trusted_whether_it_is_there_or_not() -> None:
    machine, world = world_with("/opt/stoker")
    check_data_folders(world)
    machine.host.put_folder("/opt/stoker/environments", mode=0o755)
    check_data_folders(world)


def test_below_a_sticky_folder_it_is_who_made_it_that_counts() -> None:
    machine, world = world_with("/tmp/data")
    machine.host.put_folder("/tmp", mode=0o1777)
    check_data_folders(world)
    machine.host.put_folder("/tmp/data", mode=0o755)
    check_data_folders(world)
    machine.host.put_folder("/tmp/data/environments", mode=0o755, owner="eve")
    with pytest.raises(StateError, match="environments cannot be trusted: it belongs to eve"):
        check_data_folders(world)


def test_a_folder_that_others_may_write_to_is_refused() -> None:
    machine, world = world_with("/srv/shared")
    machine.host.put_folder("/srv/shared", mode=0o777)
    with pytest.raises(StateError, match="others may write"):
        check_data_folders(world)


def test_a_link_that_somebody_may_have_planted_is_refused() -> None:
    machine, world = world_with("/tmp/data")
    machine.host.put_folder("/tmp", mode=0o1777)
    machine.host.put_folder("/victim", mode=0o755)
    machine.host.put_link("/tmp/data", "/victim")
    with pytest.raises(StateError, match="a link in a folder"):
        check_data_folders(world)


def test_a_link_of_root_in_a_closed_folder_is_fine() -> None:
    machine, world = world_with("/opt/stoker")
    machine.host.put_folder("/data/stoker", mode=0o755)
    machine.host.put_link("/opt/stoker", "/data/stoker")
    check_data_folders(world)
