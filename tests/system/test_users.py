"""Who runs what: nothing that serves may be root, and nobody needs to be root to serve."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import typer

import stoker as package
from tests.conftest import PROJECT
from tests.system.conftest import NewStoker
from tests.system.runner import DOWNLOAD_SECONDS, Stoker, ask, free_port, write_small

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")

AS_NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")


@pytest.mark.timeout(DOWNLOAD_SECONDS, func_only=True)
def test_service_is_unprivileged_and_apart(
    new_stoker: NewStoker, tmp_path: Path, open_data: Path
) -> None:
    """From nothing, in a folder that every user may enter, and free of this checkout."""
    key = tmp_path / "key"
    key.write_text("a-key\n")
    changes = {"service.user": None, "serve.api_key_file": str(key)}
    stoker = new_stoker(data=open_data)
    stoker.patience_seconds = DOWNLOAD_SECONDS
    stoker.succeed("apply", write_small(tmp_path, changes, port=free_port()))
    (engine,) = stoker.engines()
    user_id = os.geteuid() or pwd.getpwnam("nobody").pw_uid
    assert engine.user_id == user_id
    copy = stoker.key_copy().stat()
    assert (copy.st_mode & 0o7777, copy.st_uid) == (0o400, user_id)
    assert ask(stoker.status()["url"], key="a-key")[0] == 200
    for process in (*stoker.stamped(), *stoker.daemons()):
        foreign = process.places().replace(str(stoker.state), "").splitlines()
        for place in (str(PROJECT), _place_of(package)):
            assert [line for line in foreign if place in line] == []


@pytest.fixture
def unprivileged(new_stoker: NewStoker) -> Iterator[Stoker]:
    """A Stoker of the user nobody, on an interpreter that this user may run."""
    with tempfile.TemporaryDirectory(prefix="stoker-test-", dir="/var/tmp") as name:
        place = Path(name)
        os.chown(place, pwd.getpwnam("nobody").pw_uid, -1)
        stoker = new_stoker(place / "state", prefix=AS_NOBODY)
        stoker.place = place
        stoker.env["HOME"] = name
        stoker.env["PYTHONPATH"] = f"{_place_of(package)}:{_place_of(typer)}"
        stoker.python = next(map(str, stoker.data.rglob("llamacpp-*/bin/python")))
        if _said(stoker, "-c", "import stoker.cli.world; print('works')") != "works":
            pytest.skip("nobody cannot run this checkout")
        yield stoker
        stoker.close()


@as_root
def test_nobody_serves_without_root(unprivileged: Stoker) -> None:
    file = write_small(unprivileged.place, {"service.user": None}, port=free_port())
    unprivileged.succeed("apply", file)
    users = {process.user_id for process in (*unprivileged.stamped(), *unprivileged.daemons())}
    assert users == {pwd.getpwnam("nobody").pw_uid}
    assert ask(unprivileged.status()["url"])[0] == 200
    unprivileged.succeed("down")
    assert not unprivileged.daemons()


@as_root
def test_nobody_cannot_use_a_folder_of_root(unprivileged: Stoker) -> None:
    place = unprivileged.place
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    unprivileged.env["STOKER_STATE"] = str(closed / "state")
    assert "this user may not" in unprivileged.refuse(2, "up")
    closed.chmod(0o755)
    assert "this user may not" in unprivileged.refuse(2, "up")
    unprivileged.env["STOKER_STATE"] = str(closed)
    assert "belongs to root, and this is nobody" in unprivileged.refuse(2, "up")


def _place_of(module: ModuleType) -> str:
    """The folder that a package was imported from."""
    return str(Path(module.__path__[0]).parent)


def _said(stoker: Stoker, *words: str) -> str:
    argv = [*AS_NOBODY, stoker.python, *words]
    done = subprocess.run(
        argv, env=stoker.env, cwd=stoker.place, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
