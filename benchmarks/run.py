"""What Stoker itself costs: start-up, planning, applying nothing, memory and size.

Called by `make bench`. Prints a Markdown table, and JSON with ``--json FILE``. It asserts nothing:
the targets stand beside the figures for a person to compare. It works in a state folder of its
own and must never touch the one of the person who runs it; downloads are kept in STOKER_DATA,
by default where the tests keep theirs. Uses the standard library alone, see :func:`peak_bytes`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
EXAMPLE = PROJECT / "examples" / "smollm2.yaml"
FORECAST = PROJECT / "benchmarks" / "capacity.py"
LARGE_LOG = PROJECT / "benchmarks" / "large_log.py"
STOKER = str(Path(sys.executable).with_name("stoker"))
COMMAND_TIMEOUT_SECONDS = 600
#: Longer than half a minute, so that one look at least falls into it.
GUARD_SECONDS = 35
GUARD_SETTLES_SECONDS = 3


class NotMeasured(Exception):
    """A figure could not be taken; the message says why, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place:
    """Where the measured commands work: their environment and a copy of the example.

    Each is itself alone, so that what was measured in one can be kept for it.
    """

    folder: Path
    env: Mapping[str, str]
    deployment: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What is measured. ``take`` answers in seconds, bytes or a share and may raise NotMeasured.

    ``target`` is the number of units (ms, MB of 10**6 bytes, or %) not to exceed, None where none
    is set, as for the base line that times are compared with. ``how`` says how it is measured.
    """

    what: str
    take: Callable[[Place], float]
    unit: str
    target: int | None
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure and its value in its unit; None with a reason if it was not measured."""

    figure: Figure
    value: float | None = None
    reason: str = ""


