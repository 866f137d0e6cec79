"""Standard streams that are closed, full or gone, and a current folder that is no more."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.system.runner import Stoker


def shell(stoker: Stoker, line: str, *, cwd: Path | None = None) -> tuple[int, str]:
    """Run ``stoker`` in a shell line where ``stoker`` stands for the command."""
    command = f"{shlex.quote(stoker.python)} -m stoker"
    done = subprocess.run(
        ["sh", "-c", line.replace("stoker", command)],
        env=stoker.env,
        cwd=cwd or stoker.place,
        capture_output=True,
        text=True,
        timeout=stoker.patience_seconds,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "line", ["stoker status >&-", "stoker status 2>&-", "stoker status <&- >&- 2>&-"]
)
def test_closed_streams(running: Stoker, line: str) -> None:
    code, said = shell(running, line)
    assert code == 0
    assert "Traceback" not in said


def test_a_full_disk_behind_the_output(running: Stoker) -> None:
    code, said = shell(running, "stoker status >/dev/full")
    assert code == 0
    assert "Traceback" not in said


def test_stop_and_start_need_nobody_to_read_them(running: Stoker) -> None:
    assert shell(running, "stoker stop >&- 2>&- <&-")[0] == 0
    assert running.status()["phase"] == "stopped"
    assert shell(running, "stoker start >/dev/full 2>/dev/full")[0] == 0
    assert running.status()["verified"] is True


def test_a_current_folder_that_is_gone(running: Stoker, running_file: str, tmp_path: Path) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    line = f"rmdir {shlex.quote(str(place))}; stoker apply {shlex.quote(running_file)}"
    code, said = shell(running, line, cwd=place)
    assert code == 0, said
    place.mkdir()
    line = f"rmdir {shlex.quote(str(place))}; stoker init --output x.yaml"
    code, said = shell(running, line, cwd=place)
    assert code == 2
    assert "does not exist any more" in said
