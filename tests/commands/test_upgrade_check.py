"""`stoker engine`: another release, new names in the file, and what is shown of an engine."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.commands.deployment_file import write_back
from stoker.commands.engine_shown import show_engine, show_flag
from stoker.commands.plan import read_file
from stoker.commands.upgrade_check import check_upgrade, fix_flags
from stoker.commands.world import World
from stoker.errors import UsageError
from stoker.hosts.local import LocalHost
from stoker.ports import Command, CommandResult
from stoker.report.engine_text import render_engine, render_flag
from stoker.report.upgrade_text import render_fixed, render_upgrade
from tests.laws.worlds import Machine

TEXT = """\
name: law
model: path:/m
engine:
  kind: sglang
  environment: path:/opt/v
  settings:
    # how it decodes
    nsa-decode-backend: fa3   # as measured
    torchao-config: int4wo
    tp: 2
gpus: none
"""


def machine(version: str = "0.5.9") -> Machine:
    """A machine with an environment whose engine cannot be imported."""
    made = Machine()
    site = "/opt/v/lib/python3.12/site-packages"
    made.host.put("/opt/v/bin/python3", "", mode=0o755)
    made.host.put("/opt/v/pyvenv.cfg", "version = 3.12.3\n")
    made.host.put(f"{site}/torch-2.9.1+cu128.dist-info/METADATA", "")
    if version:
        made.host.put(f"{site}/sglang-{version}.dist-info/METADATA", "")

    def run(command: Command) -> CommandResult:
        fails = "-c" in command.argv
        said = ("", "ImportError: libcuda.so.1\n") if fails else ("Python 3.12.3", "")
        return CommandResult(
            argv=command.argv, exit_status=int(fails), stdout=said[0], stderr=said[1]
        )

    made.host.commands = run
    return made


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "law.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def world_of(version: str = "0.5.9") -> World:
    world = machine(version).world()
    return replace(world, supervisors={"supervisord": world.supervisor})


def test_the_installed_release_against_another(file: str) -> None:
    upgrade = check_upgrade(world_of(), file, to="0.5.23")
    assert (upgrade.version_from, upgrade.version_to) == ("0.5.9", "0.5.23")
    kinds = {item.name: (item.kind, item.breaks) for item in upgrade.items if item.kind != "chosen"}
    assert kinds == {
        "nsa-decode-backend": ("renamed", True),
        "torchao-config": ("removed", True),
        "tp": ("shortened", False),
    }
    assert upgrade.breaks
    text = render_upgrade(upgrade)
    assert "renamed: nsa-decode-backend is dsa-decode-backend since 0.5.13" in text
    assert f"New names: stoker engine fix-flags {file} --to 0.5.23" in text
    assert "fp4-gemm-backend: flashinfer_cutlass becomes auto" in text


def test_two_releases_by_name(file: str) -> None:
    upgrade = check_upgrade(world_of(""), file, to="0.5.9", since="0.5.8")
    assert not [item for item in upgrade.items if item.breaks]
    assert "Nothing that this file sets stops working." in render_upgrade(upgrade)


def test_a_release_that_nobody_knows(file: str) -> None:
    with pytest.raises(UsageError, match=r"flags of sglang 0\.5\.99 are not known") as error:
        check_upgrade(world_of(), file, to="0.5.99")
    assert "the nearest is 0.5.23" in error.value.hint
    with pytest.raises(UsageError, match="the version of the engine at path:/opt/v") as error:
        check_upgrade(world_of(""), file, to="0.5.23")
    assert "--from" in error.value.hint


def test_a_version_between_releases_is_told(file: str) -> None:
    upgrade = check_upgrade(world_of("0.5.10.dev3"), file, to="0.5.23")
    assert upgrade.known_from == "0.5.9"
    assert upgrade.notes == (
        "the flags of sglang 0.5.10.dev3 are not known; those of 0.5.9 were compared",
    )


def test_new_names_are_written_where_the_old_ones_were(file: str) -> None:
    world = world_of()
    fixed = fix_flags(world, file, to="0.5.23")
    assert fixed.is_written
    assert fixed.renamed == (("nsa-decode-backend", "dsa-decode-backend"), ("tp", "tp-size"))
    assert [words.split()[0] for words in fixed.left] == ["torchao-config"]
    new = TEXT.replace("nsa-", "dsa-").replace("tp:", "tp-size:")
    assert world.host.read_text(file) == new
    assert "nsa-decode-backend -> dsa-decode-backend" in render_fixed(fixed)


def test_a_look_writes_nothing(file: str) -> None:
    world = world_of("0.5.23")
    fixed = fix_flags(world, file, is_trial=True)
    assert (fixed.version, fixed.is_written) == ("0.5.23", False)
    assert world.host.stat(file) is None
    assert "Would write" in render_fixed(fixed)


def test_nothing_to_write(file: str) -> None:
    Path(file).write_text(TEXT.replace("    tp: 2\n", ""), encoding="utf-8")
    world = world_of()
    fixed = fix_flags(world, file)
    assert (fixed.renamed, fixed.is_written) == ((), False)
    assert "No flag has another name" in render_fixed(fixed)


def test_what_is_shown_of_an_engine(file: str) -> None:
    shown = show_engine(world_of(), file)
    assert (shown.engine, shown.version, shown.flag_count) == ("sglang", "0.5.9", 331)
    assert shown.stack["torch"] == "2.9.1+cu128"
    assert shown.stack["cuda"] == "12.8"
    assert shown.notes == ("the engine is asked as nobody, which needs setpriv (util-linux)",)
    text = render_engine(shown)
    assert "flags         331, those of the published release 0.5.9" in text
    assert json.dumps(dict(shown.stack))


def test_what_is_shown_of_a_flag(file: str) -> None:
    there = render_flag(show_flag(world_of(), file, "--nsa-decode-backend"))
    assert "releases      0.5.6 to 0.5.19" in there
    assert "set to        fa3" in there
    gone = render_flag(show_flag(world_of("0.5.23"), file, "nsa-decode-backend"))
    assert "this release does not have it" in gone
    assert "it is dsa-decode-backend since 0.5.13" in gone
    assert "set to        fa3" in gone
    misspelt = render_flag(show_flag(world_of(), file, "moe-runner-backed"))
    assert "did you mean moe-runner-backend?" in misspelt
    assert "nothing: the engine decides" in misspelt


@pytest.mark.parametrize("named", ["v0.5.23", "0.5.23", " 0.5.23", "0.5.23.0", "0.5.23+cu130"])
def test_a_release_as_people_write_it(file: str, named: str) -> None:
    assert check_upgrade(world_of(), file, to=named).version_to == "0.5.23"


def test_releases_that_are_none(file: str) -> None:
    with pytest.raises(UsageError, match="a release of sglang is wanted") as error:
        check_upgrade(world_of(), file, to="")
    assert error.value.hint == "as 0.5.23"
    for odd in ("9" * 5000, "0.5.23rc1", "0.5.8.post" + "9" * 5000, "x"):
        with pytest.raises(UsageError, match="are not known") as error:
            check_upgrade(world_of(), file, to=odd)
        assert len(error.value.summary) < 200


def test_what_was_written_meanwhile_is_not_lost(file: str) -> None:
    world = world_of()
    answer = world.host.commands  # type: ignore[attr-defined]

    def write_and_run(command: Command) -> CommandResult:
        Path(file).write_text(f"{TEXT}# mine\n", encoding="utf-8")
        result: CommandResult = answer(command)
        return result

    world.host.commands = write_and_run  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="changed meanwhile; nothing was written"):
        fix_flags(world, file, to="0.5.23")
    assert world.host.stat(file) is None


def test_a_link_stays_and_its_file_keeps_mode_and_owner(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_text(TEXT, encoding="utf-8")
    link = tmp_path / "link.yaml"
    link.symlink_to("real.yaml")
    made = machine()
    made.host.put(str(real), TEXT, mode=0o640, owner="nobody")
    made.host.users.add("nobody")
    world = made.world()
    write_back(world, str(link), TEXT, "name: new\n")
    stat = world.host.stat(str(real))
    assert stat is not None
    assert (stat.mode, stat.owner) == (0o640, "nobody")
    assert world.host.read_text(str(real)) == "name: new\n"
    assert world.host.stat(str(link)) is None


def test_a_real_link_stays(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_text("a: 1\n", encoding="utf-8")
    real.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to("real.yaml")
    host = LocalHost()
    found = host.stat(str(real))
    assert found is not None
    write_back(replace(world_of(), host=host, me=found.owner), str(link), "a: 1\n", "b: 2\n")
    assert link.is_symlink()
    assert (real.read_text(), real.stat().st_mode & 0o777) == ("b: 2\n", 0o640)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.yaml"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(UsageError, match=r"is not a file|cannot be read"):
        read_file(str(path))
