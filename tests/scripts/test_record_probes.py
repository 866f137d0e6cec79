"""Recording what probes read: what it writes is what the tests of recorded cases read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.record_probes import main


def test_a_case_is_written_that_its_probe_understands(tmp_path: Path) -> None:
    assert main([str(tmp_path), "limits", "shm"]) == 0
    for name in ("limits", "shm"):
        files = sorted(path.name for path in (tmp_path / name).iterdir())
        assert files == ["expected.json", "input.json"]
    expected = json.loads((tmp_path / "limits" / "expected.json").read_text(encoding="utf-8"))
    assert set(expected["value"]) == {"memory_lock_bytes", "open_files", "ptrace_scope"}


def test_what_cannot_be_read_is_told_and_leaves_no_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), "draft"]) == 1
    assert capsys.readouterr().err == "draft: no draft model is declared\n"
    assert not list(tmp_path.iterdir())
