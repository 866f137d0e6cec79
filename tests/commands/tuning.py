"""A machine in memory whose engine has a speed for each configuration, for tests of `stoker tune`.

Commands, planner, journal, contract and search are the real ones; the speeds are made up, and come
in through the argument by which a search measures.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from stoker.commands import explain as explain_command
from stoker.commands import plan as plan_command
from stoker.commands import tune as tune_command
from stoker.commands.bench_traffic import Traffic
from stoker.commands.tune import TuneWish, tune
from stoker.commands.tune_measuring import Measured
from stoker.commands.tune_work import Means, Tuned
from stoker.commands.world import World
from stoker.knowledge.space_rows import SpaceRows, load_space_rows
from stoker.model.campaign import Campaign, Effort
from stoker.model.tuning import Aim, Budget
from stoker.state.campaigns import list_campaigns, read_campaign
from tests.commands.repairing import Kernels
from tests.laws.worlds import FOLDERS

TEXT = """\
# The large one.
name: qwen
model: path:/m
engine:
  kind: sglang
  environment: path:/opt/v
  settings:
    tp: 4   # two pairs
gpus: all
serve: {port: 30000, published_name: qwen, context_tokens: 8192}
contract: {require: [chat_answer, published_name]}
service: {user: root}
"""
KNOBS = ("decode-steps", "overlap")
STEPS, OVERLAP = (
    "num-continuous-decode-steps",
    "disable-overlap-schedule",
)

Flags = Mapping[str, str]
#: The objective's value of an engine that was started with these flags.
Speed = Callable[[Flags], float]


def rows(*knobs: str) -> SpaceRows:
    """Some of the knobs of the engine, without constraints between them."""
    known = load_space_rows("sglang")
    chosen = tuple(row for row in known.knob if row.id in (knobs or KNOBS))
    return replace(known, knob=chosen, cut=())


@dataclass
class Speeds:
    """Measures by a formula. ``found``: what is answered for some flags instead of a speed.

    The noise is half a percent, and the same in every run of a test.
    """

    kernels: Kernels
    speed: Speed
    found: Callable[[Flags, int], Measured | None] = lambda flags, number: None
    asked: list[dict[str, str]] = field(default_factory=list)

    def measure(
        self,
        world: World,
        name: str,
        aim: Aim,
        effort: Effort,
        *,
        traffic: Traffic,
        spared: Collection[str] = (),
    ) -> Measured:
        flags = self.kernels.flags()
        self.asked.append(flags)
        number = len(self.asked)
        found = self.found(flags, number)
        if found is not None:
            return found
        noise = [0.005 * ((number * 7 + each * 3) % 5 - 2) / 2 for each in range(2)]
        values = tuple(self.speed(flags) * (1 + each) for each in noise[: effort.repetitions])
        return Measured(values=values, answer_seconds=1.0)


class Tuning:
    """A deployment file, a machine, and searches on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, speed: Speed) -> None:
        self.kernels = Kernels(monkeypatch, lambda flags: True)
        for module in (tune_command, plan_command, explain_command):
            monkeypatch.setattr(module, "resolve", self.kernels._resolve)
        self.path = str(folder / "qwen.yaml")
        self.write(TEXT)
        self.speeds = Speeds(self.kernels, speed)
        self.broken: Callable[[Flags], Mapping[str, str]] = lambda flags: {}
        self.rows = rows()

    def write(self, text: str) -> None:
        """The file, where it is read and where the machine in memory has it."""
        Path(self.path).write_text(text)
        self.kernels.machine.host.put(self.path, text)

    @property
    def text(self) -> str:
        """The file as it is now. What the machine in memory has written is put on the disk."""
        text = self.kernels.machine.host.read_text(self.path)
        Path(self.path).write_text(text)
        return text

    def wish(self, **wish: Any) -> TuneWish:
        return TuneWish(**{"budget": Budget(restarts=6), **wish})

    def means(self) -> Means:
        return Means(
            measure=self.speeds.measure,
            find_broken=lambda world, name: self.broken(self.kernels.flags()),
            rows=self.rows,
        )

    def tune(self, **wish: Any) -> Tuned:
        """One `stoker tune`."""
        done = tune(self.kernels.world(), self.path, self.wish(**wish), means=self.means())
        assert self.text
        return done

    def campaigns(self) -> list[Campaign]:
        """All searches that were kept, the newest first."""
        host = self.kernels.machine.host
        return [read_campaign(host, FOLDERS, each) for each in list_campaigns(host, FOLDERS)]

    def said(self) -> list[str]:
        """What was told of the search."""
        events = self.kernels.reporter.events
        return [event.text for event in events if event.subject == "tune"]

    def running(self) -> dict[str, str]:
        """The flags of the engine's process, which is the one in force."""
        assert self.kernels.running() is not None
        return self.kernels.flags()


def with_steps(flags: Flags) -> float:
    """Eight steps at once are a fifth better than one; all else is as it was."""
    return 120.0 if flags.get(STEPS) == "8" else 100.0


def flat(flags: Flags) -> float:
    """Nothing makes a difference."""
    return 100.0
