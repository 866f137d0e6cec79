"""What was measured and kept: listed, read, compared."""

from __future__ import annotations

from stoker.bench.comparing import compare
from stoker.commands.world import World
from stoker.model.benchmark import Benchmark, Sample
from stoker.model.benchmark_comparison import BenchmarkComparison
from stoker.state.benchmarks import (
    ListedBenchmarks,
    Wanted,
    list_benchmarks,
    read_benchmark,
    read_samples,
)


def list_kept(world: World, name: str | None) -> ListedBenchmarks:
    """All benchmarks, or those of a deployment or a URL. Raises HostError."""
    is_url = name is not None and "://" in name
    wanted = Wanted(url=name or "") if is_url else Wanted(name=name or "")
    return list_benchmarks(world.host, world.folders, wanted)


def read_kept(world: World, wanted: str) -> tuple[Benchmark, tuple[tuple[Sample, ...], ...]]:
    """A benchmark and its samples. Raises UsageError, StateError or HostError."""
    found = read_benchmark(world.host, world.folders, wanted)
    return found, read_samples(world.host, world.folders, found)


def compare_kept(world: World, before: str, after: str) -> BenchmarkComparison:
    """Whether the second is faster. Raises UsageError, StateError, HostError."""
    host, folders = world.host, world.folders
    return compare(read_benchmark(host, folders, before), read_benchmark(host, folders, after))
