"""The program that reads an engine's parser inside of its environment, on a small engine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.releases import parse_options
from stoker.knowledge.stacks import load_reader
from stoker.model.finding import Source
from tests.hosts.worlds import is_running

ENGINE = """
import argparse, enum, json, os, sys

print("engines print while they are imported")
os.makedirs(os.path.join(os.environ["HOME"], "cache"))

class Kind(enum.Enum):
    ONE = "one"
    TWO = "two"

def optional(return_type):
    def _optional_type(text):
        return None if text == "None" else return_type(text)
    return _optional_type

class DeprecatedAction(argparse.Action):
    def __init__(self, *args, new_flag=None, **kwargs):
        super().__init__(*args, nargs=0, **kwargs)
        self.new_flag = new_flag
    def __call__(self, *args):
        pass

def add_cli_args(parser):
    parser.add_argument("--model-path", "--model", required=True)
    parser.add_argument("--size", "-s", type=int, default=3)
    parser.add_argument("--ratio", type=optional(float))
    parser.add_argument("--kind", choices=list(Kind), type=Kind, default=Kind.ONE)
    parser.add_argument("--level", choices=["low", "high"], default="low")
    parser.add_argument("--names", nargs="+", choices={"b", "a"})
    parser.add_argument("--extra", action="append", metavar="{x,y}")
    parser.add_argument("--config", type=json.loads, default={"b": 1, "a": {2}})
    parser.add_argument("--fast", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--old", action=DeprecatedAction, new_flag="--new", default=False)
    parser.add_argument("positional", nargs="?")
"""


ENV = {"PATH": "/usr/bin:/bin", "HOME": "/dev/null"}


def make(folder: Path, text: str) -> None:
    package = folder / "smallengine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "args.py").write_text(text, encoding="utf-8")


def question(folder: Path, **more: Any) -> str:
    asked = {
        "root": "smallengine",
        "make": ["argparse:ArgumentParser"],
        "fill": ["smallengine.elsewhere:fill", "smallengine.args:Lost.fill"],
        "path": [str(folder)],
        **more,
    }
    asked["fill"] = [*asked["fill"], "smallengine.args:add_cli_args"]
    return json.dumps(asked)


def ask(folder: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", load_reader(), question(folder, **more)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**ENV, "TMPDIR": str(folder)},
        cwd="/",
    )


def answer(folder: Path, **more: Any) -> Mapping[str, Any]:
    ran = ask(folder, **more)
    assert ran.returncode == 0, ran.stderr
    told: Mapping[str, Any] = json.loads(ran.stdout)
    return told


def test_every_option_becomes_a_row(tmp_path: Path) -> None:
    make(tmp_path, ENGINE)
    told = answer(tmp_path)
    rows = {row["names"][0]: row for row in told["options"]}
    assert rows == {
        "--model-path": {"names": ["--model-path", "--model"], "argument": "str", "type": "str"},
        "--size": {
            "names": ["--size", "-s"],
            "argument": "int",
            "type": "int",
            "kind": "number",
            "default": "3",
        },
        "--ratio": {
            "names": ["--ratio"],
            "argument": "float",
            "type": "float",
            "kind": "number",
            "also": ["None"],
        },
        "--kind": {
            "names": ["--kind"],
            "argument": "Kind",
            "type": "Kind",
            "default": "one",
            "choices": ["one", "two"],
        },
        "--level": {
            "names": ["--level"],
            "argument": "str",
            "type": "str",
            "kind": "choice",
            "choices": ["low", "high"],
            "default": "low",
        },
        "--names": {
            "names": ["--names"],
            "argument": "str",
            "type": "str",
            "nargs": "+",
            "choices": ["a", "b"],
        },
        "--extra": {
            "names": ["--extra"],
            "argument": "{x,y}",
            "type": "str",
            "repeatable": True,
            "choices": ["x", "y"],
        },
        "--config": {
            "names": ["--config"],
            "argument": "json",
            "type": "json",
            "unknown": {"default": "an object of dict"},
        },
        "--fast": {
            "names": ["--fast", "--no-fast"],
            "argument": None,
            "type": "bool",
            "default": "true",
        },
        "--old": {
            "names": ["--old"],
            "argument": None,
            "type": "bool",
            "default": "false",
            "deprecated_by": "--new",
        },
    }
    assert [row[0] for row in told["files"]] == [
        str(tmp_path / "smallengine" / name) for name in ("__init__.py", "args.py")
    ]
    source = Source(kind="observed", where="x", date="2026-11-30")
    known = load_catalogue("sglang", "0.5.23")
    made = parse_options(told["options"], known, version="1", source=source)
    assert len(made.options) == len(rows)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    make(tmp_path, ENGINE)
    answer(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["smallengine"]


def tried(folder: Path, *trials: Sequence[str]) -> list[str]:
    path = folder / "trials.json"
    path.write_text(json.dumps([["--model", "m", *words] for words in trials]), encoding="utf-8")
    results: list[str] = answer(folder, trials=str(path))["results"]
    return results


def test_words_are_tried(tmp_path: Path) -> None:
    make(tmp_path, ENGINE)
    right, wrong, unknown = tried(tmp_path, ["--size", "4"], ["--level", "x"], ["--nope"])
    assert right == ""
    assert "invalid choice: 'x'" in wrong
    assert unknown == "unrecognized arguments: --nope"


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("import no_such_package", "No module named 'no_such_package'"),
        ("raise RuntimeError('no GPU')", "no GPU"),
        ("import sys; sys.exit(3)", ""),
        ("add_cli_args = None", "not callable"),
    ],
)
def test_a_fault_is_told_and_no_answer_given(tmp_path: Path, text: str, last: str) -> None:
    make(tmp_path, text)
    ran = ask(tmp_path)
    assert ran.returncode != 0
    assert ran.stdout == ""
    assert last in ran.stderr.strip().rpartition("\n")[2]


BARE = """
from no_such_package import Thing, decorate
from no_such_package.deep.er import Base
from json import no_such_name
import smallengine._C
try:
    import only_tried
except ImportError:
    only_tried = None
assert only_tried is None

@decorate("x", y=1)
def add_cli_args(parser):
    parser.add_argument("--x", choices=["a"])

class Mine(Base, Thing):
    field = Thing.CONSTANT
"""


def test_what_bare_sources_need_is_made_up(tmp_path: Path) -> None:
    make(tmp_path, BARE)
    assert ask(tmp_path).returncode != 0
    told = answer(tmp_path, stub=True)
    assert [row["names"] for row in told["options"]] == [["--x"]]


def test_modules_of_the_engine_are_not_made_up(tmp_path: Path) -> None:
    make(tmp_path, "import smallengine.lost")
    ran = ask(tmp_path, stub=True)
    assert ran.returncode != 0
    assert "smallengine.lost" in ran.stderr


SLOW = "import os, time; open(os.environ['MARK'], 'w').write(str(os.getpid())); time.sleep(60)"


def test_it_ends_in_time_by_itself(tmp_path: Path) -> None:
    make(tmp_path, "import time; time.sleep(60)")
    assert ask(tmp_path, seconds=1).returncode == -signal.SIGALRM


def test_it_ends_with_the_one_who_asked(tmp_path: Path) -> None:
    make(tmp_path, SLOW)
    mark = tmp_path / "mark"
    argv = [sys.executable, "-c", load_reader(), question(tmp_path, seconds=60)]
    run = f"import subprocess; subprocess.run({argv!r}, start_new_session=True)"
    asker = subprocess.Popen(
        [sys.executable, "-c", run], env={**ENV, "TMPDIR": str(tmp_path), "MARK": str(mark)}
    )
    deadline = time.monotonic() + 30
    while not (mark.exists() and mark.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    asker.kill()
    asker.wait()
    while is_running(int(mark.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.01)
