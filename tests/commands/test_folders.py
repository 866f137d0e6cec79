"""Which folders Stoker chooses from an environment."""

from __future__ import annotations

import pytest

from stoker.commands.folders import choose_folders
from stoker.errors import UsageError


def test_root_without_variables() -> None:
    folders = choose_folders({}, is_root=True)
    assert folders.state == "/var/lib/stoker"
    assert folders.environments == "/opt/stoker/environments"
    assert folders.models == "/opt/stoker/models"


def test_a_user_gets_the_xdg_folders() -> None:
    folders = choose_folders({"HOME": "/home/ann"}, is_root=False)
    assert folders.state == "/home/ann/.local/state/stoker"
    assert folders.models == "/home/ann/.local/share/stoker/models"
    env = {"HOME": "/home/ann", "XDG_STATE_HOME": "/x", "XDG_DATA_HOME": "/y"}
    folders = choose_folders(env, is_root=False)
    assert (folders.state, folders.environments) == ("/x/stoker", "/y/stoker/environments")


def test_variables_win() -> None:
    env = {"STOKER_STATE": "/s/", "STOKER_DATA": "/d", "STOKER_MODELS": "/m"}
    folders = choose_folders(env, is_root=True)
    assert (folders.state, folders.environments, folders.models) == ("/s", "/d/environments", "/m")


def test_two_states_on_one_data_folder_keep_their_services_apart() -> None:
    one, two = (
        choose_folders({"STOKER_STATE": state, "STOKER_DATA": "/d"}, is_root=True)
        for state in ("/a", "/b")
    )
    assert one.environments == two.environments
    assert one.services != two.services


def test_services_of_a_user_lie_in_the_closed_state_folder() -> None:
    env = {"HOME": "/home/ann", "STOKER_STATE": "/s", "STOKER_DATA": "/d"}
    assert choose_folders(env, is_root=False).services == "/s/services"
    assert choose_folders(env, is_root=True).services.startswith("/d/services/")


@pytest.mark.parametrize("value", ["relative", "./x", "/a\nb"])
def test_unusable_paths_are_refused(value: str) -> None:
    with pytest.raises(UsageError, match="STOKER_STATE"):
        choose_folders({"STOKER_STATE": value}, is_root=True)


def test_no_home_says_what_to_set() -> None:
    with pytest.raises(UsageError, match="HOME"):
        choose_folders({}, is_root=False)
