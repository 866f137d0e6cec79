"""What follows for a unit from what the probe found."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.model.facts import Facts, Observation
from stoker.supervisors.systemd import SystemdSupervisor
from stoker.supervisors.systemd_sandbox import choose_layers, describe_trial
from stoker.supervisors.systemd_unit import SYSTEM_LAYERS, SystemdLayout, user_layout
from tests.fakes.host import MemoryHost
from tests.supervisors.worlds import RealClock, make_service

LAYOUT = SystemdLayout(home="/var/lib/stoker", logs="/var/lib/stoker/logs", is_root=True)
USER_LAYOUT = user_layout("/home/a/state", logs="/home/a/logs", config="/home/a/c", user_id=1000)


def facts_of(**layers: str) -> Facts:
    value: dict[str, Any] = {"layers": {**dict.fromkeys(SYSTEM_LAYERS, "works"), **layers}}
    seen = Observation(probe="service_sandbox", value=value)
    return Facts(host="here", stoker_version="0", observations={"service_sandbox": seen})


def unknown_facts() -> Facts:
    seen = Observation(probe="service_sandbox", unknown="it took too long")
    return Facts(host="here", stoker_version="0", observations={"service_sandbox": seen})


def adapter(host: MemoryHost, layout: SystemdLayout = LAYOUT) -> SystemdSupervisor:
    return SystemdSupervisor(host, RealClock(), layout)


def test_what_is_refused_is_left_out_and_what_is_ignored_is_kept() -> None:
    facts = facts_of(mount="refused", seccomp="ignored")
    assert choose_layers(LAYOUT, facts) == SYSTEM_LAYERS - {"mount"}
    assert choose_layers(USER_LAYOUT, facts) == USER_LAYOUT.layers


@pytest.mark.parametrize("facts", [unknown_facts(), Facts(host="here", stoker_version="0")])
def test_nothing_follows_from_what_is_not_known(facts: Facts) -> None:
    assert choose_layers(LAYOUT, facts) is None


def test_the_same_facts_give_the_same_unit() -> None:
    service = make_service("one", log_path="/log", directory="/srv/a")
    facts = facts_of(mount="refused")
    units = [adapter(MemoryHost()).fit("one", facts).render(service) for _ in range(2)]
    assert units[0] == units[1]
    (image,) = units[0].values()
    assert "ProtectSystem" not in (image.content or "")
    assert "ReadWritePaths" not in (image.content or "")


def test_what_was_known_once_stays_until_it_is_known_again() -> None:
    """One plan that could not ask must not change the unit, nor must the next one."""
    host, service = MemoryHost(), make_service("one", log_path="/log", directory="/srv/a")
    narrow = adapter(host).fit("one", facts_of(mount="refused")).render(service)
    for path, image in narrow.items():
        host.put(path, image.content or "")
    for _ in range(2):
        assert adapter(host).fit("one", unknown_facts()).render(service) == narrow
    wide = adapter(host).fit("one", facts_of()).render(service)
    assert wide == adapter(host).render(service)


def test_somebody_elses_unit_decides_nothing() -> None:
    host, service = MemoryHost(), make_service("one", log_path="/log")
    host.put(LAYOUT.unit("one"), "[Unit]\nX-Stoker-Layers=process\n")
    fitted = adapter(host).fit("one", unknown_facts())
    assert fitted.render(service) == adapter(host).render(service)


def test_each_manager_is_asked_in_its_own_way() -> None:
    trial = describe_trial(LAYOUT)
    assert trial.argv == ("systemd-run",)
    assert set(trial.layers) == set(trial.titles) == SYSTEM_LAYERS
    assert "PrivateTmp=yes" in trial.layers["mount"]
    trial = describe_trial(USER_LAYOUT)
    assert trial.argv == ("systemd-run", "--user")
    assert trial.env["XDG_RUNTIME_DIR"] == "/run/user/1000"
    assert set(trial.layers) == USER_LAYOUT.layers
