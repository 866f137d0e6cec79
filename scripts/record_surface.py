"""Measure a complete grid of configurations on a real engine, as a surface for the tuner's tests.

Run by hand, on a core that nothing else uses:

    taskset -c 1 python -m scripts.record_surface llamacpp /tmp/llamacpp.jsonl --passes 2
    python -m scripts.record_surface llamacpp /tmp/llamacpp.jsonl --write

The first measures every configuration once in each pass and appends one line for each to the file;
what the file has already is not measured again, so that it can be stopped and called again. With
``--doubtful`` only points whose repetitions lie more than 5 % apart are measured once more. The
second makes `tests/tuning/surfaces/NAME.json` of the lines. ``--noise 10`` measures the default so
often and says how much it varies. A burst on a disturbed core is sent again unless SURFACE_CALM_US
is set high, which saves time where the core is never calm. Engines lie where
`make test` and `make test-engines` put them.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from scripts.record_surface_engines import GRIDS, PROMPTS, Grid
from scripts.record_surface_file import (
    Line,
    list_doubtful,
    read_lines,
    render_key,
    write_surface,
)
from stoker.bench.load import run_load
from stoker.bench.load_values import Patience, Target
from stoker.bench.requests import COMPLETIONS_PATH, Planned, render_body
from stoker.errors import EndpointError
from stoker.model.benchmark import Load

#: A burst in which the engine and this client had less of the core than this was disturbed.
_OWN_SHARE = 0.93
#: How much work a pulse is (about 1 ms), and how often it beats: 1 % of the core.
_PULSE_COUNT, _PULSE_SECONDS = 60_000, 0.1
#: A pulse of a core that is ours alone costs 862 to 885 us on the machine of the first surfaces.
_CALM_PULSE_US = float(os.environ.get("SURFACE_CALM_US", "910"))
#: How often a burst is sent until one was calm.
_ATTEMPTS = 2
#: llama.cpp would answer a repeated prompt from its cache, and a repeated burst would be faster.
_FRESH = {"cache_prompt": False}
_LOG_BYTES, _SAID_CHARACTERS = 16_000, 300
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class StartError(Exception):
    """The engine did not start; the text is what its log said last."""


def main() -> None:
    """Measure, or write the surface of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("grid", choices=sorted(GRIDS))
    parser.add_argument("file", type=Path)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--noise", type=int, default=0, help="repetitions of the default alone")
    parser.add_argument("--doubtful", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    grid = GRIDS[options.grid]
    if options.write:
        say(write_surface(grid, read_lines(options.file)))
    elif options.noise:
        measure_noise(grid, options.noise)
    elif options.doubtful:
        lines = read_lines(options.file)
        record(grid, options.file, [(find, 9) for find in list_doubtful(lines)])
    else:
        every = list(grid.list_configurations())
        wanted = itertools.product(range(options.passes), every)
        record(grid, options.file, [(chosen, number) for number, chosen in wanted])


def record(grid: Grid, path: Path, wanted: Sequence[tuple[dict[str, str], int]]) -> None:
    """Measure what the file lacks; a configuration that failed once is not tried again."""
    lines = read_lines(path)
    had = {(render_key(line.configuration), line.number) for line in lines}
    failed = {render_key(line.configuration) for line in lines if line.status == "failed"}
    left = [each for each in wanted if (render_key(each[0]), each[1]) not in had]
    began = time.monotonic()
    for done, (chosen, number) in enumerate(left):
        if render_key(chosen) in failed:
            continue
        line = measure(grid, chosen, number)
        if line.status == "failed":
            failed.add(render_key(chosen))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(line)) + "\n")
        spent = time.monotonic() - began
        rest = spent / (done + 1) * (len(left) - done - 1)
        say(f"{done + 1}/{len(left)}, {rest / 60:.1f} min left: {_describe(line)}")


def _describe(line: Line) -> str:
    values = " ".join(f"{value:.1f}" for value in line.values)
    shares = " ".join(f"{share:.2f}" for share in line.shares)
    pulses = " ".join(f"{pulse:.0f}" for pulse in line.pulses)
    told = f"{line.status} {values} (share {shares}, pulse {pulses}) {line.said}"
    return f"{render_key(line.configuration)}: {told}"


