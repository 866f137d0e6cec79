"""Writes a log of 200 MB that ends in a failure: ``python benchmarks/large_log.py FILE``.

Called by `benchmarks/run.py`, which then has it diagnosed. Most of its lines are what a busy server
of eight ranks writes, some are requests that were aborted, and the last start has no room for its
cache. The same lines come out every time.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

_LEAST_BYTES = 200_000_000
_LINES_AT_ONCE = 5000
_RECORDED = Path(__file__).resolve().parents[1] / "tests" / "recorded" / "engine_logs"
_HEALTHY = _RECORDED / "sglang-0.5.17-h200-by-stoker.log"
_FAILED = _RECORDED / "sglang-0.5.17-h200-no-room.log"


def make_lines(chance: random.Random) -> Iterator[str]:
    """What a server writes while it serves."""
    while True:
        clock = f"2026-11-30 22:{chance.randrange(60):02}:{chance.randrange(60):02}"
        kind = chance.random()
        if kind < 0.9:
            yield (
                f"[{clock} TP{chance.randrange(8)}] Decode batch, #running-req:"
                f" {chance.randrange(100)}, #token: {chance.randrange(10**6)}, token usage:"
                f" 0.{chance.randrange(99):02}, cuda graph: True, gen throughput (token/s):"
                f" {chance.random() * 1000:.2f}, #queue-req: {chance.randrange(9)}"
            )
        elif kind < 0.99:
            port = chance.randrange(20_000, 60_000)
            yield f'[{clock}] INFO: 127.0.0.1:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
        else:
            yield f"[{clock}] Error: request {chance.randrange(10**9)} was aborted by its client"


def write_log(path: Path) -> None:
    """Write the whole log."""
    lines = make_lines(random.Random(7))
    with path.open("w", encoding="utf-8") as file:
        written = file.write(_HEALTHY.read_text("utf-8"))
        while written < _LEAST_BYTES:
            written += file.write("".join(f"{next(lines)}\n" for _ in range(_LINES_AT_ONCE)))
        file.write(_FAILED.read_text("utf-8"))


if __name__ == "__main__":
    write_log(Path(sys.argv[1]))
