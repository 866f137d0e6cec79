"""Whether what runs, or would run, is what was measured: benchmark and production are one thing.

Called by `stoker plan` and `stoker status`. A measurement knows the digest of facts and launch;
where none of a deployment's measurements has the present one, the newest tells flag by flag what
differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.commands.measured_digest import (
    agree,
    measured_digest,
    plain_settings,
    served_part,
)
from stoker.commands.world import World
from stoker.errors import HostError, StateError
from stoker.model.benchmark import Benchmark, Served
from stoker.model.document import parse_document
from stoker.model.facts import Plain
from stoker.model.generation import Generation
from stoker.model.layout import benchmark_path
from stoker.state.benchmarks import list_ids

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
        newest: tuple[str, Served] | None = None
        for each in list_ids(world.host, world.folders)[:_MOST_READ]:
            # Once the newest is known only the same digest counts, which the text tells at once.
            served = _read_served(
                world, each, generation.name, served_part(digest) if newest else ""
            )
            if served is None:
                continue
            if agree(served.digest, digest):
                return ""
            newest = newest or (each, served)
    except (HostError, StateError):
        return ""
    if newest is None:
        return ""
    differences = [*_differences(newest[1], generation)]
    if not differences:
        differences = ["other weights, or another machine or driver"]
    shown = "; ".join(differences[:_MOST_SHOWN])
    more = len(differences) - _MOST_SHOWN
    return (
        f"what was measured last ({newest[0]}) is not this: {shown}"
        + (f"; and {more} more" if more > 0 else "")
        + f"; `stoker bench {generation.name}` measures what runs"
    )


def _read_served(world: World, wanted: str, name: str, digest: str) -> Served | None:
    """What was measured, where it is this deployment, and of this digest if one is given; None for
    others, and for a damaged one."""
    try:
        text = world.host.read_text(benchmark_path(world.folders, wanted), _LIMIT_BYTES)
        if f'"name": "{name}"' not in text or f'"digest": "{digest}' not in text:
            return None
        served = parse_document(text, Benchmark).served
    except (HostError, StateError):
        return None
    return served if served.name == name else None


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
