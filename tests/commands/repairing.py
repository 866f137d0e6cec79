"""A machine in memory with GPUs whose engine answers well with some kernels alone.

For tests of `apply --repair`. Commands, planner, journal, roll-back and contract are the real ones;
only the machine and the engine's kernels are made up.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.commands import apply as apply_command
from stoker.commands import start_attempt as start_command
from stoker.commands.resolve import Resolved
from stoker.commands.resolve import resolve as resolve_genuinely
from stoker.commands.world import World
from stoker.fake_engine.core import Core
from stoker.fake_engine.direct import DirectEndpoint
from stoker.fake_engine.script import Script
from stoker.model.contract import Exchange, Request
from stoker.model.facts import Facts, Observation
from stoker.state.documents import read_current
from tests.commands.test_upgrade_check import machine
from tests.fakes.supervisor import Running
from tests.laws.worlds import FOLDERS, STATE, ListReporter, Machine
from tests.probes.model_files import build_safetensors

NAME = "qwen"
CONFIG = Path(__file__).parent.parent / "golden" / "configs" / "qwen3.5-397b-nvfp4.json"
LOG = f"{STATE}/logs/{NAME}.log"
PRO = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
TEXT = """\
# The large one.
name: qwen
model: path:/m
engine:
  kind: sglang
  environment: path:/opt/v
  settings:
    tp: 4   # two pairs
    attention-backend: flashinfer
gpus: all
serve: {port: 30000, published_name: qwen, context_tokens: 8192}
contract: {require: [chat_answer, published_name]}
service: {user: root}
"""

#: Whether the engine answers rightly when started so: its flags with their values.
IsRight = Callable[[Mapping[str, str]], bool]


def flags_of(argv: tuple[str, ...]) -> dict[str, str]:
    """The flags of a command line, without dashes."""
    words = [*argv, "--"]
    return {
        word.lstrip("-"): ("" if words[at + 1].startswith("--") else words[at + 1])
        for at, word in enumerate(argv)
        if word.startswith("--")
    }


class Kernels:
    """The machine, and what its engine was started with, one start after the other.

    ``is_right`` answers well, everything else with nonsense; ``crashes`` gives a log with which a
    start ends, None for one that serves.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, is_right: IsRight) -> None:
        self.machine: Machine = machine("0.5.23")
        self.is_right = is_right
        self.crashes: Callable[[Mapping[str, str]], str | None] = lambda _: None
        self.started: list[dict[str, str]] = []
        self.reporter = ListReporter()
        self.machine.host.put("/m/config.json", CONFIG.read_text())
        self.machine.host.put(
            "/m/model.safetensors",
            build_safetensors({"model.embed_tokens.weight": ("BF16", (8, 8), 128)}),
        )
        ready = self.machine.supervisor.has_begun

        def begin(name: str, running: Running) -> None:
            flags = self.flags()
            self.started.append(flags)
            log = self.crashes(flags)
            if log is not None:
                self.machine.host.put(LOG, log)
                self.machine.supervisor.crash(name)
                return
            self._guard(name, running)

        assert ready is not None
        self.machine.supervisor.has_begun = begin
        for module in (apply_command, start_command):
            monkeypatch.setattr(module, "resolve", self._resolve)
        # The lock is the kernel's own, so it needs a real file, which this machine's folders lack.
        self._locks = tempfile.TemporaryDirectory()
        lock = f"{self._locks.name}/lock"
        monkeypatch.setattr("stoker.commands.converge.lock_path", lambda folders: lock)

    def world(self) -> World:
        """A Stoker on it."""
        world = self.machine.world()
        return replace(
            world,
            reporter=self.reporter,
            supervisors={"supervisord": world.supervisor, "fake": world.supervisor},
            connect=lambda host, port, key: _Answers(self),
        )

    def flags(self) -> dict[str, str]:
        """What the deployment in force is started with."""
        current = read_current(self.machine.host, FOLDERS, NAME)
        return flags_of(current.launch.argv) if current else {}

    def running(self) -> str | None:
        """The digest that the engine's process carries, None where none runs."""
        return self.machine.supervisor.running.get(NAME)

    def said(self) -> list[str]:
        """What was told while it worked."""
        return [event.text for event in self.reporter.events if event.subject == "repair"]

    def _guard(self, name: str, running: Running) -> None:
        # The law's machine judges by digests: all of ours are right as far as its guard knows.
        broken = not self.is_right(self.flags())
        self.machine.broken = {running.digest} if broken else set()
        self.machine._guard(name, running)

    def _resolve(self, world: World, source: str, origin: str) -> Resolved:
        resolved = resolve_genuinely(world, source, origin)
        rows: list[dict[str, Any]] = [
            {
                "index": n,
                "uuid": f"GPU-{n}",
                "name": PRO,
                "compute_capability": "12.0",
                "memory_total_bytes": 97887 << 20,
                "memory_used_bytes": 0,
                "pci_bus_id": f"0000:{n + 1:02x}:00.0",
                "processes": [],
            }
            for n in range(4)
        ]
        told = Observation(
            probe="gpus",
            source="a test",
            value={"gpus": rows, "cuda_version": "13.0", "driver_version": "580.65.06"},
        )
        facts = Facts(
            host="x",
            stoker_version="1",
            observations={**resolved.facts.observations, "gpus": told},
        )
        # Resolved again, as a real look at such a machine would have been.
        return _again(world, resolved, facts)


class _Answers:
    """The engine's interface."""

    url = "http://127.0.0.1:30000"

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def exchange(self, request: Request) -> Exchange:
        if self._kernels.machine.supervisor.running.get(NAME) is None:
            return Exchange(request=request, error="refused", error_kind="refused")
        script = Script(names=(NAME,))
        if not self._kernels.is_right(self._kernels.flags()):
            script = script.saying("!!!!!!!!")
        return DirectEndpoint(Core(script)).exchange(request)


def _again(world: World, resolved: Resolved, facts: Facts) -> Resolved:
    from stoker.commands.kept_repairs import propose_kept, without_own
    from stoker.commands.repair import subject_of
    from stoker.commands.resolve import resolve_launch

    subject = replace(subject_of(resolved), facts=facts, settings=())
    kept = propose_kept(world, subject, resolved.model)
    proposed = without_own(kept, resolved.deployment, resolved.table)
    launch = resolve_launch(
        resolved.deployment, facts, resolved.table, resolved.place, proposed=proposed
    )
    return replace(
        resolved, facts=facts, launch=launch, proposed=proposed, kept=kept, preparations=()
    )