def measure(grid: Grid, chosen: Mapping[str, str], number: int) -> Line:
    """Start one configuration, send the requests as often as the grid says, and end it."""
    try:
        with _started(grid, chosen) as (port, pid, seconds):
            _send(port, 1, 2)
            for _ in range(grid.warmups):
                _send(port, len(PROMPTS), grid.tokens)
            found = [_measure_burst(grid, port, pid) for _ in range(grid.repetitions)]
    except (StartError, EndpointError) as error:
        return Line(configuration=dict(chosen), number=number, status="failed", said=str(error))
    return Line(
        configuration=dict(chosen),
        number=number,
        status="measured",
        values=tuple(round(burst.rate, 3) for burst in found),
        shares=tuple(round(burst.share, 3) for burst in found),
        pulses=tuple(round(burst.pulse_us, 1) for burst in found),
        start_seconds=round(seconds, 2),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """The requests once: tokens a second, our share of the core, and how fast the core was."""

    rate: float
    share: float
    pulse_us: float

    def is_calm(self) -> bool:
        """Whether nobody took part in the core, be it here or on the machine below."""
        return self.share >= _OWN_SHARE and self.pulse_us <= _CALM_PULSE_US


def _measure_burst(grid: Grid, port: int, pid: int) -> Burst:
    """The first calm burst of a few, else the calmest: its rate is never looked at."""
    found: list[Burst] = []
    for _ in range(_ATTEMPTS):
        found.append(_time_burst(grid, port, pid))
        if found[-1].is_calm():
            break
    return min(found, key=lambda burst: burst.pulse_us / min(burst.share, 1.0))


def _time_burst(grid: Grid, port: int, pid: int) -> Burst:
    before, began = _cpu_seconds(pid), time.monotonic()
    with _Pulse() as pulse:
        rate = _send(port, len(PROMPTS), grid.tokens)
    share = (_cpu_seconds(pid) - before) / (time.monotonic() - began)
    return Burst(rate=rate, share=share, pulse_us=pulse.mean_us)


class _Pulse:
    """How fast the core is meanwhile: what a fixed small piece of work costs, in microseconds.

    A virtual core shares its real one with strangers, which no count of processes shows.
    """

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._beat)
        self._costs: list[float] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def mean_us(self) -> float:
        return statistics.mean(self._costs) * 1e6

    def _beat(self) -> None:
        while True:
            began = time.thread_time()
            sum(range(_PULSE_COUNT))
            self._costs.append(time.thread_time() - began)
            if self._is_over.wait(_PULSE_SECONDS):
                return


def _send(port: int, count: int, tokens: int) -> float:
    """Output tokens a second by the server's usage, from the first sending to the last content."""
    fields = {"model": "m", "temperature": 0, "ignore_eos": True, "max_tokens": tokens, **_FRESH}
    plans = [
        Planned(path=COMPLETIONS_PATH, body=render_body({**fields, "prompt": prompt}))
        for prompt in PROMPTS[:count]
    ]
    ran = run_load(
        Target(address="127.0.0.1", port=port, authority=f"127.0.0.1:{port}"),
        Load(concurrency=count, requests=count),
        iter(plans),
        patience=Patience(request_seconds=120.0),
    )
    if ran.was_interrupted:
        raise KeyboardInterrupt
    good = [sample for sample in ran.samples if sample.is_good and sample.last_seconds]
    if len(good) != count:
        raise StartError(f"{count - len(good)} of {count} requests failed: {ran.said}")
    seconds = max(sample.last_seconds or 0.0 for sample in good) - min(
        sample.sent_seconds for sample in good
    )
    return sum(sample.tokens.output or 0 for sample in good) / seconds


@contextmanager
def _started(grid: Grid, chosen: Mapping[str, str]) -> Iterator[tuple[int, int, float]]:
    """An engine that answers: its port, its process group, and what the start took."""
    port = _find_port()
    passed = {name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ}
    log = Path(f"/tmp/surface-{os.getpid()}.log")
    began = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            grid.render(chosen, port),
            env={**passed, **grid.render_variables(chosen)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    try:
        while not _is_ready(port):
            if process.poll() is not None:
                raise StartError(_read_last(log))
            if time.monotonic() - began > grid.start_seconds:
                raise StartError(f"not ready after {grid.start_seconds:.0f} s: {_read_last(log)}")
            time.sleep(0.03)
        yield port, process.pid, time.monotonic() - began
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.unlink()


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _read_last(log: Path) -> str:
    """What a log says of its end: llama.cpp's first error, the last error of others, the last line.

    llama.cpp marks errors with an E after the time and tells the reason first; Python does last.
    """
    text = log.read_bytes()[-_LOG_BYTES:].decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line.partition(" E ")[2] for line in lines if " E " in line]
    told = marked[:1] or [line for line in lines if "error" in line.lower()] or lines or ["nothing"]
    return told[-1][:_SAID_CHARACTERS]


def _cpu_seconds(group: int) -> float:
    """What the engine's processes and this one have computed so far."""
    own = os.times()
    total = own.user + own.system
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                total += (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
    return total


def measure_noise(grid: Grid, count: int) -> None:
    """Start the default so often, and say how much it varies."""
    default = {knob.id: knob.default for knob in grid.knobs}
    lines = [measure(grid, default, number) for number in range(count)]
    values = [value for line in lines for value in line.values]
    for line in lines:
        say(_describe(line))
    share = statistics.stdev(values) / statistics.mean(values)
    say(f"mean {statistics.mean(values):.2f}, coefficient of variation {share:.2%}")


def say(line: str) -> None:
    """One line for whoever waits."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
