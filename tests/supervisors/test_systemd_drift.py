"""What counts as drift of a unit, as values; the real thing is tried in the lab."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.model.launch import Drift, DriftKind
from stoker.supervisors.stamps import DIGEST, stamped_environment
from stoker.supervisors.systemd_answers import LoadedUnit, parse_reading, parse_unit
from stoker.supervisors.systemd_drift import Seen, find_difference, find_edit
from stoker.supervisors.systemd_unit import SystemdLayout, render_unit
from tests.supervisors.worlds import make_service

LAYOUT = SystemdLayout(home="/var/lib/stoker", logs="/var/lib/stoker/logs", is_root=True)
SERVICE = make_service("one", digest="d1", log_path="/log", env={"MODE": "slow"})
WANTED = stamped_environment(SERVICE, home=LAYOUT.home)
PATH = LAYOUT.unit("one")
DROP_IN = f"{PATH}.d/more.conf"


def unit_text() -> str:
    (image,) = render_unit(SERVICE, LAYOUT).values()
    return image.content or ""


def loaded(**changes: Any) -> LoadedUnit:
    properties = {
        "LoadState": "loaded",
        "ActiveState": "active",
        "SubState": "running",
        "FragmentPath": PATH,
        "NeedDaemonReload": False,
        "Environment": [f"{name}={value}" for name, value in WANTED.items()],
        "MainPID": 7,
        "ExecMainStartTimestamp": 100_000_000,
    }
    return parse_unit({**properties, **changes})


def drift(unit: LoadedUnit, **changes: Any) -> list[Drift]:
    fields: dict[str, Any] = {
        "beside": (),
        "changed_at_seconds": 50.0,
        "read_at_seconds": 60.0,
        "edited_at_seconds": None,
        "environment": WANTED,
    }
    seen = Seen(path=PATH, unit=unit, **{**fields, **changes})
    return [*find_difference(seen, wanted=WANTED)]


def kinds(unit: LoadedUnit, **changes: Any) -> list[DriftKind]:
    return [each.kind for each in drift(unit, **changes)]


def test_a_unit_as_it_was_written_has_none() -> None:
    assert kinds(loaded()) == []
    assert [*find_edit(unit_text(), path=PATH, digest="d1")] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is gone"),
        (unit_text().replace("MODE=slow", "MODE=fast"), "was edited"),
        (unit_text().replace("X-Stoker-Content", "X-Other"), "was edited"),
        ("", "was edited"),
    ],
)
def test_an_edit_is_told_with_its_file(text: str | None, words: str) -> None:
    (found,) = find_edit(text, path=PATH, digest="d1")
    assert (found.kind, found.path) == (DriftKind.EDITED, PATH)
    assert f"{PATH} {words}" in found.sentence


def test_a_whole_unit_of_another_generation_is_one_too() -> None:
    (found,) = find_edit(unit_text(), path=PATH, digest="d2")
    assert found.sentence == f"{PATH} holds definition d1, in force is d2"


def test_what_systemd_has_not_read() -> None:
    assert kinds(loaded(NeedDaemonReload=True)) == [DriftKind.UNREAD]
    assert kinds(loaded(), beside=(DROP_IN,)) == [DriftKind.UNREAD]


def test_what_was_put_back_with_its_old_time_is_not_read_either() -> None:
    assert kinds(loaded(), changed_at_seconds=61.0) == [DriftKind.UNREAD]
    assert kinds(loaded(), changed_at_seconds=61.0, read_at_seconds=0.0) == []


BOOT = {"UnitsLoadFinishTimestamp": 900_000_000, "UnitsLoadFinishTimestampMonotonic": 5_000_000}
RELOAD = {"UnitsLoadTimestamp": 990_000_000, "UnitsLoadTimestampMonotonic": 95_000_000}
NO_RELOAD = {"UnitsLoadTimestamp": 0, "UnitsLoadTimestampMonotonic": 0}


@pytest.mark.parametrize(
    ("properties", "now_seconds", "expected"),
    [
        ({**BOOT, **RELOAD}, 1005.0, 990.0),
        ({**BOOT, **NO_RELOAD}, 1005.0, 900.0),
        # The clock was put forward after the boot, and back.
        ({**BOOT, **NO_RELOAD}, 5005.0, 4900.0),
        ({**BOOT, **NO_RELOAD}, 505.0, 900.0),
        ({}, 1005.0, 0.0),
    ],
)
def test_when_units_were_read(
    properties: dict[str, int], now_seconds: float, expected: float
) -> None:
    reading = parse_reading(properties)
    assert reading.by_clock(now_seconds=now_seconds, monotonic_seconds=110.0) == expected


def test_a_file_beside_ours_and_one_for_every_service() -> None:
    assert kinds(loaded(DropInPaths=[DROP_IN]), beside=(DROP_IN,)) == [DriftKind.ADDED]
    for path in (
        "/etc/systemd/system/service.d/a.conf",
        "/usr/lib/systemd/system/service.d/b.conf",
    ):
        assert kinds(loaded(DropInPaths=[path])) == []
    # All units that begin with "stoker-" are ours.
    assert kinds(loaded(DropInPaths=["/etc/systemd/system/stoker-.service.d/a.conf"]))


def test_a_process_with_other_variables() -> None:
    assert kinds(loaded(), environment={**WANTED, "MODE": "fast"}) == [DriftKind.PROCESS]
    assert kinds(loaded(), environment={**WANTED, DIGEST: "d0"}) == [DriftKind.PROCESS]
    assert kinds(loaded(), environment={**WANTED, "HOME": "/root"}) == []


def test_a_variable_of_a_file_beside_ours_is_no_other_process() -> None:
    assignments = [f"{name}={value}" for name, value in WANTED.items()]
    unit = loaded(DropInPaths=[DROP_IN], Environment=[*assignments, "MODE=fast"])
    assert kinds(unit, environment={**WANTED, "MODE": "fast"}) == [DriftKind.ADDED]
    assert kinds(unit) == [DriftKind.ADDED, DriftKind.PROCESS]


def test_a_process_that_hides_its_environment_says_nothing() -> None:
    for environment in ({}, {"MODE": "fast"}):
        assert kinds(loaded(), environment=environment) == []


@pytest.mark.parametrize(
    ("edited_at_seconds", "changes", "expected"),
    [
        (99.0, {}, [DriftKind.PROCESS]),
        (101.0, {}, []),
        (99.0, {"NeedDaemonReload": True}, [DriftKind.UNREAD]),
        (99.0, {"MainPID": 0}, []),
    ],
)
def test_a_process_that_was_started_after_an_edit(
    edited_at_seconds: float, changes: dict[str, Any], expected: list[DriftKind]
) -> None:
    assert kinds(loaded(**changes), edited_at_seconds=edited_at_seconds) == expected


def test_strange_names_of_files_harm_no_terminal() -> None:
    (found,) = drift(loaded(DropInPaths=[f"{PATH}.d/\x1b[2J\n.conf"]))
    assert found.sentence.isprintable()
