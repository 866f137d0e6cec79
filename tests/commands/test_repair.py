"""`apply --repair` on a machine in memory: what it tries, where it ends, and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.commands import resolve as resolve_command
from stoker.commands.converge import exclusive
from stoker.commands.explain import explain_file
from stoker.commands.repair import Repaired, RepairWish, apply_repairing
from stoker.diagnosis import deciding
from stoker.errors import ApplyFailed, Interrupted, UsageError
from stoker.knowledge.causes import load_causes
from stoker.knowledge.rules import load_rules
from stoker.model.explanation import Explained
from stoker.model.launch import Origin
from stoker.report.explained_text import render_explained
from stoker.state.documents import read_current, read_verification
from tests.commands.repairing import NAME, TEXT, Kernels
from tests.fakes.host import Crash
from tests.laws.worlds import FOLDERS

#: The pair that nobody would guess, and the attention of hybrid models.
TRIPLE = {
    "moe-runner-backend": "flashinfer_cutlass",
    "fp4-gemm-backend": "flashinfer_cudnn",
    "attention-backend": "triton",
}


def has_triple(flags: Mapping[str, str]) -> bool:
    return TRIPLE.items() <= flags.items()


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = tmp_path / "qwen.yaml"
    path.write_text(TEXT)
    return str(path)


def put_file(kernels: Kernels, path: str) -> None:
    """The file on the machine in memory, where it is written back."""
    kernels.machine.host.put(path, Path(path).read_text())


def repair(kernels: Kernels, path: str, **wish: Any) -> Repaired:
    put_file(kernels, path)
    return apply_repairing(kernels.world(), path, RepairWish(**wish))


def file_of(kernels: Kernels, path: str) -> str:
    return kernels.machine.host.read_text(path)


def forget_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rule chooses kernels, and of the repairs only those stay that try the table in order."""
    rules = tuple(rule for rule in load_rules() if not rule.id.startswith("backend."))
    monkeypatch.setattr(resolve_command, "load_rules", lambda: rules)
    causes = {
        kind: replace(row, repair=tuple(each for each in row.repair if each.tries))
        for kind, row in load_causes().items()
    }
    monkeypatch.setattr(deciding, "load_causes", lambda: causes)


