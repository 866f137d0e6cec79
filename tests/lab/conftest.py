"""The lab's containers, and when there are none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.lab.container import Container, interpreter_folders, remove_leftovers
from tests.lab.tree import build_tree

_LAB = PROJECT / ".cache" / "lab"
_DISKS = _LAB / "disks"
_PROGRAMS = {"mmdebstrap": "mmdebstrap", "systemd-nspawn": "systemd-container"}


@pytest.fixture(scope="session")
def tree() -> Path:
    """The tree that containers are made from; without it nothing here can run."""
    if reason := _find_obstacle():
        # A machine that is there to run everything shall not pass over this in silence.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    remove_leftovers(_DISKS)
    return build_tree(_LAB)


@pytest.fixture(scope="session")
def shared_container(tree: Path) -> Iterator[Container]:
    """One container for all tests that clean up behind themselves."""
    yield from _run_container(tree, "shared")


@pytest.fixture
def container(tree: Path) -> Iterator[Container]:
    """A container for one test alone."""
    yield from _run_container(tree, "alone")


def _find_obstacle() -> str:
    if os.geteuid() != 0:
        return "a container with systemd in it needs root"
    missing = [package for name, package in _PROGRAMS.items() if shutil.which(name) is None]
    if missing:
        return f"a container with systemd in it needs Debian's packages {' and '.join(missing)}"
    return ""


def _run_container(tree: Path, role: str) -> Iterator[Container]:
    name = f"{role}-{os.getpid()}"
    container = Container(
        _DISKS / name, name=name, tree=tree, shared=[PROJECT, *interpreter_folders()]
    )
    try:
        container.start()
        yield container
    finally:
        container.destroy()
