"""Run the probes and put their answers together as facts.

Called by the command layer, and by tests with a replayed host. Never raises for the state of the
world: what cannot be read becomes an unknown fact with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from stoker import probes
from stoker.errors import HostError
from stoker.model.facts import Facts, Observation, Target
from stoker.ports import Probe, ReadableHost


def observe(
    host: ReadableHost,
    target: Target,
    *,
    stoker_version: str,
    now_seconds: float,
    only: frozenset[str] | None = None,
) -> Facts:
    """What all probes, or ``only`` those with these ids, say about a host."""
    chosen = [probe for probe in find_probes() if only is None or probe.id in only]
    observations = {
        probe.id: _ask(probe, host, target, now_seconds=now_seconds) for probe in chosen
    }
    return Facts(host=host.name, stoker_version=stoker_version, observations=observations)


@cache
def find_probes() -> tuple[Probe, ...]:
    """Every probe of this package, by the names of their modules."""
    return tuple(_probes_in(sorted(module.name for module in iter_modules(probes.__path__))))


def _probes_in(names: Iterable[str]) -> Iterable[Probe]:
    for name in names:
        found = getattr(import_module(f"{probes.__name__}.{name}"), "PROBE", None)
        if isinstance(found, Probe):
            yield found


def _ask(probe: Probe, host: ReadableHost, target: Target, *, now_seconds: float) -> Observation:
    try:
        value, unknown = probe.parse(probe.read(host, target)), ""
    except HostError as error:
        value, unknown = None, error.summary
    except ValueError as error:
        value, unknown = None, f"what was read could not be understood: {error}"
    return Observation(
        probe=probe.id,
        value=value,
        unknown=unknown,
        source=probe.source,
        taken_at_seconds=now_seconds,
    )
