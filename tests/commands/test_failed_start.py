"""A start that fails: its log outlives the roll-back, and the error shows where it began."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.commands.log_marks import START_BYTES, LogMarks
from stoker.errors import ApplyFailed, Interrupted
from stoker.model.contract import Exchange, Request
from stoker.model.layout import engine_log_path
from tests.fakes.supervisor import Running
from tests.laws.worlds import FOLDERS, NAME, STATE, FakeClock, Machine, apply_variant

LOG = f"{STATE}/logs/{NAME}.log"
CAUSE = "E srv    load_model: error loading model: tensor 'blk.16' is not within the file"
AFTER = [f"0.00.{number:03} I srv: cleaning up {number}" for number in range(40)]


class Failing(Machine):
    """A machine on which an engine writes its log and ends."""

    def __init__(self, log: str) -> None:
        super().__init__()
        super().world().open_state()
        self.host.put(LOG, "an earlier start\n")
        self.log = log
        self.supervisor.has_begun = self._end

    def _end(self, name: str, running: Running) -> None:
        self.host.put(LOG, self.host.read_text(LOG) + self.log)
        self.supervisor.crash(name)


class Refusing:
    """A server that does not answer."""

    url = "http://127.0.0.1:1"

    def exchange(self, request: Request) -> Exchange:
        return Exchange(request=request, error="refused")


def kept(machine: Machine) -> list[str]:
    return [path for path in machine.host.snapshot() if path.endswith("/engine.log")]


def test_the_log_of_a_failed_first_start_is_kept() -> None:
    machine = Failing("\n".join([CAUSE, *AFTER, "the process ends"]) + "\n")
    with pytest.raises(ApplyFailed) as failure:
        apply_variant("a")(machine.world())
    assert machine.host.stat(LOG) is None
    (path,) = kept(machine)
    assert f"\nthe whole log: {path}\n" in failure.value.summary
    assert machine.host.read_text(path) == machine.log
    stat = machine.host.stat(path)
    assert stat is not None
    assert stat.mode == 0o600
    assert "the first error in its log, and the end:\n" + f"    {CAUSE}" in failure.value.summary
    assert failure.value.summary.count("I srv: cleaning up") < 4
    assert "    the process ends" in failure.value.summary


def test_an_engine_that_wrote_nothing_leaves_no_log() -> None:
    machine = Failing("")
    with pytest.raises(ApplyFailed) as failure:
        apply_variant("a")(machine.world())
    assert kept(machine) == []
    assert "it wrote nothing" in failure.value.summary
    assert "the whole log" not in failure.value.summary


def test_an_interrupted_start_keeps_its_log_too() -> None:
    machine = Machine()

    class Interrupting(FakeClock):
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    def begin(name: str, running: Running) -> None:
        machine.host.put(LOG, "loading for ever\n")

    machine.supervisor.has_begun = begin
    world = replace(machine.world(), clock=Interrupting(), connect=lambda *_: Refusing())
    with pytest.raises(Interrupted):
        apply_variant("a")(world)
    (path,) = kept(machine)
    assert machine.host.read_text(path) == "loading for ever\n"


def test_no_more_than_the_end_is_kept_and_the_first_copy_stays() -> None:
    machine = Machine()
    world = machine.world()
    marks = LogMarks(world)
    machine.host.put(LOG, "x" * (START_BYTES + 10) + "end")
    path = marks.keep(NAME, "000001-run")
    assert path == engine_log_path(FOLDERS, "000001-run")
    content = machine.host.read_bytes(path, 0, 2 * START_BYTES)
    assert len(content) == START_BYTES
    assert content.endswith(b"end")
    assert marks.keep(NAME, "000001-run") == ""
    assert marks.keep("other", "000002-run") == ""
