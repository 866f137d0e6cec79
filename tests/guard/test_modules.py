"""The guard's environment has every module that its modules import."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import stoker
from stoker.knowledge.engines import load_environment
from tests.conftest import PROJECT

SOURCES = PROJECT / "src" / "stoker"


def imported(text: str) -> Iterator[str]:
    """Our own modules that a module names."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stoker."):
            yield node.module or ""


def test_no_module_is_missing() -> None:
    modules = load_environment("guard").modules
    assert "guard/run.py" in modules
    assert stoker.__path__ == [str(SOURCES)]
    missing = {
        (path, name)
        for path, text in modules.items()
        for name in imported(text)
        if f"{name.removeprefix('stoker.').replace('.', '/')}.py" not in modules
        and f"{name.removeprefix('stoker.').replace('.', '/')}/__init__.py" not in modules
    }
    assert missing == set()
