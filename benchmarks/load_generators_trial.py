"""One load generator against the exact server: what it says, beside what the server really kept.

Both share the machine's processors, as they do wherever a server is measured from its own machine.
"""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.exact_server import MODEL
from benchmarks.load_generators_tools import (
    PROJECT,
    NotRun,
    Said,
    Tool,
    find_program,
    make_environment,
    read_remarks,
    read_said,
)
from stoker.evaluate.rivals import last_line

_END_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the tools are asked for, and what the exact server keeps meanwhile.

    ``itl_ms`` 0: the server sends without pause, and the client alone sets the pace.
    """

    name: str
    concurrency: int
    requests: int
    prompt_tokens: int = 32
    tokens: int = 64
    ttft_ms: float = 100.0
    itl_ms: float = 10.0
    events_per_write: int = 1

    @property
    def ideal_tokens_per_second(self) -> float | None:
        """Of a client that sends the next request in the moment in which one ends."""
        if not self.itl_ms:
            return None
        waves = math.ceil(self.requests / self.concurrency)
        wave_ms = self.ttft_ms + (self.tokens - 1) * self.itl_ms
        return self.requests * self.tokens / (waves * wave_ms / 1e3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What the server kept of the load's requests; ``first_seconds``: when the very first came, on
    the monotonic clock, be it a tool's warm-up. ``itl_ms`` is None where there were no gaps."""

    requests: int
    tokens_per_second: float
    ttft_ms: float
    ttft_p99_ms: float
    itl_ms: float | None
    max_late_ms: float
    first_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a tool took. CPU of all its processes; memory of the largest of them."""

    status: int
    started_seconds: float
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One tool under one load. ``failure``: why there are no figures, or why they are not whole.
    ``remarks``: what is to be known of them, the tool's own doubts among it.
    """

    tool: str
    load: Load
    truth: Truth | None = None
    said: Said | None = None
    spent: Spent | None = None
    failure: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def first_request_seconds(self) -> float | None:
        """From the start of the command until the server had its first request."""
        if self.truth is None or self.spent is None:
            return None
        return self.truth.first_seconds - self.spent.started_seconds


@contextmanager
def serving(load: Load, log: Path) -> Iterator[str]:
    """The exact server as a process of its own; gives its address. Afterwards the log is whole."""
    argv = [
        *(sys.executable, "-m", "benchmarks.exact_server", "--end-with-stdin"),
        *("--ttft-ms", str(load.ttft_ms), "--itl-ms", str(load.itl_ms), "--log", str(log)),
        *("--events-per-write", str(load.events_per_write)),
    ]
    with subprocess.Popen(
        argv, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            # Both were asked for above.
            assert server.stdout is not None
            assert server.stdin is not None
            line = server.stdout.readline()
            if not line.startswith("listening on "):
                raise NotRun("the exact server did not start")
            yield f"http://127.0.0.1:{line.split()[-1]}"
            server.stdin.close()
            server.wait(_END_SECONDS)
        finally:
            server.kill()


def try_tool(tool: Tool, load: Load, folder: Path, timeout_seconds: float) -> Trial:
    """Run it once. ``folder``: an empty one for its files; ``tokenizer`` lies beside it."""
    log = folder / "truth.jsonl"
    words = {
        "model": MODEL,
        "tokenizer": str(folder.parent / "tokenizer"),
        "folder": str(folder),
        **{key: str(getattr(load, key)) for key in ("concurrency", "requests", "tokens")},
        "prompt_tokens": str(load.prompt_tokens),
    }
    trial = Trial(tool=tool.name, load=load)
    try:
        program = find_program(tool)
        with serving(load, log) as url:
            words["url"] = url
            argv = [program, *(word.format(**words) for word in tool.argv)]
            spent = _run(argv, make_environment(tool, words), folder, timeout_seconds)
        trial = replace(trial, spent=spent, truth=read_truth(log.read_text("utf-8"), load.requests))
        if spent.wall_seconds >= timeout_seconds:
            raise NotRun(f"it had not ended after {timeout_seconds:.0f} s")
        trial = replace(trial, said=_read(tool, spent, folder), remarks=read_remarks(tool, folder))
    except (NotRun, OSError, subprocess.TimeoutExpired) as error:
        return replace(trial, failure=str(error))
    answered = trial.truth.requests if trial.truth else 0
    if answered < load.requests:
        return replace(trial, failure=f"{answered} of {load.requests} requests were answered")
    # Some end so to say that they doubt their own figures.
    doubts = (f"exit status {spent.status}",) if spent.status else ()
    return replace(trial, remarks=trial.remarks + doubts)


def _read(tool: Tool, spent: Spent, folder: Path) -> Said:
    try:
        return read_said(tool, folder)
    except NotRun:
        if spent.status:
            raise NotRun(_explain(spent, folder)) from None
        raise


def _explain(spent: Spent, folder: Path) -> str:
    texts = [(folder / name).read_text("utf-8", "replace") for name in ("stderr", "stdout")]
    return f"exit status {spent.status}: {last_line(next(filter(str.strip, texts), ''))}"


def _run(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, timeout_seconds: float
) -> Spent:
    """Run a command in its folder to its end, or to ours. What it leaves behind is ended."""
    with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
        started = monotonic()
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    timer = threading.Timer(timeout_seconds, _end_group, (process.pid,))
    timer.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
        wall_seconds = monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        timer.cancel()
        _end_group(process.pid)
    return Spent(
        status=process.returncode,
        started_seconds=started,
        wall_seconds=wall_seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_bytes=usage.ru_maxrss * 1024,
    )


def _end_group(process_id: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process_id, signal.SIGKILL)


def read_truth(log: str, requests: int) -> Truth | None:
    """The truth of the last so many requests, since a tool's own warm-up comes before them."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in log.splitlines()]
    rows.sort(key=lambda row: row["received_seconds"])
    whole = [row for row in rows if row["is_whole"] and row["is_streamed"]][-requests:]
    if not whole:
        return None
    ends = [row["received_seconds"] + row["e2e_ms"] / 1e3 for row in whole]
    lasted = max(ends) - whole[0]["received_seconds"]
    waits = [row["ttft_ms"] for row in whole]
    gaps = [row["gap_mean_ms"] for row in whole if row["gap_mean_ms"] is not None]
    return Truth(
        requests=len(whole),
        tokens_per_second=sum(row["tokens"] for row in whole) / lasted,
        ttft_ms=statistics.fmean(waits),
        ttft_p99_ms=find_percentile(waits, 0.99),
        itl_ms=statistics.fmean(gaps) if gaps else None,
        max_late_ms=max(row["max_late_ms"] for row in whole),
        first_seconds=rows[0]["received_seconds"],
    )


def find_percentile(values: Sequence[float], share: float) -> float:
    """Between the two nearest values in proportion, as the compared tools do."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = ordered[math.floor(place)]
    return low + (ordered[math.ceil(place)] - low) * (place % 1)
