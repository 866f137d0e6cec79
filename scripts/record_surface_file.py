"""What `scripts/record_surface.py` has measured, and the surface that is made of it."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts.record_surface_engines import PROMPTS, ROOT, Grid, Knob

_SURFACES = ROOT / "tests" / "tuning" / "surfaces"
#: Repetitions further apart than this are doubted, after the correction.
_DOUBT = 0.05
#: Repetitions that differ by more than this say nothing of the core's speed.
_WILD = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One start: the objective in each burst after it, and how the core was meanwhile.

    ``shares``: what part of the core was ours. ``pulses``: what a small fixed piece of work cost,
    in microseconds; it rises where the core is slower, whoever the reason is.
    """

    configuration: dict[str, str]
    number: int
    status: str
    values: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    pulses: tuple[float, ...] = ()
    start_seconds: float = 0.0
    said: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """How much slower everything is on a slow core: rate falls with the pulse to this power.

    Learned from repetitions of the same configurations alone, so that no configuration's own
    figure plays a part. ``reference_us``: the pulse to which all rates are brought.
    """

    power: float
    reference_us: float

    def apply(self, rate: float, pulse_us: float) -> float:
        """The rate as it would have been on the undisturbed core."""
        return rate * math.pow(pulse_us / self.reference_us, self.power)


Points = dict[str, tuple[dict[str, str], list[tuple[float, float]]]]


def render_key(configuration: Mapping[str, str]) -> str:
    """A configuration as one word."""
    return ",".join(f"{knob}={choice}" for knob, choice in sorted(configuration.items()))


def read_lines(path: Path) -> list[Line]:
    """What a file has so far."""
    if not path.is_file():
        return []
    return [Line(**json.loads(text)) for text in path.read_text(encoding="utf-8").splitlines()]


def collect(lines: Sequence[Line]) -> Points:
    """Every configuration with its rates and pulses, in the order of the first measuring."""
    found: Points = {}
    for line in lines:
        pair = found.setdefault(render_key(line.configuration), (line.configuration, []))
        pair[1].extend(zip(line.values, line.pulses, strict=True))
    return found


def learn_correction(points: Points) -> Correction:
    """The power that explains most of how repetitions differ; the calmest tenth is the reference.

    It is taken twice: repetitions that differ by more than 15 % after the first are left out.
    """
    groups = [[(math.log(r), math.log(p)) for r, p in pairs] for _, pairs in points.values()]
    power = _fit(groups)
    calm = [g for g in groups if g and _range([r - power * p for r, p in g]) < _WILD]
    pulses = [pulse for _, pairs in points.values() for _, pulse in pairs]
    return Correction(power=-_fit(calm), reference_us=statistics.quantiles(pulses, n=10)[0])


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _fit(groups: Sequence[Sequence[tuple[float, float]]]) -> float:
    """The slope of log rate over log pulse within groups."""
    both = squares = 0.0
    for group in groups:
        if len(group) > 1:
            rate, pulse = (statistics.mean(each) for each in zip(*group, strict=True))
            both += sum((r - rate) * (p - pulse) for r, p in group)
            squares += sum((p - pulse) ** 2 for _, p in group)
    return both / squares if squares else 0.0


def measure_spread(groups: Sequence[Sequence[float]]) -> float:
    """The deviation of one repetition, as a part of its value, pooled over configurations."""
    parts = [statistics.variance([math.log(v) for v in group]) for group in groups]
    return math.sqrt(statistics.mean(parts)) if parts else 0.0


def list_doubtful(lines: Sequence[Line]) -> list[dict[str, str]]:
    """Configurations whose repetitions lie too far apart."""
    points = collect(lines)
    correction = learn_correction(points)
    found = []
    for chosen, pairs in points.values():
        values = [correction.apply(rate, pulse) for rate, pulse in pairs]
        if values and max(values) / min(values) > 1 + _DOUBT:
            found.append(chosen)
    return found


def write_surface(grid: Grid, lines: Sequence[Line]) -> str:
    """Write the surface that the lines make. Returns a sentence about it."""
    points = collect(lines)
    correction = learn_correction(points)
    said = {render_key(line.configuration): line.said for line in lines if line.said}
    rows = []
    for key, (chosen, pairs) in points.items():
        rows.append(_describe_point(chosen, pairs, correction, said.get(key, "")))
    repeated = [row for row in rows if len(row["values"]) > 1]
    raw = measure_spread([row["raw_values"] for row in repeated])
    spread = measure_spread([row["values"] for row in repeated])
    head = _describe_grid(grid) | {
        "correction": {
            "because": "The core was a virtual one whose real one others use. Beside each "
            "repetition a small fixed piece of work was timed; values are those of raw_values "
            "brought to one speed of the core.",
            "power": round(correction.power, 3),
            "reference_us": round(correction.reference_us, 1),
            "deviation_before": round(raw, 4),
            "deviation_after": round(spread, 4),
        }
    }
    path = _SURFACES / f"{grid.name}.json"
    path.write_text(_render(head, rows), encoding="utf-8")
    missing = sum(1 for _ in grid.list_configurations()) - len(rows)
    return (
        f"{path.name}: {len(rows)} points, {missing} missing; deviation {raw:.2%} before and "
        f"{spread:.2%} after the correction by the power {correction.power:.2f}"
    )


def _describe_point(
    chosen: Mapping[str, str],
    pairs: Sequence[tuple[float, float]],
    correction: Correction,
    said: str,
) -> dict[str, Any]:
    if not pairs:
        told = {"status": "failed", "causes": [], "said": said}
        return {"configuration": dict(chosen), "values": [], **told}
    return {
        "configuration": dict(chosen),
        "values": [round(correction.apply(rate, pulse), 2) for rate, pulse in pairs],
        "status": "measured",
        "raw_values": [round(rate, 2) for rate, _ in pairs],
        "pulses_us": [round(pulse) for _, pulse in pairs],
    }


def _describe_grid(grid: Grid) -> dict[str, Any]:
    return {
        "schema": "surface/1",
        "name": grid.name,
        "title": grid.title,
        "engine": grid.engine,
        "release": grid.release,
        "model": grid.model,
        "machine": "one virtual core of an AMD EPYC (Zen 4, AVX-512), the client on the same core",
        "workload": f"{len(PROMPTS)} completions at once, every second one repeating itself, "
        f"{grid.tokens} tokens each",
        "date": datetime.now(UTC).date().isoformat(),
        "metric": "output tokens/s",
        "knobs": [_describe_knob(knob) for knob in grid.knobs],
        "cuts": [],
    }


def _describe_knob(knob: Knob) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": knob.id,
        "choices": sorted(knob.flags, key=int) if knob.is_ordered else list(knob.flags),
        "default": knob.default,
        "is_ordered": knob.is_ordered,
        "spread": knob.spread,
    }
    if knob.only_with:
        found["only_with"] = {name: list(choices) for name, choices in knob.only_with.items()}
    if knob.priors:
        found["priors"] = dict(knob.priors)
    return found


def _render(head: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> str:
    """JSON with a line for each point, so that a difference can be read."""
    text = json.dumps(head, indent=1)
    rows = ",\n".join(f"  {json.dumps(point)}" for point in points)
    return f'{text[:-2]},\n "points": [\n{rows}\n ]\n}}\n'
