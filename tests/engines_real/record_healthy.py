"""Record the logs of healthy starts with many flags for the tests of the diagnosis.

Run by hand like record_failures.py. Each start becomes ready, is asked to stop, and ends; its log
goes to tests/diagnosis/recorded/healthy without what it repeats.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.conftest import PROJECT
from tests.engines_real.faults import (
    Start,
    make_bench,
    neutral,
    of_llamacpp,
    of_sglang,
    of_vllm,
    run,
)
from tests.engines_real.record_failures import RECORDED, say, trim

HEALTHY = RECORDED.parent / "healthy"
_RELEASES = {"llamacpp": "b11549", "sglang": "0.5.23", "vllm": "0.32.0"}
_OF: Mapping[str, Callable[..., Start]] = {
    "llamacpp": of_llamacpp,
    "sglang": of_sglang,
    "vllm": of_vllm,
}
_READY = "fired up and ready|Application startup complete|listening on http"
_MOST_LINES = 60
_MOST_BYTES = 5_000

#: The words of each start, by its name.
STARTS: dict[str, dict[str, str]] = {
    "llamacpp": {
        "plain": "",
        "parallel": "--parallel 2",
        "one-slot": "--parallel 1",
        "split-cache": "--ctx-size 4096 --parallel 4 --no-kv-unified --verbosity 4",
        "shared-cache": "--ctx-size 4096 --parallel 3 --kv-unified",
        "cache-8-bit": "--cache-type-k q8_0 --cache-type-v q8_0 --verbosity 4",
        "cache-4-bit": "--cache-type-k q4_0 --parallel 1 --verbosity 4",
        "cache-bf16": "--cache-type-k bf16 --cache-type-v bf16 --verbosity 4",
        "cache-f32": "--cache-type-k f32",
        "no-flash": "--flash-attn off --verbosity 4",
        "flash": "--flash-attn on",
        "small-batch": "--batch-size 64 --ubatch-size 32 --verbosity 4",
        "long-context": "--ctx-size 32768 --parallel 1 --verbosity 4",
        "metrics": "--metrics --slots",
        "template": "--chat-template chatml",
        "no-jinja": "--no-jinja",
        "alias": "--alias small-model --api-key k3y",
        "no-warmup": "--no-warmup",
        "fit-off": "--fit off",
        "offload": "--n-gpu-layers 99",
        "reasoning-off": "--reasoning-budget 0",
        "verbose": "--verbosity 4",
        "timestamps": "--log-timestamps --log-prefix",
        "embeddings": "--embeddings --pooling mean",
        "cache-reuse": "--cache-reuse 256",
        "all-addresses": "--host 0.0.0.0",
        "draft-ngram": "--spec-type ngram-simple --verbosity 4",
        "rope": "--rope-scaling yarn --rope-scale 2 --ctx-size 16384 --parallel 1",
        "no-batching": "--no-cont-batching --predict 64",
        "cache-off": "--no-cache-prompt --cache-ram 0",
        "window": "--swa-full --no-context-shift",
        "shift": "--context-shift --keep 64",
        "no-repack": "--no-repack --no-host",
        "seed": "--seed 7 --temp 0 --top-k 1",
        "timeout": "--timeout 60 --threads-http 2",
        "props": "--props --no-slots",
        "reasoning-format": "--reasoning-format deepseek",
        "checkpoints": "--ctx-checkpoints 4",
    },
    "sglang": {
        "plain": "",
        "tools": "--tool-call-parser hermes --reasoning-parser qwen3",
        "metrics": "--enable-metrics --log-level debug",
        "no-radix": "--disable-radix-cache --context-length 1024",
        "small": "--max-running-requests 2 --chunked-prefill-size 256",
        "long": "--context-length 8192 --page-size 16",
    },
    "vllm": {
        "plain": "",
        "tools": "--enable-auto-tool-choice --tool-call-parser hermes",
        "small": "--max-num-seqs 2 --max-num-batched-tokens 2048",
        "no-prefix": "--no-enable-prefix-caching --max-model-len 1024",
        "reasoning": "--reasoning-parser qwen3 --generation-config vllm",
        "logging": "--enable-log-requests --served-model-name small",
    },
}


def main() -> None:
    """Record what the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = [f"{engine}-{name}" for engine, starts in STARTS.items() for name in starts]
    parser.add_argument("start", nargs="*", choices=[*names, []])
    engines = PROJECT / os.environ["STOKER_ENGINES"]
    for full in parser.parse_args().start or names:
        engine, _, name = full.partition("-")
        with tempfile.TemporaryDirectory(prefix="start-") as folder:
            bench = make_bench(engines, Path(folder))
            start = _OF[engine](bench, *STARTS[engine][name].split())
            start = replace(start, strikes=(_READY, stop))
            found = run(start, bench)
            lines = neutral(found.lines, bench)
        if not any(re.search(_READY, line) for line in lines):
            say(f"{full} did not become ready: {lines[-3:]}")
            continue
        write(HEALTHY / f"{engine}-{_RELEASES[engine]}-{name}.log", lines)
        say(f"{full}: {len(lines)} lines, status {found.status}")


def stop(process: int) -> None:
    """Ask an engine to stop as a supervisor does, a moment after it said that it is ready."""
    time.sleep(0.5)
    os.kill(process, signal.SIGTERM)


def write(path: Path, lines: Sequence[str]) -> None:
    """One line of each wording, and of a long log the beginning and the end."""
    seen: dict[str, str] = {}
    for line in lines:
        if line.strip():
            seen.setdefault(re.sub(r"[\d.:]+", "#", line)[:70], trim(line))
    kept = list(seen.values())
    if len(kept) > _MOST_LINES:
        kept = [*kept[: _MOST_LINES // 2], *kept[-_MOST_LINES // 2 :]]
    while sum(len(line) + 1 for line in kept) > _MOST_BYTES:
        kept.remove(max(kept, key=len))
    path.write_text("\n".join(kept) + "\n", "utf-8")


if __name__ == "__main__":
    main()
