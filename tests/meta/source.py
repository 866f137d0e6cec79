"""The project's own text and syntax trees, as the meta tests read them."""

import ast
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.conftest import PROJECT

__all__ = ["PACKAGE", "PROJECT", "FunctionNode", "functions", "parsed_modules", "project_files"]

PACKAGE = PROJECT / "src" / "stoker"

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed_modules() -> Mapping[str, ast.Module]:
    """Every module of the package by its path below the package (``hosts/local.py``)."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def functions() -> Iterator[tuple[str, FunctionNode]]:
    """Every function and method with the place a person would open (``hosts/local.py:12 run``)."""
    for module, tree in parsed_modules().items():
        for node in ast.walk(tree):
            if isinstance(node, FunctionNode):
                yield f"{module}:{node.lineno} {node.name}", node


def project_files() -> tuple[Path, ...]:
    """Every file that git tracks or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        check=True,
    )
    names = filter(None, listing.stdout.decode().split("\0"))
    return tuple(path for name in sorted(names) if (path := PROJECT / name).is_file())
