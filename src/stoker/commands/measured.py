"""Whether what runs, or would run, is what was measured: benchmark and production are one thing.

Called by `stoker plan` and `stoker status`. A measurement knows the digest of facts and launch;
where none of a deployment's measurements has the present one, the newest tells flag by flag what
differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.commands.measured_digest import measured_digest, plain_settings
from stoker.commands.world import World
from stoker.errors import HostError, StateError, UsageError
from stoker.model.benchmark import Served
from stoker.model.facts import Plain
from stoker.model.generation import Generation
from stoker.model.layout import benchmark_path
from stoker.state.benchmarks import list_ids, read_benchmark

#: How many benchmarks are looked through, the newest first: a search alone makes some dozens.
_MOST_READ = 200
_LIMIT_BYTES = 4 << 20
_MOST_SHOWN = 6


def describe_unmeasured(world: World, generation: Generation) -> str:
    """How a generation differs from what was measured of its deployment, in a sentence.

    Empty where it is what was measured, where nothing was, and where nobody can tell.
    """
    try:
        digest = measured_digest(world, generation)
        newest = ""
        for each in list_ids(world.host, world.folders)[:_MOST_READ]:
            text = world.host.read_text(benchmark_path(world.folders, each), _LIMIT_BYTES)
            if f'"name": "{generation.name}"' not in text:
                continue
            if f'"digest": "{digest}"' in text:
                return ""
            newest = newest or each
        if not newest:
            return ""
        found = read_benchmark(world.host, world.folders, newest)
    except (HostError, StateError, UsageError):
        return ""
    differences = [*_differences(found.served, generation)]
    if found.served.name != generation.name or not differences:
        return ""
    shown = "; ".join(differences[:_MOST_SHOWN])
    more = len(differences) - _MOST_SHOWN
    return (
        f"what was measured last ({found.id}) is not this: {shown}"
        + (f"; and {more} more" if more > 0 else "")
        + f"; `stoker bench {generation.name}` measures what runs"
    )


def _differences(served: Served, generation: Generation) -> Iterator[str]:
    """What was measured, and what is now, flag by flag."""
    launch = generation.launch
    if (served.engine, served.release) != (launch.engine, launch.engine_build):
        yield f"{served.engine} {served.release} then, {launch.engine} {launch.engine_build} now"
    if served.model != launch.published_name:
        yield f"the model {served.model} then, {launch.published_name} now"
    before: Mapping[str, Plain] = served.settings
    now = plain_settings(launch.settings)
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            yield f"{name} {_say(before, name)} then, {_say(now, name)} now"


def _say(settings: Mapping[str, Plain], name: str) -> str:
    value = settings.get(name)
    return "not set" if name not in settings else f"{value}" if value else "set"
