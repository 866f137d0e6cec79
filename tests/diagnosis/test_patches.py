"""Failures in code that the deployment's own patches changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.diagnosis.diagnose import diagnose
from stoker.diagnosis.inputs import Inputs
from stoker.diagnosis.lines import read_lines
from stoker.diagnosis.matching import make_matcher
from stoker.diagnosis.patches import is_same_file, parse_patch
from stoker.model.diagnosis import Certainty, Diagnosis

DIFF = """\
diff --git a/python/sglang/srt/managers/scheduler.py b/python/sglang/srt/managers/scheduler.py
index 1..2 100644
--- a/python/sglang/srt/managers/scheduler.py
+++ b/python/sglang/srt/managers/scheduler.py
@@ -10,3 +10,3 @@ class Scheduler:
     def __init__(self):
         self.init_graphs()
+        self.overlap_plan = Plan(self)
--- removed text that looks like a head
diff --git a/gone.py b/gone.py
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x = 1
"""
CRASH = """\
[2026-11-30 22:22:25 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/env/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 9, in run
    self.overlap()
  File "/env/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 90, in overlap
    self.overlap_plan.step()
AttributeError: 'Scheduler' object has no attribute 'overlap_plan'
"""
EARLIER = """\
[2026-11-30 22:22:24 TP0] Capture failed: Traceback (most recent call last):
  File "/env/lib/python3.12/site-packages/sglang/srt/graphs.py", line 5, in capture
RuntimeError: no graph today
[2026-11-30 22:22:24 TP0] going on without graphs
"""


def diagnose_with_patch(text: str, *, is_read: bool = True) -> Diagnosis:
    patch = parse_patch(DIFF)
    inputs = Inputs(
        lines=read_lines([text.encode()], "log"),
        patched_files={"overlap.patch": patch.files},
        patched_names={"overlap.patch": patch.names} if is_read else {},
    )
    return diagnose(inputs, make_matcher(()))


def test_what_a_diff_changes() -> None:
    patch = parse_patch(DIFF)
    assert patch.files == ("python/sglang/srt/managers/scheduler.py", "gone.py")
    assert patch.names == ("overlap_plan",)
    assert parse_patch("hello\n").files == ()
    assert parse_patch("--- a.py\t2026-11-30\n+++ b/a.py\t2026-11-30\n").files == ("a.py",)


@pytest.mark.parametrize(
    ("head", "files"),
    [
        ('"a/\\303\\244/\\"b\\".py"', ('ä/"b".py',)),
        ("a/ä/日本.py", ("ä/日本.py",)),
        ("a/my file.py\t2026-11-30", ("my file.py",)),
        ("/etc/passwd", ("/etc/passwd",)),
        ("a/../../etc/passwd", ("../../etc/passwd",)),
        ('"a/\\377\\', ("\ufffd\\",)),
        ('"', ()),
        ("/dev/null", ()),
    ],
)
def test_paths_as_git_writes_them(head: str, files: tuple[str, ...]) -> None:
    """They are names to compare; nothing is ever opened by them."""
    assert parse_patch(f"--- {head}\n").files == files


@given(st.text(max_size=200) | st.text(alphabet='-+@ ,12"\\a/\n', max_size=200))
def test_any_text_is_read(text: str) -> None:
    parse_patch(f"--- {text}")
    parse_patch(text)


def test_a_large_patch_and_a_long_log() -> None:
    """Each path of a trace is looked up once: pairs of them all would be billions."""
    heads = (f"--- a/sglang/part_{number}/x.py\n" for number in range(50_000))
    frame = '  File "/env/sglang/part_49999/x.py", line 9, in run\n'
    trace = f"Traceback (most recent call last):\n{frame * 50}KeyError: 1\n"
    inputs = Inputs(
        lines=read_lines([(trace * 100).encode()], "log"),
        patched_files={"large.patch": parse_patch("".join(heads)).files},
    )
    (cause,) = diagnose(inputs, make_matcher(())).causes
    assert (cause.kind, cause.certainty) == ("patch-crash", Certainty.CERTAIN)
    assert "part_49999" in cause.meaning


@pytest.mark.parametrize(
    ("patched", "path", "is_same"),
    [
        ("python/sglang/srt/a.py", "/env/site-packages/sglang/srt/a.py", True),
        ("sglang/srt/a.py", "/env/site-packages/sglang/srt/a.py", True),
        ("vllm/a.py", "/env/site-packages/vllm/a.py", True),
        ("python/sglang/srt/a.py", "/env/site-packages/vllm/srt/b.py", False),
        ("python/sglang/srt/x/utils.py", "/env/site-packages/torch/utils.py", False),
        ("a.py", "/srv/a.py", True),
        ("a.py", "", False),
    ],
)
def test_paths_that_end_alike(patched: str, path: str, *, is_same: bool) -> None:
    assert is_same_file(patched, path) is is_same


def test_an_attribute_that_a_patch_sets_too_late() -> None:
    (cause,) = diagnose_with_patch(CRASH).causes
    assert cause.kind == "patch-partial-initialisation"
    assert cause.certainty is Certainty.CERTAIN
    assert "overlap.patch" in cause.meaning
    assert "overlap_plan" in cause.meaning
    assert [each.line_number for each in cause.evidence] == [6, 4]
    assert cause.evidence[0].rank == "TP0"
    assert "overlap.patch" in cause.repairs[0].text


def test_what_failed_before_it_is_shown_first() -> None:
    (cause,) = diagnose_with_patch(EARLIER + CRASH).causes
    assert cause.certainty is Certainty.LIKELY
    assert cause.evidence[0].text == "RuntimeError: no graph today"
    assert "no graph today" in cause.repairs[0].text


def test_another_crash_and_a_trace_that_only_passes_through() -> None:
    other = CRASH.replace(
        "AttributeError: 'Scheduler' object has no attribute 'overlap_plan'", "KeyError: 1"
    )
    (cause,) = diagnose_with_patch(other).causes
    assert (cause.kind, cause.certainty) == ("patch-crash", Certainty.CERTAIN)
    deeper = other.replace("KeyError", '  File "/env/torch/nn.py", line 1, in f\nKeyError')
    (cause,) = diagnose_with_patch(deeper).causes
    assert (cause.kind, cause.certainty) == ("patch-crash", Certainty.LIKELY)
    (cause,) = diagnose_with_patch(CRASH.replace("overlap_plan'", "other'")).causes
    assert cause.kind == "patch-crash"


def test_a_patch_of_which_only_the_files_are_known() -> None:
    (cause,) = diagnose_with_patch(CRASH, is_read=False).causes
    assert (cause.kind, cause.certainty) == ("patch-partial-initialisation", Certainty.LIKELY)


def test_a_crash_elsewhere_is_no_affair_of_the_patch() -> None:
    found = diagnose_with_patch(EARLIER)
    assert found.causes == ()
    assert [each.text for each in found.unexplained][-1] == "RuntimeError: no graph today"
    assert found.unknown
