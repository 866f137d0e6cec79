"""Facts as a person reads them: one block a probe, unknowns with their reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.model.facts import Facts, Plain
from stoker.model.units import format_bytes


def render_facts(facts: Facts) -> str:
    """All observations in the order of their probes' names."""
    lines = [f"Host {facts.host}, Stoker {facts.stoker_version}"]
    for probe, observation in sorted(facts.observations.items()):
        lines.append(f"{probe}  ({observation.source})")
        if observation.unknown:
            lines.append(f"  unknown: {observation.unknown}")
        else:
            lines += [f"  {line}" for line in _lines(observation.value)] or ["  none"]
    return "\n".join(lines) + "\n"


def _lines(value: Plain) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _field(str(key), item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield "- " + ", ".join(_inline(item))
    else:
        yield str(value)


def _field(key: str, value: Plain) -> Iterator[str]:
    if isinstance(value, (Mapping, list, tuple)) and value:
        yield f"{key}:"
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{key}: {_scalar(key, value)}"


def _inline(value: Plain) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (f"{key} {_scalar(str(key), item)}" for key, item in value.items())
    else:
        yield str(value)


def _scalar(key: str, value: Plain) -> str:
    if key.endswith("_bytes") and isinstance(value, int):
        return format_bytes(value)
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)) and value:
        return (".".join if key == "version" else ", ".join)(str(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if value not in ([], {}) else "none"
