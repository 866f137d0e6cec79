"""The lab's containers, and when there are none."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.lab.container import (
    Container,
    Narrow,
    find_hierarchies,
    interpreter_folders,
    remove_leftovers,
)
from tests.lab.machine import Machine
from tests.lab.tree import build_tree

# What the real command needs, made once for all tests that run it.
from tests.system.conftest import data, package_index

__all__ = ["data", "package_index"]

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
    if not (_has_namespaces() and _has_control_groups()):
        return "this machine lets nobody make namespaces and control groups: it is a container too"
    return ""


def _has_namespaces() -> bool:
    command = ["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _has_control_groups() -> bool:
    folder = find_hierarchies()[0] / _name("probe")
    try:
        folder.mkdir()
        folder.rmdir()
    except OSError:
        return False
    return True


@pytest.fixture
def narrow() -> Narrow:
    """What the machine may less than others; for a test to say otherwise."""
    return Narrow()


@pytest.fixture
def machine(tree: Path, data: Path, narrow: Narrow) -> Iterator[Machine]:
    """A container for one test alone, with the real command in it."""
    # The data are those of this machine; what is changed in them stays in the container.
    upper = _DISKS / _name("whole") / "data"
    upper.mkdir(parents=True)
    options = (*narrow.options, f"--overlay={data}:{upper}:{data}")
    narrow = Narrow(options=options, prefix=narrow.prefix)
    for container in _run_container(tree, "whole", narrow):
        yield Machine(container, data)


def _name(role: str) -> str:
    return f"{role}-{os.getpid()}"


def _run_container(tree: Path, role: str, narrow: Narrow | None = None) -> Iterator[Container]:
    name = _name(role)
    container = Container(
        _DISKS / name,
        name=name,
        tree=tree,
        shared=[PROJECT, *interpreter_folders()],
        narrow=narrow,
    )
    try:
        container.start()
        yield container
    finally:
        container.destroy()