def test_the_nan_from_knowledge_alone(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    kernels = Kernels(monkeypatch, has_triple)
    repaired = repair(kernels, path)
    (attempt,) = repaired.attempts
    assert attempt.outcome == "verified"
    assert len(kernels.started) == 2
    assert not has_triple(kernels.started[0])
    assert has_triple(kernels.started[1])
    found = read_verification(kernels.machine.host, FOLDERS, NAME)
    assert found is not None
    assert found.has_passed
    text = file_of(kernels, path)
    assert "    attention-backend: triton" in text
    assert "fp4-gemm-backend: flashinfer_cudnn" in text
    assert "tp: 4   # two pairs" in text
    assert text.startswith("# The large one.\n")
    assert repaired.unwritten == ""


def test_the_nan_by_the_table_in_order(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    forget_rules(monkeypatch)
    kernels = Kernels(monkeypatch, has_triple)
    repaired = repair(kernels, path, attempts=12)
    tried = [dict(each.changes) for each in repaired.attempts]
    assert repaired.attempts[-1].outcome == "verified"
    assert all(each.outcome == "failed" for each in repaired.attempts[:-1])
    assert len(tried) == len({str(sorted(each.items())) for each in tried}) <= 12
    # The best name of each choice alone, then two of them, then all three.
    assert [len(each) for each in tried[:3]] == [1, 1, 1]
    assert {key.removeprefix("engine.settings."): to for key, to in tried[-1].items()} == TRIPLE


def test_one_backend_by_the_table(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    forget_rules(monkeypatch)
    kernels = Kernels(monkeypatch, lambda flags: flags.get("attention-backend") == "triton")
    repaired = repair(kernels, path)
    assert repaired.changes == {"engine.settings.attention-backend": "triton"}
    assert len(repaired.attempts) == 3


def test_a_server_that_is_right_is_left_alone(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    kernels = Kernels(monkeypatch, lambda flags: True)
    repaired = repair(kernels, path)
    assert repaired.attempts == ()
    assert file_of(kernels, path) == TEXT


def test_what_worked_is_evidence(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    kernels = Kernels(monkeypatch, has_triple)
    assert repair(kernels, path).kept
    # The next file of the same wish names no kernel at all.
    bare = TEXT.replace("    attention-backend: flashinfer\n", "")
    Path(path).write_text(bare)
    monkeypatch.setattr("stoker.commands.explain.resolve", kernels._resolve)
    explained = explain_file(kernels.world(), path)
    by_name = {each.name: each.setting for each in explained.explanations}
    chosen = by_name["--attention-backend"]
    assert chosen is not None
    assert (chosen.origin, chosen.value) == (Origin.EVIDENCE, "triton")
    text = render_explained(explained)
    assert "chosen by evidence low-precision-bad-output: it mended qwen on 2023-11-14" in text
    assert "2 promises kept with it" in text
    kernels.started.clear()
    put_file(kernels, path)
    assert apply_repairing(kernels.world(), path, RepairWish()).attempts == ()
    # Another wish gets nothing of it.
    Path(path).write_text(bare.replace("8192", "4096"))
    settings = {each.name: each for each in kernels_settings(kernels, path)}
    assert settings.get("--fp4-gemm-backend") is None
    # A file's own word goes before it; who asks hears of it.
    Path(path).write_text(TEXT)
    settings = {each.name: each for each in kernels_settings(kernels, path)}
    assert settings["--attention-backend"].origin is Origin.USER
    (told,) = explain_file(kernels.world(), path, flag="attention-backend").explanations
    assert told.setting is not None
    assert [each.origin for each in told.setting.instead_of] == [Origin.EVIDENCE]


def test_a_plan_after_a_repair_is_empty(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    kernels = Kernels(monkeypatch, has_triple)
    repair(kernels, path)
    mended = file_of(kernels, path)
    Path(path).write_text(mended)
    put_file(kernels, path)
    again = apply_repairing(kernels.world(), path, RepairWish())
    assert again.applied.converged.run == ""
    text = render_explained(explained_with(kernels, monkeypatch, path))
    assert "as evidence low-precision-bad-output says: it mended qwen" in text


def explained_with(kernels: Kernels, monkeypatch: pytest.MonkeyPatch, path: str) -> Explained:
    monkeypatch.setattr("stoker.commands.explain.resolve", kernels._resolve)
    return explain_file(kernels.world(), path, flag="attention-backend")


def kernels_settings(kernels: Kernels, path: str) -> tuple[Any, ...]:
    return kernels._resolve(kernels.world(), Path(path).read_text(), path).launch.settings


def test_damaged_evidence_is_a_note(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    kernels = Kernels(monkeypatch, has_triple)
    kept = repair(kernels, path).kept
    kernels.machine.host.put(kept, '{"schema": "kept-repairs/1", "engine": []}')
    kernels_settings(kernels, path)
    notes = [event.text for event in kernels.reporter.events]
    assert any("repairs that worked before are not used" in text for text in notes)


def test_a_start_that_crashes_is_diagnosed_by_its_log(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    said = (
        "ValueError: Loaded weights leave no GPU memory for the KV cache under "
        "--mem-fraction-static=0.3. Raise --mem-fraction-static above 0.609 "
        "(minimum viable = 1 - available/pre = 0.6086)."
    )
    kernels = Kernels(monkeypatch, lambda flags: True)
    kernels.crashes = lambda flags: (
        said if float(flags.get("mem-fraction-static", "0.9")) < 0.6 else None
    )
    text = TEXT.replace("attention-backend: flashinfer", "mem-fraction-static: 0.3")
    Path(path).write_text(text)
    repaired = repair(kernels, path, attempts=12)
    assert repaired.attempts[0].cause == "kv-pool-no-room"
    assert repaired.attempts[-1].outcome == "verified"
    assert "mem-fraction-static: 0.3\n" not in file_of(kernels, path)


def test_no_repair_and_the_host_as_it_was(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    kernels = Kernels(monkeypatch, lambda flags: False)
    put_file(kernels, path)
    before = (kernels.machine.look(), kernels.running())
    with pytest.raises(ApplyFailed) as failure:
        apply_repairing(kernels.world(), path, RepairWish(attempts=2))
    assert "No repair was verified: 2 repairs were tried" in failure.value.summary
    assert failure.value.summary.count("    tried: ") == 2
    assert (kernels.machine.look(), kernels.running()) == before
    assert file_of(kernels, path) == TEXT


def test_the_last_good_one_comes_back(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    kernels = Kernels(monkeypatch, lambda flags: flags.get("tp-size") == "4")
    repair(kernels, path)
    running = kernels.running()
    assert running is not None
    Path(path).write_text(TEXT.replace("tp: 4", "tp: 2"))
    with pytest.raises(ApplyFailed):
        repair(kernels, path, attempts=2)
    assert len(kernels.started) == 7  # each of three that failed gave way to the good one again
    assert kernels.running() == running


def test_the_budget_in_minutes(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    kernels = Kernels(monkeypatch, lambda flags: False)
    put_file(kernels, path)
    with pytest.raises(ApplyFailed, match="the time for repairs, 0 minutes, is over"):
        apply_repairing(kernels.world(), path, RepairWish(minutes=0.0))
    assert len(kernels.started) == 1


def test_a_repair_with_consent_is_named_and_not_taken(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    kernels = Kernels(monkeypatch, lambda flags: True)
    needed = "requires you to execute the configuration file in that repo on your local machine"
    kernels.crashes = lambda flags: (
        None
        if "trust-remote-code" in flags
        else f"ValueError: Loading /m {needed}. Please set the option `trust_remote_code=True`"
    )
    put_file(kernels, path)
    with pytest.raises(ApplyFailed) as failure:
        apply_repairing(kernels.world(), path, RepairWish())
    assert "not without consent" in failure.value.summary
    assert "--consent trust-remote-code" in failure.value.hint
    assert all("trust-remote-code" not in flags for flags in kernels.started)
    repaired = apply_repairing(kernels.world(), path, RepairWish(consents=("trust-remote-code",)))
    assert repaired.attempts[-1].outcome == "verified"


def test_a_file_that_was_edited_meanwhile_is_not_written(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    kernels = Kernels(monkeypatch, has_triple)

    def begin(flags: Mapping[str, str]) -> None:
        if has_triple(flags):
            Path(path).write_text(TEXT + "# mine\n")

    kernels.crashes = begin
    repaired = repair(kernels, path)
    assert "was changed meanwhile" in repaired.unwritten
    assert repaired.attempts[-1].outcome == "verified"


def test_a_plan_is_not_repaired(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernels = Kernels(monkeypatch, has_triple)
    saved = tmp_path / "plan.json"
    saved.write_text('{"schema": "plan/3"}')
    with pytest.raises(UsageError, match="is a saved plan"):
        apply_repairing(kernels.world(), str(saved), RepairWish())


def test_ctrl_c_in_the_midst_of_an_attempt(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    kernels = Kernels(monkeypatch, has_triple)
    put_file(kernels, path)
    before = (kernels.machine.look(), kernels.running())

    def interrupt(flags: Mapping[str, str]) -> str | None:
        if len(kernels.started) == 2:
            raise KeyboardInterrupt
        return None

    kernels.crashes = interrupt
    with pytest.raises(Interrupted):
        apply_repairing(kernels.world(), path, RepairWish())
    assert (kernels.machine.look(), kernels.running()) == before
    assert file_of(kernels, path) == TEXT


@pytest.mark.parametrize("share", [n / 24 for n in range(24)])
def test_killed_anywhere_it_is_before_or_verified(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, share: float
) -> None:
    """After kill -9 and the next verb: nothing runs, or what was verified; the file is as it was
    or as it is wanted."""
    path = tmp_path / "qwen.yaml"
    path.write_text(TEXT)
    effects = count_effects(monkeypatch, str(path))
    kernels = Kernels(monkeypatch, has_triple)
    put_file(kernels, str(path))
    before = kernels.running()
    kernels.machine.crash_after(1 + int(share * effects))
    with pytest.raises(Crash):
        apply_repairing(kernels.world(), str(path), RepairWish())
    kernels.machine.revive()
    world = kernels.world()
    with exclusive(replace(world, supervisor=world.supervisors["supervisord"]), "apply"):
        pass
    running = kernels.running()
    assert running == before or has_triple(kernels.flags())
    current = read_current(kernels.machine.host, FOLDERS, NAME)
    assert (current is None) == (running is None)
    assert file_of(kernels, str(path)) in (TEXT, file_when_done(kernels))


def count_effects(monkeypatch: pytest.MonkeyPatch, path: str) -> int:
    kernels = Kernels(monkeypatch, has_triple)
    seen: list[str] = []
    kernels.machine.host.fuse = kernels.machine.supervisor.fuse = lambda moment, effect: (
        seen.append(moment)
    )
    repair(kernels, path)
    return len(seen)


def file_when_done(kernels: Kernels) -> str:
    current = read_current(kernels.machine.host, FOLDERS, NAME)
    return current.source if current else TEXT
