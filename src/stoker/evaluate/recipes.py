"""How well plans agree with the public collections of recipes.

``python -m stoker.evaluate.recipes [DIR]`` (or ``STOKER_RECIPES``) reads both collections where
they lie. For each way in which an entry is meant to run in text on one machine of its own it makes
a deployment and facts of that machine, resolves the launch as `stoker plan` does, and compares
every setting. Settings that a newer source overrides are told with that source; all else counts as
a difference. Ends with status 1 below the target. Writes nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stoker.commands.recipe_sync import find_collections, read_commit, read_files
from stoker.errors import StokerError
from stoker.evaluate.recipe_cases import Judged, Outcome, judge_alone, judge_choice, judge_recipe
from stoker.hosts.local import LocalHost
from stoker.model.recipe import Recipe, RecipeComplaint, RecipeStatus
from stoker.recipes.collection import Provenance
from stoker.recipes.contradictions import Contradiction, find_contradictions
from stoker.report.table import render_table

TARGET = 0.97
_MOST_LINES = 40
_MOST_CONTRADICTIONS = 25
_TELL_EVERY = 200


@dataclass(slots=True)
class Score:
    """What was found of one collection."""

    name: str
    entries: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    overridden: Counter[str] = field(default_factory=Counter)
    consents: Counter[str] = field(default_factory=Counter)
    alone: Counter[tuple[str, str]] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    added: Counter[str] = field(default_factory=Counter)
    choices: Counter[str] = field(default_factory=Counter)
    misses: list[Judged] = field(default_factory=list)
    complaints: list[RecipeComplaint] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Of all recipes those that agree or are overridden by something newer."""
        total = self.outcomes.total()
        good = self.outcomes[Outcome.AGREES] + self.outcomes[Outcome.OVERRIDDEN]
        return good / total if total else 0.0


def main(argv: Sequence[str]) -> int:
    """Score the collections in a folder; 0 at or above the target, 1 below, 2 without any."""
    path = argv[1] if len(argv) > 1 else os.environ.get("STOKER_RECIPES", "")
    if not path:
        sys.stderr.write("name a folder with collections of recipes, or set STOKER_RECIPES\n")
        return 2
    host, began = LocalHost(), time.monotonic()
    scores: list[Score] = []
    recipes: list[Recipe] = []
    try:
        for found in find_collections(host, os.path.abspath(path)):
            commit = read_commit(host, found.root) or "unknown"
            provenance = Provenance(repository=found.root, commit=commit)
            files = list(read_files(host, found, provenance))
            score = Score(name=found.format.name, entries=len(files))
            for file in files:
                score.complaints += file.complaints
                recipes += file.recipes
                _score_file(score, file.recipes)
            scores.append(score)
    except StokerError as error:
        sys.stderr.write(f"error: {error.summary}\n")
        return 2
    if not scores:
        sys.stderr.write(f"there is no collection of recipes in {path}\n")
        return 2
    sys.stdout.write(render(scores, find_contradictions(recipes)))
    sys.stdout.write(f"\n{time.monotonic() - began:.0f} s\n")
    return 0 if scores and all(score.share >= TARGET for score in scores) else 1


def _score_file(score: Score, recipes: Sequence[Recipe]) -> None:
    for recipe in choose_own(recipes, score.skipped):
        judged = judge_recipe(recipe)
        score.outcomes[judged.outcome] += 1
        score.overridden.update(judged.overridden)
        score.consents.update(judged.consents)
        score.added.update(judged.added)
        for what, word, values in judge_alone(recipe):
            score.alone[what, word] += 1
            if values:
                score.others[f"{what}: {values}"] += 1
        if recipe.hardware.gpu:
            score.choices[judge_choice(recipe, recipes)] += 1
        if judged.outcome is Outcome.DIFFERS:
            score.misses.append(judged)
        if score.outcomes.total() % _TELL_EVERY == 0:
            sys.stderr.write(f"{score.name}: {score.outcomes.total()} recipes\n")


