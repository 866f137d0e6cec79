"""`stoker diagnose`: files of any kind, a deployment of this machine, and a repair into a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.cli.failed import telling_cause
from stoker.commands.diagnose import Question, apply_repair, find_diagnosis
from stoker.commands.diagnose_deployment import diagnose_failed_apply
from stoker.commands.fitting_keys import fit_changes
from stoker.commands.log_facts import drop_history, keep_last_start, read_release, read_settings
from stoker.diagnosis.lines import read_lines
from stoker.errors import ApplyFailed, UsageError
from stoker.knowledge.engines import engine_kinds
from stoker.knowledge.releases import load_table_for
from stoker.model.diagnosis import Diagnosis
from stoker.model.document import parse_document, render_document
from stoker.report.diagnosis_text import list_repairs, render_diagnosis
from stoker.spec import parse_deployment
from tests.commands.boxes import Box
from tests.commands.test_failed_start import Failing
from tests.conftest import PROJECT
from tests.laws.worlds import NAME, Machine, apply_variant

RECORDED = PROJECT / "tests" / "recorded" / "engine_logs"
NO_ROOM = (RECORDED / "sglang-0.5.17-h200-no-room.log").read_text()
HEALTHY = (RECORDED / "sglang-0.5.23-processor.log").read_text()
LOG, KERNEL, FILE, PATCH = "/srv/a.log", "/srv/k.log", "/srv/a.yaml", "/srv/a.patch"
XID = "[   12.345678] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
DEPLOYMENT = """\
name: a
engine:
  kind: sglang
  environment: path:/opt/sglang
  settings:
    mem_fraction_static: 0.10  # too little
