"""Environments on this machine: real pip, real interpreters, real failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.builds.environment import (
    choose_interpreter,
    environment_path,
    executable_in,
    plan_environment,
)
from stoker.errors import PreparationFailed
from stoker.hosts.local import LocalHost
from stoker.model.event import EventKind
from stoker.model.plan import Folders
from tests.builds.recipes import (
    INTERPRETER,
    LLAMACPP,
    SUPERVISOR,
    SUPERVISORD,
    XLLAMACPP,
    make,
    recipe_of,
)
from tests.preparing.machine import (
    PROJECT,
    ListedEvents,
    folders_in,
    index_env,
    wait_until,
    waiting_pip,
)

HOST = LocalHost()
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount and change users")

#: Makes the environment of the small recipe; killed by the test while its pip waits.
MAKER = """
import sys
from pathlib import Path
from tests.builds.recipes import SUPERVISOR, make, recipe_of
from tests.preparing.machine import folders_in
make(recipe_of(SUPERVISOR), folders_in(Path(sys.argv[1])), pip=tuple(sys.argv[2:]))
"""


def files_below(path: str) -> list[str]:
    return sorted(str(found.relative_to(path)) for found in Path(path).rglob("*"))


@contextmanager
def small_disk(place: Path, options: str) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


class TestMade:
    def test_the_supervisor_runs_from_its_environment(self, supervisord: str) -> None:
        command = [executable_in(supervisord, "supervisord"), "--version"]
        assert subprocess.check_output(command, text=True) == "4.3.0\n"

    @needs_root
    @pytest.mark.skipif(sys.executable == INTERPRETER, reason="no Python that others may run")
    def test_another_user_can_run_it(self, supervisord: str) -> None:
        command = [executable_in(supervisord, "supervisord"), "--version"]
        assert subprocess.check_output(command, text=True, user="nobody", cwd="/") == "4.3.0\n"

    def test_a_launcher_runs_from_a_place_whose_name_has_a_blank(
        self, engine: tuple[str, ListedEvents]
    ) -> None:
        command = [executable_in(engine[0], "llama-server"), "--version"]
        said = subprocess.check_output(command, text=True)
        assert said == f"version: {LLAMACPP.build[1:]} (xllamacpp {XLLAMACPP.version})\n"

    def test_nothing_is_left_beside_the_environment(self, engine: tuple[str, ListedEvents]) -> None:
        environment = Path(engine[0])
        assert sorted(os.listdir(environment.parent)) == [
            f".{environment.name}.lock",
            environment.name,
        ]
        assert not (environment / ".making").exists()

    def test_its_python_is_the_one_that_no_upgrade_moves(self, supervisord: str) -> None:
        marker = json.loads(Path(supervisord, "environment.json").read_text())
        assert marker["interpreter"] == os.path.realpath(INTERPRETER)
        assert marker["packages"] == ["supervisor==4.3.0"]

    def test_progress_never_goes_back_and_stays_below_the_whole(
        self, engine: tuple[str, ListedEvents]
    ) -> None:
        fractions = engine[1].fractions
        assert fractions
        assert fractions == sorted(fractions)
        assert fractions[-1] <= 1.0

    def test_once_made_there_is_nothing_to_plan_or_to_do(
        self, supervisord: str, open_place: Path
    ) -> None:
        folders = folders_in(open_place)
        assert plan_environment(SUPERVISORD, folders, HOST) is None
        before = os.stat(supervisord).st_ctime_ns
        make(SUPERVISORD, folders, pip=("/nowhere/pip",))
        assert os.stat(supervisord).st_ctime_ns == before

    def test_a_long_place_works_too(self, tmp_path: Path) -> None:
        program = "from __future__ import annotations\nimport sys\nprint(sys.argv[1:])\n"
        recipe = replace(recipe_of(), launchers={"say": program}, self_test=("say", "x"))
        environment = make(recipe, folders_in(tmp_path / ("long" * 30)))
        said = subprocess.check_output([executable_in(environment, "say"), "$HOME", ""], text=True)
        assert said == "['$HOME', '']\n"

    def test_the_python_of_a_virtual_environment_stands_for_the_one_behind_it(
        self, tmp_path: Path
    ) -> None:
        environment = make(recipe_of(), folders_in(tmp_path), interpreter=sys.executable)
        assert not os.path.realpath(executable_in(environment, "python")).startswith(sys.prefix)


class TestPlan:
    def test_it_tells_name_and_size(self, tmp_path: Path) -> None:
        preparation = plan_environment(recipe_of(SUPERVISOR, XLLAMACPP), folders_in(tmp_path), HOST)
        assert preparation is not None
        assert preparation.kind == "environment"
        assert preparation.summary == "engine b1 (32.6 MiB download)"
        pins = (SUPERVISOR, XLLAMACPP)
        sizes = [(pin.download_bytes, pin.installed_bytes) for pin in pins]
        assert preparation.size_bytes == sum(map(sum, sizes))
        assert preparation.details["name"] == "engine"

    def test_any_change_of_the_recipe_is_another_folder(self, tmp_path: Path) -> None:
        folders = folders_in(tmp_path)
        recipe = recipe_of(SUPERVISOR)
        changed = [
            recipe,
            replace(recipe, build="b2"),
            replace(recipe, requirements=(SUPERVISOR, XLLAMACPP)),
            replace(recipe, requirements=(replace(SUPERVISOR, sha256=("0" * 64,)),)),
            replace(recipe, launchers={"x": "1"}),
            replace(recipe, launchers={"x": "2"}),
            replace(recipe, self_test=("x",)),
            replace(recipe, python_at_least="3.12"),
        ]
        assert len({environment_path(each, folders) for each in changed}) == len(changed)

    def test_a_build_cannot_lead_out_of_the_folder(self, tmp_path: Path) -> None:
        folders = folders_in(tmp_path)
        path = environment_path(replace(recipe_of(), build="../../b"), folders)
        assert os.path.dirname(os.path.normpath(path)) == folders.environments

    @pytest.mark.parametrize("marker", ["", "{", "[]", '{"digest": "other"}'])
    def test_without_a_true_marker_it_is_not_complete(self, tmp_path: Path, marker: str) -> None:
        folders = folders_in(tmp_path)
        target = Path(environment_path(recipe_of(), folders))
        (target / "bin").mkdir(parents=True)
        (target / "bin" / "python").symlink_to(sys.executable)
        (target / "environment.json").write_text(marker)
        assert plan_environment(recipe_of(), folders, HOST) is not None

    def test_it_is_made_anew_when_its_python_has_gone(self, tmp_path: Path) -> None:
        folders = folders_in(tmp_path)
        environment = make(recipe_of(), folders)
        python = Path(environment, "bin", "python3")
        python.unlink()
        Path(environment, "bin", "python").unlink()
        assert plan_environment(recipe_of(), folders, HOST) is not None
        make(recipe_of(), folders)
        assert python.exists()
        assert plan_environment(recipe_of(), folders, HOST) is None


class TestInterrupted:
    def test_killed_half_way_then_done_again_it_is_complete(
        self, tmp_path: Path, supervisord: str
    ) -> None:
        """The pip of the killed maker lives on; the next maker must wait for its end."""
        arguments = [sys.executable, "-c", MAKER, str(tmp_path), *waiting_pip(tmp_path)]
        maker = subprocess.Popen(arguments, cwd=PROJECT)
        wait_until((tmp_path / "runs").exists)
        maker.send_signal(signal.SIGKILL)
        maker.wait()

        folders, events = folders_in(tmp_path), ListedEvents()
        recipe = recipe_of(SUPERVISOR)
        assert plan_environment(recipe, folders, HOST) is not None
        second = threading.Thread(target=make, args=(recipe, folders), kwargs={"events": events})
        second.start()
        wait_until(lambda: events.events)
        assert events.events[0].kind is EventKind.NOTE
        assert "still preparing" in events.events[0].text
        (tmp_path / "go").touch()
        second.join()

        assert plan_environment(recipe, folders, HOST) is None
        made = files_below(environment_path(recipe, folders))
        assert made == files_below(supervisord)

    def test_two_makers_make_it_once(self, tmp_path: Path) -> None:
        folders, events = folders_in(tmp_path), [ListedEvents(), ListedEvents()]
        pip = waiting_pip(tmp_path)
        makers = [
            threading.Thread(
                target=make,
                args=(recipe_of(SUPERVISOR), folders),
                kwargs={"pip": pip, "events": each},
            )
            for each in events
        ]
        for maker in makers:
            maker.start()
        wait_until(
            lambda: (
                any("still preparing" in text for each in events for text in each.texts)
                and (tmp_path / "runs").exists()
            )
        )
        (tmp_path / "go").touch()
        for maker in makers:
            maker.join()
        assert (tmp_path / "runs").read_text() == "x"
        assert plan_environment(recipe_of(SUPERVISOR), folders, HOST) is None


class TestRefused:
    def refuse(self, folders: Folders, **arguments: Any) -> PreparationFailed:
        recipe = arguments.pop("recipe", recipe_of(SUPERVISOR))
        with pytest.raises(PreparationFailed) as caught:
            make(recipe, folders, **arguments)
        target = environment_path(recipe, folders)
        assert not os.path.exists(target), "the leftover must be gone"
        assert "Traceback" not in caught.value.summary
        return caught.value

    def test_another_file_than_the_pinned_one(self, tmp_path: Path) -> None:
        recipe = recipe_of(replace(SUPERVISOR, sha256=("0" * 64,)))
        error = self.refuse(folders_in(tmp_path), recipe=recipe)
        assert "supervisor==4.3.0 is not the pinned one" in error.summary

    def test_a_distribution_that_is_nowhere(self, tmp_path: Path) -> None:
        recipe = recipe_of(replace(SUPERVISOR, version="4.999"))
        error = self.refuse(folders_in(tmp_path), recipe=recipe)
        assert "no wheel of supervisor==4.999 was found" in error.summary
        assert "PIP_FIND_LINKS" in error.hint

    def test_an_index_that_cannot_be_reached_shows_no_password(self, tmp_path: Path) -> None:
        env = {
            **os.environ,
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_FIND_LINKS": "",
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_INDEX_URL": "http://ann:hunter2@127.0.0.1:9/simple",
            "PIP_RETRIES": "1",
        }
        error = self.refuse(folders_in(tmp_path), env=env)
        assert "could not be reached" in error.summary
        assert "hunter2" not in f"{error.summary} {error.hint}"

    def test_a_variable_cannot_lead_the_packages_elsewhere(self, tmp_path: Path) -> None:
        env = {**index_env(), "PIP_TARGET": str(tmp_path / "elsewhere"), "PIP_NO_BINARY": ":all:"}
        environment = make(recipe_of(SUPERVISOR), folders_in(tmp_path), env=env)
        assert not (tmp_path / "elsewhere").exists()
        assert os.path.exists(executable_in(environment, "supervisord"))

    def test_a_python_without_venv(self, tmp_path: Path) -> None:
        python = tmp_path / "python"
        python.write_text("#!/bin/sh\necho 'No module named venv' >&2\nexit 1\n")
        python.chmod(0o755)
        error = self.refuse(folders_in(tmp_path), interpreter=str(python))
        assert error.summary.endswith("No module named venv")
        assert "python3-venv" in error.hint

    def test_a_python_that_is_not_there(self, tmp_path: Path) -> None:
        error = self.refuse(folders_in(tmp_path), interpreter="/nowhere/python3")
        assert "/nowhere/python3" in error.summary

    def test_a_python_of_stoker_s_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "prefix", os.path.dirname(os.path.dirname(INTERPRETER)))
        monkeypatch.setattr(sys, "base_prefix", "/elsewhere")
        error = self.refuse(folders_in(tmp_path))
        assert "which belongs to Stoker's own" in error.summary

    @pytest.mark.parametrize(
        ("program", "ending"),
        [
            ("import sys\nsys.exit('no such thing')\n", "ended with 1: no such thing"),
            ("import os\nos.kill(os.getpid(), 4)\n", "was ended by signal 4: it said nothing"),
        ],
    )
    def test_a_build_that_does_not_work_here(
        self, tmp_path: Path, program: str, ending: str
    ) -> None:
        recipe = replace(recipe_of(), launchers={"run": program}, self_test=("run",))
        error = self.refuse(folders_in(tmp_path), recipe=recipe)
        assert error.summary.endswith(f"its test {ending}")

    def test_a_place_that_is_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        error = self.refuse(folders_in(tmp_path / "file"))
        assert str(tmp_path / "file") in error.summary

    @needs_root
    def test_a_place_that_is_read_only(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", "ro") as place:
            error = self.refuse(folders_in(place))
        assert "read-only" in error.summary

    @needs_root
    def test_a_disk_that_is_too_small(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", "size=1m") as place:
            error = self.refuse(folders_in(place))
        assert "needs 1.8 MiB, but only 1.0 MiB are free" in error.summary

    @needs_root
    def test_a_disk_that_fills_up_meanwhile(self, tmp_path: Path) -> None:
        recipe = recipe_of(replace(SUPERVISOR, download_bytes=0, installed_bytes=0))
        with small_disk(tmp_path / "disk", "size=1m") as place:
            error = self.refuse(folders_in(place), recipe=recipe)
        assert "disk is full" in error.summary
        assert "free some space" in error.hint


def python(path: str, *version: int, reachable: bool = True) -> dict[str, object]:
    return {"path": path, "version": list(version), "reachable_by_others": reachable}


class TestInterpreter:
    SYSTEM = python("/usr/bin/python3", 3, 11, 2)
    NEWER = python("/usr/bin/python3.13", 3, 13, 0)
    OWN = python("/home/ann/python3", 3, 12, 7, reachable=False)

    def choose(self, at_least: str, *, reachable: bool) -> str | None:
        value = {"interpreters": [self.OWN, self.SYSTEM, self.NEWER]}
        return choose_interpreter(value, at_least=at_least, must_be_reachable=reachable)

    def test_one_that_others_reach_comes_first(self) -> None:
        assert self.choose("3.11", reachable=False) == "/usr/bin/python3"

    def test_one_that_is_new_enough(self) -> None:
        assert self.choose("3.13", reachable=False) == "/usr/bin/python3.13"
        assert self.choose("3.11.3", reachable=True) == "/usr/bin/python3.13"

    def test_a_private_one_only_where_that_will_do(self) -> None:
        value = {"interpreters": [self.OWN]}
        arguments = {"at_least": "3.11"}
        assert choose_interpreter(value, must_be_reachable=True, **arguments) is None
        assert (
            choose_interpreter(value, must_be_reachable=False, **arguments) == "/home/ann/python3"
        )

    def test_none(self) -> None:
        assert self.choose("4.0", reachable=False) is None
