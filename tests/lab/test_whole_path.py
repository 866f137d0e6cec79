"""The real command under the container's systemd, with the real engine and model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.machine import OBEDIENT, UNIT, UNIT_PATH, Machine, eventually
from tests.lab.tree import USER_ID

pytestmark = pytest.mark.timeout(300, func_only=True)

KEY, TOKEN = "k3y-0f-the-0wner", "t0ken-0f-the-0wner"
SECRETIVE = "{kind: llamacpp, settings: {threads: 1}, secret_env: {HUB_TOKEN: /root/token}}"
#: Asks for the models, with the key in a file if one is named: the HTTP status.
ASK = """\
import sys, urllib.error, urllib.request
request = urllib.request.Request("http://127.0.0.1:30000/v1/models")
for path in sys.argv[1:]:
    with open(path) as file:
        request.add_header("Authorization", f"Bearer {file.read().strip()}")
try:
    print(urllib.request.urlopen(request, timeout=30).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def test_from_the_file_over_a_reboot_to_down(machine: Machine) -> None:
    machine.deploy(on_boot=True)
    plan = machine.stoker("plan", machine.file)
    assert plan["origin"]["supervisor"] == "systemd", "it is what auto means for root here"
    applied = machine.stoker("apply", machine.file)
    assert applied["verified"] is True
    assert machine.systemctl("is-active", UNIT) == "active"
    assert machine.systemctl("is-enabled", UNIT) == "enabled"
    assert machine.systemctl("show", "--property=Type", UNIT) == "Type=notify"
    assert machine.stoker("plan", machine.file)["changes"] == []
    assert machine.stoker("apply", machine.file)["changed"] is False
    first = machine.status()
    assert (first["phase"], first["drift"]) == ("ready", "")
    machine.container.reboot()
    eventually(lambda: machine.status()["phase"] == "ready", machine.status)
    second = machine.status()
    assert second["verified"] is True, "its guard has tried it"
    assert (second["generation"], second["drift"]) == (first["generation"], "")
    messages = machine.stoker("logs", "--journal")["lines"]
    assert any("Started" in line for line in messages), messages
    machine.stoker("stop")
    assert machine.systemctl("is-active", UNIT) == "inactive"
    machine.stoker("down")
    assert machine.systemctl("show", "--property=LoadState", UNIT) == "LoadState=not-found"
    assert machine.stoker("status")["deployments"] == []


def test_secrets_reach_the_engine_and_nobody_else(machine: Machine) -> None:
    for name, secret in (("key", KEY), ("token", TOKEN)):
        machine.write(f"/root/{name}", f"{secret}\n")
        machine.shell(f"chmod 0600 /root/{name}")
    machine.deploy(engine=SECRETIVE, serve="api_key_file: /root/key")
    said = [machine.run("apply", machine.file)]
    assert said[0].returncode == 0, said[0].stderr
    assert machine.shell('python3 -c "$1"', ASK) == "401\n"
    assert machine.shell('python3 -c "$1" "$2"', ASK, "/root/key") == "200\n"

    guard = str(machine.status()["pid"])
    children = machine.shell('cat "/proc/$1/task/$1/children"', guard).split()
    environments = [machine.shell('cat "/proc/$1/environ"', pid) for pid in children]
    assert any(f"HUB_TOKEN={TOKEN}\0" in each for each in environments), "the engine has it not"
    assert KEY not in "".join(environments)

    said += [machine.run(*words) for words in (("status",), ("logs",), ("logs", "--journal"))]
    said += [machine.run("plan", machine.file, "--json"), machine.run("facts", machine.file)]
    told = {
        "Stoker": "".join(each.stdout + each.stderr for each in said),
        "systemctl show": machine.systemctl("show", "--all", UNIT),
        "the unit": machine.shell('cat "$1"', UNIT_PATH),
        "command lines": machine.shell("cat /proc/[0-9]*/cmdline 2>/dev/null || true"),
        "the guard": machine.shell('cat "/proc/$1/environ"', guard),
        "the journal": machine.shell("journalctl --no-pager --all --output=export"),
    }
    assert all(told.values()), "nothing was found to look into"
    found = [where for where, text in told.items() for secret in (KEY, TOKEN) if secret in text]
    assert found == []


def test_a_stop_is_told_while_it_lasts(machine: Machine) -> None:
    machine.install_engine("deaf")
    machine.deploy(engine=OBEDIENT)
    machine.stoker("apply", machine.file)
    machine.systemctl("stop", "--no-block", UNIT)
    eventually(lambda: machine.systemctl("is-active", UNIT) == "deactivating")
    told = machine.status()["phase"]
    assert machine.systemctl("is-active", UNIT) == "deactivating", "that was too late"
    assert told == "stopping"
    # Asked a second time, the guard waits no longer.
    machine.systemctl("kill", "--kill-whom=main", UNIT)
    eventually(lambda: machine.systemctl("is-active", UNIT) == "inactive")
    assert machine.status()["phase"] == "stopped"


def test_for_a_user_under_their_own_manager(machine: Machine, data: Path) -> None:
    user = Machine(machine.container, data, user=USER_ID, shares_data=True)
    user.deploy(supervisor="systemd")
    assert user.stoker("apply", user.file)["verified"] is True
    assert user.systemctl("is-active", UNIT) == "active"
    assert user.systemctl("show", "--property=Type", UNIT) == "Type=notify"
    assert machine.systemctl("show", "--property=LoadState", UNIT) == "LoadState=not-found"
    status = user.status()
    assert (status["phase"], status["verified"], status["drift"]) == ("ready", True, "")
    owner = user.shell('stat --format=%u "/proc/$1"', str(status["pid"]))
    assert owner == f"{USER_ID}\n"
    assert user.stoker("plan", user.file)["changes"] == []
    user.stoker("down")
    assert user.systemctl("show", "--property=LoadState", UNIT) == "LoadState=not-found"
    assert user.stoker("status")["deployments"] == []
