"""State and data folders of every unpleasant kind."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from pathlib import Path

import pytest

from tests.system.conftest import NewStoker, NewTmpfs
from tests.system.runner import edit, write_small

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")

#: Blanks, quotes, a percent sign, letters of other scripts, comment signs, a shell's own signs.
STRANGE = 'it\'s 100% "mine" é 日本;$(x)&'


def test_folder_of_somebody_is_left_alone(new_stoker: NewStoker, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir(mode=0o755)
    (folder / "cat.jpg").write_bytes(b"meow")
    stoker = new_stoker(folder)
    for words in (["up"], ["status"], ["apply", write_small(tmp_path, port=1)]):
        assert "is not a state folder of Stoker" in stoker.refuse(2, *words)
    assert [path.name for path in folder.iterdir()] == ["cat.jpg"]
    assert folder.stat().st_mode & 0o777 == 0o755


def test_state_folder_that_is_a_file(new_stoker: NewStoker, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is not a folder" in new_stoker(tmp_path / "file").refuse(2, "up")


@as_root
def test_state_folder_of_another_user(new_stoker: NewStoker, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    error = new_stoker(folder).refuse(2, "up")
    assert "belongs to nobody, and this is root" in error
    assert list(folder.iterdir()) == []


def test_read_only_state_folder(new_stoker: NewStoker, tmpfs: NewTmpfs, small: str) -> None:
    disk = tmpfs(512)
    stoker = new_stoker(disk / "state")
    stoker.succeed("plan", small)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for words in (["apply", small], ["plan", small]):
        assert "read-only" in stoker.refuse(2, *words).lower()
    stoker.succeed("status")


@pytest.mark.parametrize("size_kib", [4, 32, 312])
def test_full_disk_of_the_state(
    new_stoker: NewStoker, tmpfs: NewTmpfs, small: str, *, size_kib: int
) -> None:
    """Too small for the lock, for the journal, for what is written once the engine runs."""
    stoker = new_stoker(tmpfs(size_kib) / "state")
    before = stoker.look()
    result = stoker.run("apply", small)
    assert result.exit_code in (2, 3, 7), result
    assert "no space left" in result.error.lower()
    assert stoker.look() == before
    assert not stoker.daemons()


def test_disk_that_is_too_small_for_the_data(
    new_stoker: NewStoker, tmpfs: NewTmpfs, small: str
) -> None:
    disk = tmpfs(4096)
    stoker = new_stoker(data=disk)
    error = stoker.refuse(3, "apply", small)
    assert f"{disk}/" in error
    assert "and has 4.0 MiB free [safety.disk-space]" in error
    edit(small, {"accept": ["safety.disk-space"]})
    stoker.refuse(7, "apply", small)
    left = [path for path in disk.rglob("*") if path.is_file() and path.stat().st_size]
    assert left == []


@pytest.mark.parametrize("name", [STRANGE, "long-" * 40])
def test_strange_names(new_stoker: NewStoker, tmp_path: Path, small: str, *, name: str) -> None:
    """A path too long for a socket, and one that is hard to quote, are as good as others."""
    stoker = new_stoker(tmp_path / name / "state")
    stoker.succeed("apply", small)
    assert stoker.status()["verified"]
    definition = (stoker.state / "supervisor" / "supervisord.conf").read_text("utf-8")
    (socket,) = re.findall("^file=(.*)$", definition, re.MULTILINE)
    place = Path(socket.replace("%%", "%"))
    assert place.is_socket()
    stoker.succeed("down")
    assert not stoker.stamped()
    assert not stoker.daemons()
    assert not place.exists()


def test_name_that_supervisord_cannot_hold(new_stoker: NewStoker, tmp_path: Path) -> None:
    refused = new_stoker(tmp_path / "a ;comment" / "state").run("up")
    assert refused.exit_code == 2
    assert "STOKER_STATE" in refused.error
    assert not (tmp_path / "a ;comment").exists()
