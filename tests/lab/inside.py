"""One step of a test inside a container, which a reboot lies between: run as a module.

``put NAME`` defines and starts a service that starts at boot, ``put-by-hand NAME`` one that does
not; ``state NAME`` prints how it stands, as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from tests.lab.tree import MARK
from tests.supervisors.worlds import SystemdWorld, define, make_service

#: Kept over reboots, as /tmp is not.
FOLDER = Path("/var/lib/lab")


def main(verb: str, name: str) -> None:
    assert Path(MARK).exists(), "this is no container of the lab"
    FOLDER.mkdir(exist_ok=True)
    world = SystemdWorld(FOLDER)
    if verb != "state":
        log_path = world.supervisor.log_path(name)
        define(world, make_service(name, log_path=log_path, on_boot=verb == "put"))
        world.supervisor.reload()
        world.supervisor.start(name)
    json.dump(dataclasses.asdict(world.supervisor.state(name)), sys.stdout)


main(*sys.argv[1:])
