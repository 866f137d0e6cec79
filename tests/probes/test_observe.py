"""Running the probes: whatever the world answers, facts come out."""

from __future__ import annotations

import json

import pytest

from stoker.hosts.local import LocalHost
from stoker.hosts.recording import RecordingHost
from stoker.hosts.replay import ReplayHost
from stoker.model.facts import Facts, Target, Unknown
from stoker.ports import ReadableHost
from stoker.probes.observe import find_probes, observe
from tests.fakes.host import MemoryHost

IDS = {
    "cpu",
    "disk",
    "draft",
    "driver",
    "engine",
    "engine_packages",
    "gpu_holders",
    "gpus",
    "interpreters",
    "iommu",
    "limits",
    "listeners",
    "memory",
    "model",
    "pci",
    "reach",
    "service_manager",
    "service_sandbox",
    "shm",
    "topology",
}


def look(
    host: ReadableHost, target: Target | None = None, only: frozenset[str] | None = None
) -> Facts:
    return observe(host, target or Target(), stoker_version="1.2.3", now_seconds=5.0, only=only)


def test_finds_the_probes_by_their_modules() -> None:
    probes = find_probes()
    assert [probe.id for probe in probes] == sorted(IDS)
    assert all(probe.read.__module__ == f"stoker.probes.{probe.id}" for probe in probes)
    assert all(probe.source for probe in probes)


def test_an_empty_machine_is_unknown_and_not_an_error() -> None:
    facts = look(MemoryHost(name="empty"))
    assert (facts.host, facts.stoker_version) == ("empty", "1.2.3")
    assert set(facts.observations) == IDS
    for probe in ("cpu", "memory", "pci", "listeners", "model", "draft", "engine", "reach"):
        observation = facts.observations[probe]
        assert observation.unknown
        assert observation.value is None
    assert facts.observations["cpu"].taken_at_seconds == 5.0
    assert facts.read("interpreters.interpreters") == []
    assert facts.read("disk") == {"folders": {}}


def test_the_reason_of_an_unknown_is_the_sentence_of_the_failure() -> None:
    facts = look(MemoryHost({"/proc/meminfo": "MemTotal: many\n"}))
    assert facts.read("cpu.model") == Unknown(reason="/proc/cpuinfo does not exist")
    memory = facts.read("memory.total_bytes")
    assert isinstance(memory, Unknown)
    assert memory.reason == (
        "what was read could not be understood: /proc/meminfo does not say MemTotal"
    )


def test_what_was_not_declared_says_so() -> None:
    facts = look(MemoryHost())
    reasons = {probe: facts.observations[probe].unknown for probe in IDS}
    assert reasons["model"] == "no model is known yet"
    assert reasons["draft"] == "no draft model is declared"
    assert reasons["engine"] == "no engine command is known yet"
    assert reasons["service_sandbox"] == "no service of systemd is planned"
    assert reasons["reach"] == "the service runs as the same user as Stoker"


def test_only_some_probes_may_look() -> None:
    facts = look(MemoryHost(), only=frozenset({"disk", "pci", "nothing"}))
    assert set(facts.observations) == {"disk", "pci"}


@pytest.mark.timeout(120)
def test_this_machine_answers_every_probe_and_replays_the_same() -> None:
    target = Target(
        model_path="/nowhere/model.gguf",
        draft_path="/etc/passwd",
        folders=("/var/lib/nowhere", "/tmp"),
        command=("/bin/true",),
        user="nobody",
    )
    host = RecordingHost(LocalHost())
    facts = look(host, target)
    assert set(facts.observations) == IDS
    for probe, observation in facts.observations.items():
        assert bool(observation.unknown) == (observation.value is None), probe
        json.dumps(observation.value)
    assert facts.read("model.format") == "missing"
    assert facts.read("draft.format") == "unknown"
    assert facts.read("engine.exit_status") == 0
    count, total, usable = (
        facts.observations[probe].value[name]
        for probe, name in (
            ("cpu", "logical_count"),
            ("memory", "total_bytes"),
            ("memory", "usable_bytes"),
        )
    )
    assert count >= 1
    assert total >= usable > 0

    replayed = look(ReplayHost(json.loads(json.dumps(host.record()))), target)
    for probe in IDS - {"listeners", "service_manager"}:
        assert replayed.observations[probe] == facts.observations[probe], probe
