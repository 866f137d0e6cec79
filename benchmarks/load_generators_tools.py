"""The load generators that are compared: where they lie, how they are called, what they say.

What is particular to each of them is data, in ``load_generators.toml``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from stoker.evaluate.rivals import last_line

PROJECT = Path(__file__).resolve().parents[1]
OURS = "stoker"
_TABLE = Path(__file__).with_name("load_generators.toml")
_RIVALS = ".cache/rivals"
#: What installs the engines whose own load generators are compared.
_BUILDER = "scripts/build_engines.py"
_ADDITIONS_SECONDS = 40.0


class NotRun(Exception):
    """A tool cannot be run, or what it wrote cannot be read; the message says why, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A load generator.

    ``program``: a pattern of where it lies, from the root folder. ``result``: the file of its
    figures, from the folder of the trial; ``figures`` and ``remarks`` are paths into it.
    ``install``: packages, one command each. ``builder``: the word for the script that builds
    engines, where it comes with one. ``additions``: packages that the engine's own environment
    lacks; they lie in a folder beside it.
    """

    name: str
    program: str
    argv: tuple[str, ...]
    result: str
    figures: Mapping[str, str]
    legend: str
    environment: Mapping[str, str] = field(default_factory=dict)
    install: tuple[str, ...] = ()
    builder: str = ""
    additions: tuple[str, ...] = ()
    remarks: str = ""
    install_seconds: float = 0.0

    @property
    def get(self) -> str:
        """What a person does to have it."""
        return "FULL=1 make bench-report" if self.install or self.builder else "make dev"

    @property
    def additions_folder(self) -> Path:
        """Where its additions lie, once they are installed; others have another place."""
        digest = hashlib.sha256(" ".join(self.additions).encode()).hexdigest()[:8]
        return PROJECT / _RIVALS / f"{self.builder}-additions-{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a tool says; None where it has no such figure."""

    tokens_per_second: float | None = None
    ttft_ms: float | None = None
    ttft_p99_ms: float | None = None
    itl_ms: float | None = None
    tpot_ms: float | None = None


def load_tools() -> tuple[Tool, ...]:
    """All of them, ours first."""
    names = {each.name for each in fields(Tool)}
    rows = tomllib.loads(_TABLE.read_text("utf-8"))["tool"]
    tools = []
    for row in rows:
        if not row.keys() <= names:
            raise ValueError(f"{_TABLE.name}: unknown keys {sorted(row.keys() - names)}")
        lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
        tools.append(Tool(**{**row, **lists}))
    return tuple(tools)


def find_program(tool: Tool) -> str:
    """Where it lies, the newest where there are several. Raises NotRun."""
    found = max(PROJECT.glob(tool.program), default=None)
    if found is None or (tool.additions and not tool.additions_folder.is_dir()):
        raise NotRun(f"it is not installed; to have it: {tool.get}")
    # Not resolved: the interpreter of a virtual environment is a link that says which one it is.
    return str(found)


def estimate_install(tool: Tool) -> float:
    """Seconds that installing what is missing will take."""
    return _ADDITIONS_SECONDS if any(PROJECT.glob(tool.program)) else tool.install_seconds


def install(tool: Tool, timeout_seconds: float) -> None:
    """Install it into an environment of its own. Raises NotRun."""
    if tool.builder:
        if not any(PROJECT.glob(tool.program)):
            _run([sys.executable, _BUILDER, tool.builder], timeout_seconds)
        if tool.additions:
            _install_additions(tool, timeout_seconds)
    elif tool.install:
        _install_alone(tool, timeout_seconds)
    else:
        raise NotRun(f"it is not installed; to have it: {tool.get}")


def _install_additions(tool: Tool, timeout_seconds: float) -> None:
    """With every version named, so that nothing is changed that the engine's environment has."""
    partial = tool.additions_folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    python = str(Path(max(PROJECT.glob(tool.program))).with_name("python"))
    words = ["install", "--quiet", "--no-deps", "--target", str(partial), *tool.additions]
    _run([python, "-m", "pip", *words], timeout_seconds)
    partial.rename(tool.additions_folder)


def _install_alone(tool: Tool, timeout_seconds: float) -> None:
    folder = PROJECT / Path(tool.program).parents[1]
    if not folder.is_relative_to(PROJECT / _RIVALS):
        raise NotRun(f"{tool.program} is no place for it")
    _run([sys.executable, "-m", "venv", str(folder)], timeout_seconds)
    for package in tool.install:
        python = str(folder / "bin" / "python")
        _run([python, "-m", "pip", "install", "--quiet", package], timeout_seconds)


def _run(argv: Sequence[str], timeout_seconds: float) -> None:
    try:
        ran = subprocess.run(
            argv,
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
        )
    except subprocess.TimeoutExpired:
        raise NotRun(f"it was not installed within {timeout_seconds:.0f} s") from None
    if ran.returncode:
        raise NotRun(f"it could not be installed ({last_line(ran.stderr or ran.stdout)})")


def make_environment(tool: Tool, words: Mapping[str, str]) -> dict[str, str]:
    """Ours, without what would send a tool elsewhere, and its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    own = {name: value.format(**words) for name, value in tool.environment.items()}
    if tool.additions:
        own["PYTHONPATH"] = str(tool.additions_folder)
    # Forking with threads makes the tokenizers warn, whoever uses them.
    return {**kept, "TOKENIZERS_PARALLELISM": "false", **own}


def read_said(tool: Tool, folder: Path) -> Said:
    """The figures that it wrote into the folder of its trial. Raises NotRun."""
    told = _read_result(tool, folder)
    found = {name: _find(told, path) for name, path in tool.figures.items()}
    return Said(
        **{name: float(each) for name, each in found.items() if isinstance(each, int | float)}
    )


def read_remarks(tool: Tool, folder: Path) -> tuple[str, ...]:
    """What it itself says against its figures. Raises NotRun."""
    found = _find(_read_result(tool, folder), tool.remarks) if tool.remarks else []
    return tuple(map(str, found or ()))


def _read_result(tool: Tool, folder: Path) -> Any:
    path = folder / tool.result
    try:
        text = path.read_text("utf-8")
        # Some append a line for each run.
        lines = text.strip().splitlines() or [""]
        return json.loads(lines[-1] if path.suffix == ".jsonl" else text)
    except (OSError, ValueError) as error:
        raise NotRun(f"what it wrote cannot be read ({type(error).__name__})") from error


def _find(told: Any, path: str) -> Any:
    """What stands at a path of a document; None where it leads nowhere."""
    for step in path.split("."):
        if isinstance(told, list) and step.isdigit():
            told = told[int(step)] if int(step) < len(told) else None
        elif isinstance(told, list):
            named = (item for item in told if isinstance(item, dict) and item.get("name") == step)
            told = next(named, None)
        else:
            told = told.get(step) if isinstance(told, dict) else None
    return told
