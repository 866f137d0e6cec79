"""A published package as a file on this disk: its modules by their dotted names.

Wheels and source distributions are opened alike. Nothing is unpacked, and nothing is run.
"""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_NAME = re.compile(
    r"(?P<name>[A-Za-z0-9_]+?)-(?P<version>[0-9][A-Za-z0-9.]*)(?:-.*\.whl|\.tar\.gz)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The Python files of one release. ``used`` grows by the members that were asked for."""

    file: str
    name: str
    version: str
    sources: dict[str, str]
    used: set[str] = field(default_factory=set)

    def find(self, module: str) -> tuple[str, bool] | None:
        """The member that holds a module, and whether it is a package; None if it is not here."""
        path = module.replace(".", "/")
        for member, is_package in ((f"{path}.py", False), (f"{path}/__init__.py", True)):
            if member in self.sources:
                return member, is_package
        return None

    def read(self, member: str) -> str:
        """The text of a member, which counts as used from now on."""
        self.used.add(member)
        return self.sources[member]

    def members(self, suffix: str) -> tuple[str, ...]:
        """The members whose paths end so, sorted."""
        return tuple(sorted(member for member in self.sources if member.endswith(suffix)))


def open_package(path: Path) -> Package:
    """The package in a wheel or a source distribution. Raises ValueError for any other name."""
    named = _NAME.fullmatch(path.name)
    if named is None:
        raise ValueError(f"{path.name} is named neither like a wheel nor like a .tar.gz of sources")
    name = named["name"]
    read = _read_wheel if path.suffix == ".whl" else _read_sources
    found = {member: text for member, text in read(path) if member.startswith(f"{name}/")}
    return Package(file=path.name, name=name, version=named["version"], sources=found)


def _read_wheel(path: Path) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if member.endswith(".py"):
                yield member, archive.read(member).decode("utf-8", "replace")


def _read_sources(path: Path) -> Iterator[tuple[str, str]]:
    """The members as they would lie in the wheel: without the first folder, or without two."""
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            inside = member.name.partition("/")[2]
            file = archive.extractfile(member) if inside.endswith(".py") else None
            if file is not None:
                text = file.read().decode("utf-8", "replace")
                yield inside.removeprefix("src/").removeprefix("python/"), text
