"""The guard under a real supervisord: bad starts and bad ends, seen by the real command."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.probes.model_files import build_gguf
from tests.system.guard_engine import Orders, install, order
from tests.system.processes import Process, kill
from tests.system.runner import NAME, Stoker, free_port, wait_until, write_small

STALL_SECONDS = 3
#: Longer than the stall time; a share of 5 % is told by its fifth of a second.
TALK_SECONDS = 4.0
READ_SECONDS = 7.0
#: Read in pieces that count as progress.
WEIGHT_BYTES = 32 << 20
#: In place of the table's half minute between two looks.
LOOK_SECONDS = 0.3


class Service:
    """A deployment whose engine does as it is told, and lives through all tests of this file."""

    def __init__(self, place: Path, data: Path) -> None:
        self.stoker = Stoker(place / "state", data, place=place)
        self.program = install(place)
        weights = place / "tiny.gguf"
        weights.write_bytes(build_gguf())
        os.truncate(weights, WEIGHT_BYTES)
        changes = {
            "model": f"path:{weights}",
            "engine.environment": f"path:{self.program}",
            "service.stall_timeout_seconds": STALL_SECONDS,
        }
        self.file = write_small(place, changes, port=free_port())

    def begin(self) -> None:
        """Serve for the first time."""
        self.stoker.succeed("apply", self.file)
        self.shorten_looks()

    def shorten_looks(self) -> None:
        """From the next start on."""
        path = Path(self.stoker.guards()[0].argv[-1])
        orders = json.loads(path.read_text())
        orders["canary"]["interval_seconds"] = LOOK_SECONDS
        path.write_text(json.dumps(orders))

    def engine(self) -> Process:
        """Its engine, once there is one."""
        wait_until(self.stoker.engines)
        return self.stoker.engines()[0]

    def restart(self, orders: Orders) -> Process:
        """Kill the engine as the kernel does when memory is short; the next start is so."""
        order(self.program, orders)
        before = self.engine()
        kill(before.pid)
        wait_until(lambda: {each.pid for each in self.stoker.engines()} - {before.pid})
        return self.engine()

    def recover(self) -> None:
        """Serve again."""
        order(self.program, Orders())
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until it serves, with the orders that it has."""
        wait_until(lambda: self.stoker.status()["verified"])

    def wait_detail(self, pattern: str) -> Any:
        """The status, once its words are so."""
        seen: list[Any] = []

        def is_so() -> bool:
            seen.append(self.stoker.status())
            return bool(re.search(pattern, seen[-1]["detail"]))

        wait_until(is_so)
        return seen[-1]

    def count(self, text: str) -> int:
        """How often the log says it."""
        return self.stoker.succeed("logs", "--lines", "1000").stdout.count(text)


@pytest.fixture(scope="module")
def standing_service(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    found = Service(tmp_path_factory.mktemp("guarded"), data)
    try:
        found.begin()
        yield found
    finally:
        found.stoker.close()


@pytest.fixture
def service(standing_service: Service) -> Service:
    """Running and verified."""
    standing_service.recover()
    return standing_service


def test_a_start_that_hangs_is_ended_with_a_reason_and_started_again(service: Service) -> None:
    reason = f"stuck in starting, no progress for {STALL_SECONDS} s"
    said = service.count(reason)
    stuck = service.restart(Orders(hangs=True))
    assert service.stoker.status()["phase"] == "starting"
    wait_until(lambda: service.count(reason) > said)
    service.recover()
    assert stuck.pid not in {each.pid for each in service.stoker.engines()}


def test_a_slow_start_that_tells_how_far_it_is_lives(service: Service) -> None:
    said = service.count("loaded 95 %")
    loading = service.restart(Orders(talk_seconds=TALK_SECONDS))
    service.wait_ready()
    assert service.engine().pid == loading.pid
    assert service.count("loaded 95 %") == said + 1


def test_status_tells_how_far_it_is_and_how_long_it_takes(service: Service) -> None:
    service.restart(Orders(read_seconds=READ_SECONDS))
    one = service.wait_detail(r"loading weights [1-9]\d? %")
    assert (one["phase"], one["verified"]) == ("starting", False)
    # By earlier starts, or by this one's own rate once it takes longer than they did.
    service.wait_detail(r"loading weights \d\d? %, less than 1 min left")
    service.wait_ready()


def test_nonsense_is_noticed_and_mended(service: Service) -> None:
    sane = service.restart(Orders())
    service.recover()
    said = service.count("it no longer generates")
    os.kill(sane.pid, signal.SIGUSR1)
    wait_until(lambda: service.count("it no longer generates") > said)
    service.recover()
    assert "one character over and over" in service.stoker.succeed("logs").stdout
    assert service.engine().pid != sane.pid


def test_an_engine_that_the_kernel_kills_comes_back(service: Service) -> None:
    said = service.count("ended by SIGKILL (not by the guard; often the kernel")
    killed = service.engine()
    assert service.restart(Orders()).pid != killed.pid
    service.recover()
    assert service.count("ended by SIGKILL (not by the guard; often the kernel") == said + 1


def test_a_stop_while_it_loads_ends_all(service: Service) -> None:
    service.restart(Orders(talk_seconds=60))
    service.wait_detail("loading weights")
    service.stoker.succeed("stop", NAME)
    assert not service.stoker.stamped()
    order(service.program, Orders())
    # It puts the guard's orders right.
    service.stoker.succeed("start", NAME)
    service.shorten_looks()
