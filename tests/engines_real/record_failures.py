"""Record the logs of provoked faults for the tests of the diagnosis.

Run by hand with real engines, on a machine where nothing else is measured:

    STOKER_ENGINES=.cache/engines python -m tests.engines_real.record_failures [FAULT ...]

Each fault's log goes to tests/diagnosis/recorded/failures, what the kernel said beside it. What a
recording means stands in ``cases.toml`` there and is written by a person.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.engines_real import faults_llamacpp, faults_python  # noqa: F401
from tests.engines_real.faults import FAULTS, make_bench, neutral, provoke

RECORDED = PROJECT / "tests" / "diagnosis" / "recorded" / "failures"
_MOST_LINES = 130
_FIRST_LINES, _MIDDLE_LINES, _LAST_LINES = 40, 30, 60
_LOOKS_LIKE_ERROR = re.compile(r"Error\b|Exception\b|error:|FAILED|[Ff]ailed")
#: A line of a traceback that only quotes code.
_FRAME = re.compile(r'File "|raise |\.\.\.$|^\s*[~^]+$')
_MOST_LETTERS = 900
_USAGE_LINES = 4
#: A process in the table that the kernel prints before it ends one.
_TASK = re.compile(r"\] \[ +\d+\] +\d+ ")
#: A line of the usage that argparse prints before its complaint: hundreds in SGLang.
_USAGE = re.compile(r" {12,}(\[--|\{|--)")


def main() -> None:
    """Provoke what the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("fault", nargs="*", choices=[*FAULTS, []])
    engines = PROJECT / os.environ["STOKER_ENGINES"]
    for name in parser.parse_args().fault or FAULTS:
        with tempfile.TemporaryDirectory(prefix="fault-") as folder:
            bench = make_bench(engines, Path(folder))
            try:
                found = provoke(name, bench)
            except pytest.skip.Exception as skipped:
                say(f"{name}: {skipped}")
                continue
            write(RECORDED / f"{name}.log", neutral(found.lines, bench))
            if found.kernel:
                kernel = [line for line in found.kernel if not _TASK.search(line)]
                write(RECORDED / f"{name}.kernel", neutral(kernel, bench))
        say(f"{name}: {len(found.lines)} lines, status {found.status}")


def write(path: Path, lines: list[str]) -> None:
    """The lines, without most of a usage, the middle of a long log and that of long lines."""
    usage = [number for number, line in enumerate(lines) if _USAGE.match(line)]
    hidden = set(usage[_USAGE_LINES:])
    kept = [trim(line) for number, line in enumerate(lines) if number not in hidden]
    path.write_text("\n".join(shorten(kept)) + "\n", "utf-8")


def shorten(lines: list[str]) -> list[str]:
    """Of a long log the beginning, the end, and whatever looks like an error between them."""
    if len(lines) <= _MOST_LINES:
        return lines
    last = len(lines) - _LAST_LINES
    between = [
        number
        for number in range(_FIRST_LINES, last)
        if _LOOKS_LIKE_ERROR.search(lines[number]) and not _FRAME.search(lines[number])
    ]
    kept = sorted({*range(_FIRST_LINES), *between[:_MIDDLE_LINES], *range(last, len(lines))})
    shown: list[str] = []
    for before, number in zip([-1, *kept], kept, strict=False):
        if number > before + 1:
            shown.append(f"[... {number - before - 1} lines are left out here ...]")
        shown.append(lines[number])
    return shown


def trim(line: str) -> str:
    """The line, or its beginning and its end."""
    if len(line) <= _MOST_LETTERS:
        return line
    return f"{line[: _MOST_LETTERS - 200]} [...] {line[-200:]}"


def say(line: str) -> None:
    """One line for whoever waits."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
