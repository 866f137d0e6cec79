"""How few restarts the search of ``stoker tune`` needs: ``python -m stoker.evaluate tuning [DIR]``.

Replays every surface of a folder (recorded grids of real engines, and synthetic ones) with many
seeds, by our search with and without what knowledge expects, and by random search, one factor at a
time and Optuna's TPE on equal terms. Prints the restarts until 97 % of the grid's best is what the
method believes best, the regret after 5, 10 and 20 restarts, and how often an improvement is
claimed where there is none. Recorded surfaces come first, and one for which no time is left is told
as not run; ``FULL=1`` takes more seeds and any time. ``--json`` prints one object. Called by hand;
reads files and nothing else. Where Optuna is missing its rows say so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import exp, inf, log
from pathlib import Path
from statistics import fmean, median

from stoker.errors import UsageError
from stoker.evaluate.tuning_methods import (
    ONE_BY_ONE,
    OURS,
    OURS_BLIND,
    RANDOM,
    TPE,
    Course,
    has_optuna,
    run_asked,
)
from stoker.evaluate.tuning_surfaces import Surface, read_surfaces
from stoker.model.facts import Plain
from stoker.model.tuning import Configuration
from stoker.report.table import render_table
from stoker.tuning.grid import to_point

#: What is to be reached, as a share of the grid's best.
GOAL = 0.97
BUDGETS = (5, 10, 20)
_RIVALS = (RANDOM, ONE_BY_ONE, TPE)
_FOLDER = Path("tests/tuning/surfaces")
_SEEDS, _FULL_SEEDS = 50, 200
#: A report ends within ten minutes, installing included: none is begun that may not end in time.
_BUDGET_SECONDS = 440.0
#: Aims: of the grid's restarts, of the best rival's, and false improvements.
_SHARE_AIM, _RIVAL_AIM, _FALSE_AIM = 0.10, 0.5, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One method on one surface. ``reached``: the restarts of each seed, None where never.
    ``regrets``: mean loss against the best, in percent, by budget. ``claimed``: campaigns that
    claimed an improvement; ``false``: of them those whose configuration is not better."""

    method: str
    reached: tuple[int | None, ...]
    regrets: tuple[float, ...]
    claimed: int = 0
    false: int = 0

    @property
    def median(self) -> float | None:
        """The median of the restarts, a seed that never reached counting as endless."""
        return self.percentile(0.5)

    def percentile(self, share: float) -> float | None:
        """So many seeds reached within so many restarts; None for never."""
        ordered = sorted(each for each in self.reached if each is not None)
        place = max(-(-len(self.reached) * share // 1) - 1, 0)
        return float(ordered[int(place)]) if place < len(ordered) else None

    @property
    def reached_share(self) -> float:
        """The share of seeds that ever reached the goal."""
        return fmean(each is not None for each in self.reached)


def score(surface: Surface, method: str, courses: Sequence[Course]) -> Score:
    """What the courses of all seeds amount to."""
    goal, base = surface.best + log(GOAL), surface.spots[surface.grid.baseline].value
    claims = [each.finish for each in courses if each.finish and each.finish.is_improved]
    return Score(
        method=method,
        reached=tuple(course.reach(goal) for course in courses),
        regrets=tuple(
            fmean(100 * (1 - exp(course.after(budget) - surface.best)) for course in courses)
            for budget in BUDGETS
        ),
        claimed=len(claims),
        false=sum(_truth(surface, each.configuration) <= base + 1e-9 for each in claims),
    )


def _truth(surface: Surface, configuration: Configuration) -> float:
    point = to_point(surface.grid, configuration)
    return -inf if point is None else surface.spots[point].value


def measure(
    surfaces: Iterable[Surface], methods: Sequence[str], seeds: int, at_once: int
) -> Iterator[tuple[Surface, list[Score]]]:
    """All methods on each surface, over processes."""
    with ProcessPoolExecutor(at_once) as pool:
        for surface in surfaces:
            scores, goal = [], surface.best + log(GOAL)
            for method in methods:
                _say(f"{surface.name}: {method}")
                runs = pool.map(run_asked, [(method, surface, seed, goal) for seed in range(seeds)])
                scores.append(score(surface, method, list(runs)))
            yield surface, scores


def _while_there_is_time(surfaces: Sequence[Surface], ends_at: float) -> Iterator[Surface]:
    """The surfaces as long as one more is likely to end in time. The first one always is."""
    longest, began = 0.0, time.monotonic()
    for surface in surfaces:
        now = time.monotonic()
        longest, began = max(longest, now - began), now
        if now + longest > ends_at:
            return
        yield surface


def describe(surface: Surface, scores: Sequence[Score]) -> dict[str, Plain]:
    """One surface as plain data. A surface on which the baseline is the goal already tells nothing
    of restarts, only of false improvements."""
    told: dict[str, Plain] = {
        "title": surface.title,
        "recorded": surface.is_recorded,
        "configurations": len(surface.spots),
        "restarts": surface.restarts,
        "best_to_baseline": exp(surface.best - surface.spots[surface.grid.baseline].value),
        "noise": surface.spread,
        "is_flat": surface.is_flat,
        "methods": {each.method: _describe_score(each) for each in scores},
    }
    if surface.incomplete:
        told["incomplete"] = surface.incomplete
    elif not _is_reached_already(surface):
        told["aims"] = _compare(surface, scores)
    return told


def _describe_score(each: Score) -> dict[str, Plain]:
    return {
        "seeds": len(each.reached),
        "median_restarts": each.median,
        "p90_restarts": each.percentile(0.9),
        "reached": each.reached_share,
        "regret_percent": dict(zip(map(str, BUDGETS), each.regrets, strict=True)),
        "claimed": each.claimed,
        "false": each.false,
    }


def _is_reached_already(surface: Surface) -> bool:
    return surface.spots[surface.grid.baseline].value >= surface.best + log(GOAL)


def _compare(surface: Surface, scores: Sequence[Score]) -> dict[str, Plain]:
    """Our restarts against the grid's and the best rival's."""
    rivals = [each.median for each in scores if each.method in _RIVALS and each.median is not None]
    best = min(rivals, default=None)
    found: dict[str, Plain] = {}
    for each in scores:
        if each.method not in _RIVALS and each.median is not None:
            found[each.method] = {
                "share_of_grid": each.median / surface.restarts,
                "share_of_best_rival": None if best is None else each.median / best,
            }
    return found


def render(surface: Surface, scores: Sequence[Score]) -> str:
    """One surface as a table."""
    kind = "recorded" if surface.is_recorded else "synthetic"
    gain = 100 * (exp(surface.best - surface.spots[surface.grid.baseline].value) - 1)
    head = (
        f"{surface.name} ({kind}): {surface.title}\n"
        f"{len(surface.spots)} configurations, {surface.restarts} restarts, the best "
        f"{gain:+.1f} % above the baseline, noise {100 * surface.spread:.1f} %"
    )
    if surface.incomplete:
        head += f"\nincomplete, so it counts for no aim: {surface.incomplete}"
    columns = ("METHOD", "RESTARTS", "90TH", "OF GRID", "REACHED", "REGRET 5/10/20", "CLAIMED")
    rows = [_render_score(surface, each) for each in scores]
    return f"{head}\n{render_table(columns, rows)}"


def _render_score(surface: Surface, each: Score) -> tuple[str, ...]:
    regrets = " / ".join(f"{value:.1f} %" for value in each.regrets)
    is_ours = each.method not in _RIVALS
    claims = f"{each.claimed} of {len(each.reached)}, {each.false} false" if is_ours else "-"
    share = "-" if each.median is None else f"{each.median / surface.restarts:.1%}"
    return (
        each.method,
        _number(each.median),
        _number(each.percentile(0.9)),
        share,
        f"{each.reached_share:.0%}",
        regrets,
        claims,
    )


def _number(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f}"


def sum_up(told: dict[str, Plain]) -> dict[str, Plain]:
    """The aims over all surfaces, for our search with and without priors."""
    found: dict[str, Plain] = {}
    for method in (OURS, OURS_BLIND):
        aims = [each["aims"].get(method) for each in told.values() if "aims" in each]
        known = [each for each in aims if each]
        flat = [each["methods"][method] for each in told.values() if each["is_flat"]]
        campaigns = sum(each["seeds"] for each in flat)
        beside = [e["share_of_best_rival"] for e in known if e["share_of_best_rival"] is not None]
        found[method] = {
            "surfaces": len(aims),
            "within_share_of_grid": sum(e["share_of_grid"] <= _SHARE_AIM for e in known),
            "within_half_of_best_rival": sum(each <= _RIVAL_AIM for each in beside),
            "median_share_of_best_rival": median(beside) if beside else None,
            "false_on_flat": sum(e["false"] for e in flat) / campaigns if campaigns else None,
        }
    return found


def _render_sum(summary: dict[str, Plain], reason: str) -> str:
    lines = []
    for method, found in summary.items():
        false, beside = found["false_on_flat"], found["median_share_of_best_rival"]
        lines.append(
            f"{method}: within {_SHARE_AIM:.0%} of the grid's restarts on "
            f"{found['within_share_of_grid']} of {found['surfaces']} surfaces, within half of the "
            f"best rival's on {found['within_half_of_best_rival']} "
            f"(median {'-' if beside is None else f'{beside:.0%}'}); false improvements on flat "
            f"surfaces {'-' if false is None else f'{false:.1%}'} (aim {_FALSE_AIM:.0%})"
        )
    return "\n".join([*lines, *([reason] if reason else [])])


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m stoker.evaluate tuning")
    parser.add_argument("folder", nargs="?", type=Path, default=_FOLDER, help="surfaces, as JSON")
    parser.add_argument("--json", action="store_true", help="print one object")
    seeds = _FULL_SEEDS if os.environ.get("FULL") else _SEEDS
    parser.add_argument("--seeds", type=int, default=seeds, help="campaigns of each method")
    parser.add_argument("--surface", action="append", default=[], help="this alone; repeatable")
    parser.add_argument("--at-once", type=int, default=2, help="processes")
    budget = inf if os.environ.get("FULL") else _BUDGET_SECONDS
    parser.add_argument("--budget-seconds", type=float, default=budget, help="begin none later")
    return parser.parse_args(arguments)


def _choose(folder: Path, names: Sequence[str]) -> list[Surface]:
    found = read_surfaces(folder) if folder.is_dir() else []
    chosen = [each for each in found if not names or each.name in names]
    if not chosen:
        raise UsageError(f"there is no such surface in {folder}", "name a folder of surfaces")
    return sorted(chosen, key=lambda each: (not each.is_recorded, not each.is_flat, each.name))


def main(arguments: Sequence[str]) -> None:
    """Print the report of the folder that the command line names."""
    asked = _parse(arguments)
    try:
        surfaces = _choose(asked.folder, asked.surface)
    except UsageError as error:
        sys.exit(str(error))
    is_there = has_optuna()
    reason = "" if is_there else f"{TPE}: not run (optuna is not installed)"
    methods = [OURS, OURS_BLIND, *(each for each in _RIVALS if is_there or each != TPE)]
    began, told = time.monotonic(), {}
    for surface, scores in measure(
        _while_there_is_time(surfaces, began + asked.budget_seconds),
        methods,
        asked.seeds,
        asked.at_once,
    ):
        told[surface.name] = describe(surface, scores)
        if not asked.json:
            _write(render(surface, scores))
    left = [surface.name for surface in surfaces if surface.name not in told]
    if left:
        late = f"{', '.join(left)}: not run (no time was left; FULL=1 runs all)"
        reason = f"{reason}; {late}" if reason else late
    summary, seconds = sum_up(told), round(time.monotonic() - began, 1)
    if asked.json:
        whole = {"surfaces": told, "summary": summary, "not_run": reason, "seconds": seconds}
        _write(json.dumps(whole, indent=1))
    else:
        _write(f"{_render_sum(summary, reason)}\n{seconds} s in all")


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _say(text: str) -> None:
    """Tell a person at a terminal what is measured now."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")


if __name__ == "__main__":
    main(sys.argv[1:])