model: path:/models/a
"""


@pytest.fixture
def box() -> Box:
    made = Box()
    made.host.put(LOG, NO_ROOM)
    return made


def test_a_log_alone_tells_its_engine_and_its_cause(box: Box) -> None:
    found = find_diagnosis(box.world(), Question(logs=(LOG,)))
    diagnosis = found.diagnosis
    first = diagnosis.causes[0]
    assert (diagnosis.engine, first.kind) == ("sglang", "kv-pool-no-room")
    place = first.evidence[0]
    assert NO_ROOM.splitlines()[place.line_number - 1].endswith(place.text[-40:])
    assert first.repairs[0].changes["engine.settings.mem-fraction-static"] > 0.1
    text = render_diagnosis(diagnosis)
    assert f"{LOG}:{place.line_number}" in text
    assert "1. " in text
    assert parse_document(render_document(diagnosis), Diagnosis) == diagnosis


def test_a_log_that_is_piped_in_and_what_the_kernel_said(box: Box) -> None:
    box.host.put(KERNEL, XID)
    piped = Question(logs=("-",), kernel=(KERNEL,), stdin=iter([NO_ROOM.encode()]))
    diagnosis = find_diagnosis(box.world(), piped).diagnosis
    assert {each.kind for each in diagnosis.causes} >= {"xid-79-off-bus", "kv-pool-no-room"}
    assert diagnosis.causes[0].kind == "xid-79-off-bus"
    assert [each.kind for each in diagnosis.inputs] == ["log", "kernel"]


def test_a_healthy_log_has_no_failure(box: Box) -> None:
    box.host.put(LOG, HEALTHY)
    diagnosis = find_diagnosis(box.world(), Question(logs=(LOG,))).diagnosis
    assert not [each for each in diagnosis.causes if each.gravity == "error"]


def test_a_repair_goes_into_the_file_in_its_own_spelling(box: Box, tmp_path_file: str) -> None:
    found = find_diagnosis(box.world(), Question(logs=(LOG,), file=tmp_path_file))
    assert found.diagnosis.name == "a"
    numbers = [
        number
        for number, repair in enumerate(list_repairs(found.diagnosis), 1)
        if "engine.settings.mem-fraction-static" in repair.changes
    ]
    with pytest.raises(UsageError, match="there is no repair 99"):
        apply_repair(box.world(), found, 99)
    deployment = parse_deployment(found.text, tmp_path_file, engine_kinds=engine_kinds())
    changes = list_repairs(found.diagnosis)[numbers[0] - 1].changes
    fitted = fit_changes(changes, deployment, load_table_for("sglang", None))
    assert list(fitted) == ["engine.settings.mem_fraction_static"]


@pytest.fixture
def tmp_path_file(tmp_path: Path) -> str:
    path = tmp_path / "a.yaml"
    path.write_text(DEPLOYMENT)
    return str(path)


def test_a_patch_of_the_deployment(box: Box) -> None:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/env/site-packages/sglang/srt/overlap.py", line 1, in step\n'
        "AttributeError: 'Overlap' object has no attribute 'plan'\n"
    )
    box.host.put(LOG, trace)
    box.host.put(
        PATCH,
        "--- a/sglang/srt/overlap.py\n+++ b/sglang/srt/overlap.py\n"
        "@@ -1 +1 @@\n-x\n+self.plan = 1\n",
    )
    question = Question(logs=(LOG,), patches=(PATCH,))
    first = find_diagnosis(box.world(), question).diagnosis.causes[0]
    assert first.kind == "patch-partial-initialisation"
    assert PATCH in first.meaning
    box.host.put(PATCH, "hello\n")
    with pytest.raises(UsageError, match="is no unified diff"):
        find_diagnosis(box.world(), question)


def test_an_unexplained_trace_is_unknown(box: Box) -> None:
    box.host.put(
        LOG, 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nOddError: x\n'
    )
    diagnosis = find_diagnosis(box.world(), Question(logs=(LOG,))).diagnosis
    assert diagnosis.causes == ()
    assert [each.text for each in diagnosis.unexplained] == [
        'File "a.py", line 1, in f',
        "OddError: x",
    ]
    assert "not known" in render_diagnosis(diagnosis)


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (Question(logs=("/nowhere",)), "there is no file"),
        (Question(logs=("/srv",)), "is no file"),
        (Question(name="a", logs=(LOG,)), "different things"),
        (Question(bundle="x", logs=(LOG,)), "different things"),
        (Question(logs=(LOG,), engine="nope"), "no engine named nope"),
        (Question(logs=("-", "-")), "can be read once"),
        (Question(name="nobody"), "no deployment named nobody"),
        (Question(), "no deployment yet"),
    ],
)
def test_what_cannot_be(box: Box, question: Question, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        find_diagnosis(box.world(), question)


def test_a_repair_needs_a_file_and_a_number(box: Box) -> None:
    found = find_diagnosis(box.world(), Question(logs=(LOG,)))
    with pytest.raises(UsageError, match="written into a deployment file"):
        apply_repair(box.world(), found, 1)


def test_a_deployment_whose_first_start_failed() -> None:
    machine = Failing("E srv    load_model: error loading model\nllama_model_load: boom\n")
    with pytest.raises(ApplyFailed):
        apply_variant("a")(machine.world())
    by_name = find_diagnosis(machine.world(), Question(name=NAME)).diagnosis
    assert (by_name.name, by_name.engine) == (NAME, "llamacpp")
    assert by_name.causes or by_name.unexplained
    alone = find_diagnosis(machine.world(), Question()).diagnosis
    assert alone == by_name
    assert diagnose_failed_apply(machine.world()) is not None
    kernel = by_name.inputs[-1]
    assert kernel.kind == "kernel"


# --- what a log tells beside its failure ---


def test_settings_and_release_of_a_log() -> None:
    lines = read_lines([NO_ROOM.encode()], "log")
    settings = read_settings(lines, "sglang", "")
    assert settings["mem-fraction-static"] == 0.1
    vllm = (RECORDED / "vllm-0.32.0-processor.log").read_bytes()
    assert read_release(read_lines([vllm], "log"), "vllm").startswith("0.32.0")


def test_what_was_before_a_start_that_came_up_is_history() -> None:
    text = NO_ROOM + HEALTHY + NO_ROOM + NO_ROOM
    lines = read_lines([text.encode()], "log")
    kept = drop_history(lines, "sglang")
    before = len(NO_ROOM.splitlines())
    assert before < kept[0].number < before + 40
    last = keep_last_start(lines, "sglang")
    assert last[0].number > len((NO_ROOM + HEALTHY + NO_ROOM).splitlines())
    assert drop_history(lines, "") == lines
    assert drop_history(lines[:5], "sglang") == lines[:5]


def test_what_a_guard_quotes_begins_no_start() -> None:
    begin = "srv          init: initializing ..."
    quotes = "\n".join(
        ["stoker guard: a: it ended while starting; its last lines:", f"    {begin}"]
    )
    noise = "\n".join(f"line {number}" for number in range(40))
    lines = read_lines([f"{begin}\n{noise}\n{quotes}\n".encode()], "log")
    assert keep_last_start(lines, "llamacpp") == lines
    more = "\n".join(["    x"] * 2 + [begin])
    again = read_lines([f"{begin}\n{noise}\n{quotes}\n{more}\n".encode()], "log")
    assert [line.text for line in keep_last_start(again, "llamacpp")] == [begin]


# --- what an apply that failed says ---


def test_an_apply_that_failed_names_its_first_cause() -> None:
    """The log is another engine's; what tells the cause is a line of a library below both."""
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    machine = Failing(line)
    world = machine.world()
    with pytest.raises(ApplyFailed) as failure, telling_cause(world):
        apply_variant("a")(world)
    assert f"`stoker diagnose {NAME}`" in failure.value.hint
    diagnosis = diagnose_failed_apply(world)
    assert diagnosis is not None
    if diagnosis.causes:
        assert "first cause: " in failure.value.summary
        assert f"[{diagnosis.causes[0].kind}]" in failure.value.summary


def test_an_apply_that_did_not_fail_says_nothing_more() -> None:
    machine = Box()
    world = machine.world()
    with pytest.raises(UsageError) as failure, telling_cause(world):
        raise UsageError("no", "hint")
    assert failure.value.hint == "hint"
    assert diagnose_failed_apply(world) is None


def test_a_deployment_that_runs() -> None:
    machine = Machine()
    apply_variant("a")(machine.world())
    diagnosis = find_diagnosis(machine.world(), Question(name=NAME)).diagnosis
    assert (diagnosis.name, diagnosis.engine) == (NAME, "llamacpp")
    assert not [each for each in diagnosis.causes if each.gravity == "error"]
    assert diagnose_failed_apply(machine.world()) is None
