"""Recipes of the tests, and making them on this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from stoker.builds.environment import environment_path, make_environment
from stoker.hosts.local import LocalHost
from stoker.knowledge.engines import load_environment
from stoker.model.engine_table import EnvironmentRecipe, Requirement
from stoker.model.finding import Source
from stoker.model.plan import Folders
from tests.preparing.machine import PIP, ListedEvents, MachineClock, index_env

SUPERVISORD = load_environment("supervisord")
LLAMACPP = load_environment("llamacpp")
(SUPERVISOR,) = SUPERVISORD.requirements
XLLAMACPP, OPENMP = LLAMACPP.requirements


def recipe_of(*requirements: Requirement, name: str = "engine") -> EnvironmentRecipe:
    return EnvironmentRecipe(
        name=name,
        build="b1",
        python_at_least="3.11",
        requirements=requirements,
        source=Source(kind="observed", where="a test"),
    )


def find_interpreter() -> str:
    """A Python of the system that every user may run, or the one that runs the tests."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        check = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
        if Path(path).exists() and subprocess.run([path, "-c", check], check=False).returncode == 0:
            return path
    return sys.executable


INTERPRETER = find_interpreter()


def make(
    recipe: EnvironmentRecipe,
    folders: Folders,
    *,
    events: ListedEvents | None = None,
    interpreter: str = INTERPRETER,
    pip: tuple[str, ...] = PIP,
    env: Mapping[str, str] | None = None,
) -> str:
    """Make an environment on this machine and answer where it lies."""
    make_environment(
        recipe,
        folders,
        host=LocalHost(),
        clock=MachineClock(),
        reporter=events or ListedEvents(),
        interpreter=interpreter,
        pip=pip,
        index_env=index_env() if env is None else env,
    )
    return environment_path(recipe, folders)