def run(command: Sequence[str], place: Place) -> str:
    """Run a command to its end and return its stdout. Raises NotMeasured if it fails."""
    try:
        ended = subprocess.run(
            command,
            cwd=place.folder,
            env=place.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotMeasured(str(error)) from error
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip().splitlines() or ["nothing was said"]
        raise NotMeasured(f"exit status {ended.returncode}: {said[-1]}")
    return ended.stdout


def median_seconds(command: Sequence[str], place: Place, *, runs: int) -> float:
    """The median wall time of a command, after one run that warms the caches."""
    run(command, place)
    return statistics.median(timed(command, place) for _ in range(runs))


def timed(command: Sequence[str], place: Place) -> float:
    """The wall time of one run, in seconds."""
    started = time.perf_counter()
    run(command, place)
    return time.perf_counter() - started


def peak_bytes(command: Sequence[str], place: Place) -> int:
    """The peak resident memory of a command, as the kernel accounts it to the waiting parent.

    The kernel counts the memory of the process that forked it too, up to the exec; so the figure
    is right only while this program is smaller than what it measures.
    """
    child = subprocess.Popen(
        command,
        cwd=place.folder,
        env=place.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise NotMeasured(f"exit status {child.returncode}")
    return usage.ru_maxrss * 1024


def install_bytes(place: Place) -> int:
    """The size of a base install: this checkout's wheel and all that it depends on.

    It is installed into an empty environment without pip's own copy, at the pinned versions, and
    every file in its site-packages is counted, compiled modules and the pip that Stoker depends
    on included.
    """
    environment = str(place.folder / "install")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    pins = str(PROJECT / "requirements" / "runtime.txt")
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(place.folder)]
    target = ["--python", f"{environment}/bin/python", "install"]
    run([sys.executable, "-m", "venv", "--without-pip", environment], place)
    run([*pip, *build, str(PROJECT)], place)
    run([*pip, *target, "--require-hashes", "--requirement", pins], place)
    run([*pip, *target, "--no-deps", *map(str, place.folder.glob("*.whl"))], place)
    files = Path(environment).glob("lib/*/site-packages/**/*")
    return sum(path.lstat().st_size for path in files if path.is_file())


def interpreter_seconds(place: Place) -> float:
    """The start of the interpreter, below which nothing in Python can come."""
    return median_seconds([sys.executable, "-c", "pass"], place, runs=15)


def help_seconds(place: Place) -> float:
    """The start of the command line."""
    return median_seconds([STOKER, "--help"], place, runs=15)


def plan_seconds(place: Place) -> float:
    """One whole plan of the example, facts included."""
    return median_seconds([STOKER, "plan", str(place.deployment)], place, runs=5)


def apply_again_seconds(place: Place) -> float:
    """An apply with nothing to do: the run that warms the caches is the one that serves."""
    return median_seconds([STOKER, "apply", str(place.deployment)], place, runs=5)


def status_bytes(place: Place) -> float:
    """The peak of `stoker status` while the example serves."""
    run([STOKER, "apply", str(place.deployment)], place)
    return statistics.median(peak_bytes([STOKER, "status"], place) for _ in range(5))


def guard_pid(place: Place) -> int:
    """The guard of the example, which serves, some seconds after it became ready."""
    run([STOKER, "apply", str(place.deployment)], place)
    (one,) = json.loads(run([STOKER, "status", "--json"], place))["deployments"]
    time.sleep(GUARD_SETTLES_SECONDS)
    return int(one["pid"])


def guard_bytes(place: Place) -> float:
    """The resident memory of the guard around the embedded engine."""
    text = Path(f"/proc/{guard_pid(place)}/status").read_text("utf-8")
    found = re.search(r"^VmRSS:\s*(\d+) kB$", text, re.MULTILINE)
    if found is None:
        raise NotMeasured("/proc tells no resident memory")
    return int(found[1]) * 1024


def guard_share(place: Place) -> float:
    """The share of a core that the guard takes while it watches at the table's interval."""
    pid = guard_pid(place)
    before, began = core_seconds(pid), time.monotonic()
    time.sleep(GUARD_SECONDS)
    return (core_seconds(pid) - before) / (time.monotonic() - began)


def core_seconds(pid: int) -> float:
    """The time on cores that a process has used, its ended children included."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def forecast_seconds(place: Place) -> float:
    """One forecast of memory with all its options, after a first one that reads the tables."""
    return float(ask_forecast(place)["seconds"])


def first_forecast_seconds(place: Place) -> float:
    """The same of a process that has read no table yet."""
    return float(ask_forecast(place)["first_seconds"])


def headers_seconds(place: Place) -> float:
    """Reading and understanding the headers of a checkpoint in 100 files."""
    return float(ask_headers(place)["seconds"])


def headers_bytes(place: Place) -> float:
    """What is read of that checkpoint for it, its index among it."""
    return float(ask_headers(place)["read_bytes"])


@cache
def ask_forecast(place: Place) -> dict[str, float]:
    """The figures of a child: see `benchmarks/capacity.py`."""
    found: dict[str, float] = json.loads(run([sys.executable, str(FORECAST), "prediction"], place))
    return found


@cache
def ask_headers(place: Place) -> dict[str, float]:
    """The same of the headers, with a checkpoint that has no blocks on the disk but for them."""
    with tempfile.TemporaryDirectory(dir=place.folder) as folder:
        command = [sys.executable, str(FORECAST), "headers", folder]
        found: dict[str, float] = json.loads(run(command, place))
        return found


def diagnosis_seconds(place: Place) -> float:
    """`stoker diagnose` over a log of 200 MB, from the start of the command to its end."""
    return median_seconds([STOKER, "diagnose", "--log", write_large_log(place)], place, runs=3)


def diagnosis_bytes(place: Place) -> float:
    """The peak resident memory of the same."""
    return peak_bytes([STOKER, "diagnose", "--log", write_large_log(place)], place)


@cache
def write_large_log(place: Place) -> str:
    """The path of the log, which is written once."""
    path = place.folder / "large.log"
    run([sys.executable, str(LARGE_LOG), str(path)], place)
    return str(path)


FIGURES = (
    Figure(
        what="start of the interpreter",
        take=interpreter_seconds,
        unit="ms",
        target=None,
        how="`python -c pass`, median of 15",
    ),
    Figure(
        what="`stoker --help`",
        take=help_seconds,
        unit="ms",
        target=150,
        how="median of 15",
    ),
    Figure(
        what="`stoker plan` of the example",
        take=plan_seconds,
        unit="ms",
        target=1000,
        how="median of 5",
    ),
    Figure(
        what="one forecast of memory with its options",
        take=forecast_seconds,
        unit="ms",
        target=50,
        how="DeepSeek-V3 on 8 H200, in the process, median of 9",
    ),
    Figure(
        what="the first forecast of a process",
        take=first_forecast_seconds,
        unit="ms",
        target=None,
        how="the same, once, with the reading of the tables",
    ),
    Figure(
        what="headers of a checkpoint in 100 files",
        take=headers_seconds,
        unit="ms",
        target=1000,
        how="the size and names of DeepSeek-V3: 91,985 tensors, 685 GB; median of 9",
    ),
    Figure(
        what="read of those 685 GB",
        take=headers_bytes,
        unit="MB",
        target=25,
        how="100 headers and the index",
    ),
    Figure(
        what="`stoker apply` with nothing to do",
        take=apply_again_seconds,
        unit="ms",
        target=2000,
        how="median of 5, the example serves",
    ),
    Figure(
        what="`stoker status`, peak memory",
        take=status_bytes,
        unit="MB",
        target=60,
        how="peak resident set, median of 5, the example serves",
    ),
    Figure(
        what="`stoker diagnose` of a log of 200 MB",
        take=diagnosis_seconds,
        unit="ms",
        target=5000,
        how="median of 3; 1.3 million lines of eight ranks, a failure at the end",
    ),
    Figure(
        what="the same, peak memory",
        take=diagnosis_bytes,
        unit="MB",
        target=200,
        how="peak resident set",
    ),
    Figure(
        what="guard of a service, memory",
        take=guard_bytes,
        unit="MB",
        target=50,
        how="resident set, the example serves",
    ),
    Figure(
        what="guard of a service, processor",
        take=guard_share,
        unit="%",
        target=1,
        how=f"of one core over {GUARD_SECONDS} s at the interval of the engine's table",
    ),
    Figure(
        what="base install",
        take=install_bytes,
        unit="MB",
        target=60,
        how="all files in site-packages: the wheel and its dependencies, compiled",
    ),
)

#: Units for one second, one byte or a whole.
SCALES = {"ms": 1e3, "MB": 1e-6, "%": 1e2}


@contextmanager
def own_place() -> Iterator[Place]:
    """A state folder that vanishes afterwards, and the example on a free port of its own."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as name:
        folder = Path(name)
        data = os.environ.get("STOKER_DATA") or str(PROJECT / ".cache" / "test-data")
        env = os.environ | {"STOKER_STATE": str(folder / "state"), "STOKER_DATA": data}
        deployment = folder / EXAMPLE.name
        if EXAMPLE.exists():
            text = re.sub(r"\bport: *\d+", f"port: {free_port()}", EXAMPLE.read_text("utf-8"))
            deployment.write_text(text, encoding="utf-8")
        try:
            yield Place(folder=folder, env=env, deployment=deployment)
        finally:
            subprocess.run([STOKER, "down"], env=env, capture_output=True, check=False)


def free_port() -> int:
    """A port of the loopback that nobody listens on right now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def take(figure: Figure, place: Place) -> Row:
    """Take one figure; that it cannot be taken is an answer too."""
    print(f"measuring {figure.what} ...", file=sys.stderr)
    try:
        return Row(figure=figure, value=figure.take(place) * SCALES[figure.unit])
    except NotMeasured as reason:
        return Row(figure=figure, value=None, reason=str(reason))


def render_table(rows: Sequence[Row]) -> str:
    """The figures as a Markdown table; times also as multiples of the interpreter's start."""
    lines = ["| what | measured | target | of base line | how |", "|---|---|---|---|---|"]
    for row in rows:
        figure = row.figure
        measured = (
            f"not run: {row.reason}" if row.value is None else f"{show(row.value)} {figure.unit}"
        )
        target = "" if figure.target is None else f"{figure.target} {figure.unit}"
        cells = (figure.what, measured, target, multiple(row, rows[0]), figure.how)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def show(value: float) -> str:
    """A figure without digits that mean nothing."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2f}"


def multiple(row: Row, base: Row) -> str:
    """How many times the base line a time is; empty for what is no time or was not measured."""
    if row.value is None or not base.value or row.figure.unit != base.figure.unit:
        return ""
    return f"{row.value / base.value:.1f} x"


def render_json(rows: Sequence[Row]) -> str:
    """The figures and the machine they were taken on."""
    machine = {"python": platform.python_version(), "system": platform.platform()}
    figures = [
        {
            "what": row.figure.what,
            "value": row.value,
            "unit": row.figure.unit,
            "target": row.figure.target,
            "how": row.figure.how,
            "reason": row.reason,
        }
        for row in rows
    ]
    return json.dumps(
        {"machine": machine | {"cores": os.cpu_count()}, "figures": figures}, indent=2
    )


def main() -> None:
    """Take every figure and print the table."""
    parser = argparse.ArgumentParser(description="Measure what Stoker itself costs.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    with own_place() as place:
        rows = [take(figure, place) for figure in FIGURES]
    if arguments.json:
        arguments.json.write_text(render_json(rows) + "\n", encoding="utf-8")
    print(render_table(rows))


if __name__ == "__main__":
    main()