def choose_own(recipes: Sequence[Recipe], skipped: Counter[str]) -> Iterator[Recipe]:
    """The recipes of a file for its own hardware: what it lists, else the first that it offers.

    Left out, and counted: what answers in something else than text, what takes several machines,
    what is said not to work, and what the collection only assumes.
    """
    stated = (RecipeStatus.VERIFIED, RecipeStatus.STATED)
    has_own = any(recipe.hardware.status in stated for recipe in recipes)
    first = next((recipe.hardware.word for recipe in recipes), "")
    for recipe in recipes:
        hardware = recipe.hardware
        is_own = hardware.status in stated or (not has_own and hardware.word == first)
        if recipe.task != "text":
            skipped[f"answers in {recipe.task}"] += 1
        elif hardware.status is RecipeStatus.UNSUPPORTED:
            skipped["said not to work there"] += 1
        elif not is_own:
            skipped["not its own hardware"] += 1
        elif hardware.host_count > 1:
            skipped["several machines"] += 1
        else:
            yield recipe


def render(scores: Sequence[Score], contradictions: Sequence[Contradiction]) -> str:
    """The whole report as text."""
    head = ("COLLECTION", "FILES", "RECIPES", "AGREE", "OVERRIDDEN", "DIFFER", "SHARE")
    rows = [
        (
            score.name,
            str(score.entries),
            str(score.outcomes.total()),
            str(score.outcomes[Outcome.AGREES]),
            str(score.outcomes[Outcome.OVERRIDDEN]),
            str(score.outcomes[Outcome.DIFFERS]),
            f"{100 * score.share:.1f} %",
        )
        for score in scores
    ]
    parts = [render_table(head, rows), f"the target is {100 * TARGET:.0f} % of each\n"]
    for score in scores:
        parts += ["\n", *_render_score(score)]
    parts += ["\n", *_render_contradictions(contradictions)]
    return "".join(parts)


def _render_score(score: Score) -> Iterator[str]:
    yield f"{score.name}\n"
    yield from _render_counts("left out", score.skipped)
    yield from _render_counts("overridden by a newer source", score.overridden)
    yield from _render_counts("set only because the owner consents", score.consents)
    yield from _render_counts("what `recipe: auto` takes on that machine", score.choices)
    yield "  what our rules say alone, without the recipe (same, other, silent):\n"
    for what in dict.fromkeys(what for what, _ in score.alone):
        same, other, silent = (score.alone[what, word] for word in ("same", "other", "silent"))
        spoken = same + other
        share = f", {100 * same / spoken:.0f} % of what they say" if spoken else ""
        yield f"    {what}: {same}, {other}, {silent}{share}\n"
    yield from _render_counts("of these the other answers", score.others)
    yield from _render_counts("set by rules where the recipe says nothing", score.added)
    reasons = Counter(reason for each in score.misses for reason in each.differences)
    yield from _render_counts("differences", reasons)
    for each in score.misses[:_MOST_LINES]:
        yield f"    {each.recipe.id} ({each.release}): {'; '.join(each.differences)[:400]}\n"
    if len(score.misses) > _MOST_LINES:
        yield f"    and {len(score.misses) - _MOST_LINES} more\n"
    told = Counter(each.sentence for each in score.complaints)
    yield from _render_counts("places of files that were not understood", told)


def _render_counts(title: str, counts: Counter[str]) -> Iterator[str]:
    if counts:
        yield f"  {title}:\n"
    for reason, count in counts.most_common(_MOST_LINES):
        yield f"    {count:5} {reason[:200]}\n"


def _render_contradictions(found: Sequence[Contradiction]) -> Iterator[str]:
    yield f"{len(found)} pairs of recipes contradict each other\n"
    for each in found[:_MOST_CONTRADICTIONS]:
        yield f"  {each.one.id} and {each.other.id}: {'; '.join(each.differences)[:300]}\n"
    if len(found) > _MOST_CONTRADICTIONS:
        yield f"  and {len(found) - _MOST_CONTRADICTIONS} more\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv))
