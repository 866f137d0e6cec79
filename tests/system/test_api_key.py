"""A server with a key: who gets in, and where the key must never stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.runner import NAME, Result, Stoker, ask, free_port, write_small

KEY = "k3y-0f-the-0wner"
NEW_KEY = "an0ther-key"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def keyed(tmp_path: Path, key_file: Path) -> str:
    changes = {"serve.api_key_file": str(key_file)}
    return write_small(tmp_path, changes, port=free_port())


def test_only_the_key_opens_and_it_is_told_to_nobody(
    stoker: Stoker, keyed: str, key_file: Path
) -> None:
    said = [stoker.succeed("apply", keyed)]
    url = stoker.status()["url"]
    assert ask(url)[0] == 401
    assert ask(url, key="wrong")[0] == 401
    assert ask(url, key=KEY)[0] == 200
    said += [stoker.succeed("verify"), stoker.succeed("plan", keyed), stoker.succeed("logs")]
    first = stoker.look().running

    key_file.write_text(f"{NEW_KEY}\n")
    planned = stoker.succeed("plan", keyed)
    assert f"> restart {NAME}" in planned.stdout
    assert str(stoker.key_copy()) in planned.stdout
    said += [planned, stoker.succeed("apply", keyed)]
    assert stoker.look().running != first
    assert ask(url, key=KEY)[0] == 401
    assert ask(url, key=NEW_KEY)[0] == 200

    for key in (KEY, NEW_KEY):
        assert_told_to_nobody(stoker, key, said)
    copy = stoker.key_copy()
    assert copy.stat().st_mode & 0o7777 == 0o400
    stoker.succeed("down")
    assert not copy.exists()


def assert_told_to_nobody(stoker: Stoker, key: str, said: list[Result]) -> None:
    """Not on a command line, in an environment, in anything that was printed or recorded."""
    for process in (*stoker.stamped(), *stoker.daemons()):
        assert key not in " ".join(process.argv)
        assert key not in " ".join(process.env.values())
    for result in said:
        assert key not in result.stdout + result.stderr
    for folder in ("deployments", "plans", "logs", "supervisor"):
        assert key not in stoker.text_of(folder)
    for run in (stoker.state / "runs").iterdir():
        kept = run / "images"
        texts = [path for path in run.rglob("*") if path.is_file() and kept not in path.parents]
        assert key not in "".join(path.read_text() for path in texts)
        assert run.stat().st_mode & 0o077 == 0


def test_key_file_that_is_missing_or_empty(stoker: Stoker, keyed: str, key_file: Path) -> None:
    key_file.write_text("\n")
    assert "holds no key" in stoker.refuse(3, "apply", keyed)
    key_file.unlink()
    error = stoker.refuse(3, "apply", keyed)
    assert f"{key_file} does not exist" in error
    assert "openssl rand" in error


def test_key_file_that_others_can_read(stoker: Stoker, keyed: str, key_file: Path) -> None:
    key_file.chmod(0o644)
    assert "other users of this machine have access" in stoker.succeed("plan", keyed).stdout
