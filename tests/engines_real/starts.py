"""A deployment is resolved and predicted as the command does it, and its engine started beside it.

Without a supervisor: what an engine says of its memory stands in the first lines of its log.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.capacity.inputs import Inputs
from stoker.capacity.pool import Pool, Refusal
from stoker.capacity.predict import predict, predict_pool
from stoker.cli.progress import SilentReporter
from stoker.cli.world import build_world
from stoker.commands.capacity_inputs import describe_deployment
from stoker.commands.resolve import Resolved, resolve
from stoker.engines.resolved import read_resolved
from stoker.knowledge.engines import load_engine_table
from stoker.model.capacity import Capacity
from stoker.model.facts import Plain
from stoker.model.resolved import Resolved as Told
from stoker.spec import edit_deployment
from tests.probes.model_files import F32, build_gguf
from tests.system.runner import free_port

_HERE = Path(__file__).parent
_STOP_SECONDS = 20.0
_LINES = 20_000
_PLAIN = """\
name: real
model: path:/somewhere
engine:
  kind: llamacpp
  environment: embedded
gpus: none
serve:
  host: 127.0.0.1
  port: 30000
  published_name: real-model
service:
  supervisor: supervisord
  on_boot: false
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What was predicted, and what the engine told."""

    inputs: Inputs
    capacity: Capacity
    pool: Pool
    told: Told
    lines: tuple[str, ...]

    def value(self, name: str) -> Any:
        """What the engine told, by our name; None where it did not."""
        found = self.told.values.get(name)
        return None if found is None else found.value

    def find(self, pattern: str) -> float:
        """The first number that stands after some words of the log."""
        found = re.search(pattern, "\n".join(self.lines))
        assert found is not None, f"{pattern} is not in the log"
        return float(found[1])


def start(changes: Mapping[str, Plain], *, until: str, seconds: float = 300.0) -> Started:
    """Predict a deployment, start its engine until a line says enough, and end it."""
    resolved = _resolve(changes)
    inputs = describe_deployment(resolved).inputs
    found = predict_pool(inputs)
    capacity = predict(inputs)
    assert not isinstance(found, Refusal), found
    assert capacity.kv_tokens is not None, capacity.unknown
    lines = _run(resolved, until=until, seconds=seconds)
    told = read_resolved(lines, load_engine_table(resolved.deployment.engine.kind))
    return Started(inputs=inputs, capacity=capacity, pool=found[1], told=told, lines=tuple(lines))


def read_start(changes: Mapping[str, Plain], *, until: str, seconds: float = 300.0) -> list[str]:
    """The log of a start up to a line that says enough."""
    return _run(_resolve(changes), until=until, seconds=seconds)


def predict_only(changes: Mapping[str, Plain]) -> Capacity:
    """The prediction of a deployment that is not started."""
    return predict(describe_deployment(_resolve(changes)).inputs)


def _resolve(changes: Mapping[str, Plain]) -> Resolved:
    world = build_world(SilentReporter())
    world.open_state()
    defaults = {
        "serve.port": free_port(),
        "service.user": pwd.getpwuid(os.geteuid()).pw_name,
    }
    text = edit_deployment(_PLAIN, {**defaults, **changes})
    return resolve(world, text, "real.yaml")


def _run(resolved: Resolved, *, until: str, seconds: float) -> list[str]:
    launch = resolved.launch
    passed = {name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ}
    process = subprocess.Popen(
        launch.argv,
        env={**passed, **launch.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    # An engine that hangs is ended, and the lines that it wrote are judged.
    timer = threading.Timer(seconds, _end, args=(process,))
    timer.start()
    try:
        return _read(process, until)
    finally:
        timer.cancel()
        _end(process)


def _read(process: subprocess.Popen[str], until: str) -> list[str]:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if re.search(until, line) or len(lines) >= _LINES:
            return lines
    raise AssertionError("the engine ended early:\n" + "\n".join(lines[-40:]))


def _end(process: subprocess.Popen[str]) -> None:
    """The engine with all that it started; its group is its own."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        end = time.monotonic() + _STOP_SECONDS
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
    if process.stdout is not None:
        process.stdout.close()


def load_small_models() -> Mapping[str, Mapping[str, Any]]:
    """Models of all sorts that llama.cpp loads, by name: ``architecture``, ``keys`` behind it, and
    ``tensors``, whose ``blk.*`` stand for all layers and ``blk.0,2`` for some."""
    loaded: Mapping[str, Mapping[str, Any]] = json.loads(
        (_HERE / "small_models.json").read_text("utf-8")
    )
    return loaded


def write_small_model(model: Mapping[str, Any], path: Path) -> None:
    """A GGUF file without a vocabulary, all of whose weights are zero."""
    architecture, keys = model["architecture"], model["keys"]
    tensors = [
        (name, tuple(dimensions), F32)
        for pattern, dimensions in model["tensors"].items()
        for name in _names(pattern, keys["block_count"])
    ]
    metadata = {
        "general.architecture": architecture,
        "tokenizer.ggml.model": "no_vocab",
        **{f"{architecture}.{name}": value for name, value in keys.items()},
    }
    words = next(shape[-1] for name, shape, _ in tensors if name == "token_embd.weight")
    metadata[f"{architecture}.vocab_size"] = words
    path.write_bytes(build_gguf(metadata, tensors))


def _names(pattern: str, layers: int) -> list[str]:
    found = re.fullmatch(r"blk\.([\d,*]+)\.(.+)", pattern)
    if found is None:
        return [pattern]
    numbers = range(layers) if found[1] == "*" else map(int, found[1].split(","))
    return [f"blk.{number}.{found[2]}" for number in numbers]
