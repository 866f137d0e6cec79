"""The exact server as a process of its own, for tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.meta.source import PROJECT


@contextmanager
def exact_server(log: Path, *options: str) -> Iterator[int]:
    """Gives its port; afterwards the log is whole."""
    argv = [sys.executable, "-m", "benchmarks.exact_server", "--end-with-stdin", "--log", str(log)]
    with subprocess.Popen(
        [*argv, *options], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield int(process.stdout.readline().split()[-1])
            process.stdin.close()
            assert process.wait(10) == 0
        finally:
            process.kill()


def read_log(log: Path) -> list[dict[str, Any]]:
    """The truth of each request."""
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]
