"""The small client as a tool, and a load that takes it no time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.load_generators_tools import PROJECT, Tool
from benchmarks.load_generators_trial import Load

QUICK = Load(name="quick", concurrency=1, requests=3, tokens=4, ttft_ms=2.0, itl_ms=1.0)


def make_tool(status: int = 0, requests: str = "{requests}", *more: str) -> Tool:
    """It sends so many requests and ends with the status; ``silent`` writes nothing."""
    client = str(Path(__file__).with_name("small_client.py"))
    return Tool(
        name="small",
        program=os.path.relpath(sys.executable, PROJECT),
        argv=(client, "{url}", requests, "{tokens}", str(status), *more),
        result="result.json",
        figures={"tokens_per_second": "rate", "ttft_ms": "ttft.mean", "itl_ms": "itl.mean"},
        remarks="doubts",
        legend="",
    )
