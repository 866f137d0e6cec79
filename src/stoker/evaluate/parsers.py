"""How often our parsers are those that the public recipes name, model by model.

Run by hand: ``STOKER_RECIPES=DIR python -m stoker.evaluate.parsers``. A recipe's parsers are never
read to choose ours: only the model's name is. Prints a table and all that does not agree, with the
reason; it must never change what is measured.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stoker.commands.recipe_sync import FORMATS
from stoker.errors import StokerError, UsageError
from stoker.knowledge.derived.parsers import Release, canonical_name, read_parsers
from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.lifetimes import load_lifetimes
from stoker.knowledge.parsers import USES, load_parsers
from stoker.model.facts import Plain
from stoker.model.recipe import Recipe
from stoker.recipes.collection import Format, Provenance

_VARIABLE = "STOKER_RECIPES"
#: Verdicts that count as agreement, in the order in which they are told.
_AGREES = ("same", "other name", "neither", "ours more", "release lacks it")
_DIFFERS = ("ours differs", "ours none: does not think", "ours none", "family not known")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One model in one collection, and the parsers that its recipe names, by use."""

    engine: str
    model: str
    release: str
    named: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One use of one case: what the recipe names, what we would choose, and how they compare."""

    case: Case
    use: str
    ours: str | None
    verdict: str
    because: str
    is_known: bool

    @property
    def agrees(self) -> bool:
        """Whether there is nothing to explain."""
        return self.verdict in _AGREES


def main() -> int:
    """Print the report; 2 where no recipes are given."""
    try:
        cases = read_cases(Path(os.environ.get(_VARIABLE) or ""))
    except StokerError as error:
        sys.stderr.write(f"{error.summary}\n{error.hint}\n")
        return 2
    newest = [replace(each, release=load_lifetimes(each.engine).releases[-1]) for each in cases]
    for title, at in (("At the release that the recipe names", cases), ("At the newest", newest)):
        sys.stdout.write(f"{title}\n\n{render(judge_all(at))}\n\n")
    return 0


def read_cases(folder: Path) -> list[Case]:
    """Every text model of both collections, once for each engine. Raises UsageError."""
    cases = {
        (case.engine, case.model): case
        for form in FORMATS
        for case in _read_collection(folder / form.engine, form)
    }
    if not cases:
        raise UsageError(
            f"there are no recipes in {folder}",
            f"set {_VARIABLE} to a folder with the collections "
            + " and ".join(sorted(form.engine for form in FORMATS)),
        )
    return list(cases.values())


def judge_all(cases: Sequence[Case]) -> list[Judged]:
    """Each case and use, in order."""
    return [judged for case in cases for judged in judge(case)]


def judge(case: Case) -> Iterator[Judged]:
    """What we would choose by the model's name alone, against what the recipe names."""
    catalogue = load_catalogue(case.engine, case.release)
    said = read_parsers(case.engine, catalogue, checkpoint={"names": [case.model]}, settings={})
    for use in USES:
        yield Judged(
            case=case,
            use=use,
            ours=said[use],
            verdict=_compare(case, use, said),
            because=str(said["because"] or "no family has this name"),
            is_known=said["family"] is not None,
        )


def render(judged: Sequence[Judged]) -> str:
    """The report: counts by engine and use, then each difference."""
    lines = ["verdict                      " + "".join(f"{name:>20}" for name in _columns(judged))]
    for verdict in (*_AGREES, *_DIFFERS):
        counts = Counter(_column(each) for each in judged if each.verdict == verdict)
        lines.append(f"{verdict:<29}" + "".join(f"{counts[name]:>20}" for name in _columns(judged)))
    agree = sum(each.agrees for each in judged)
    strangers = dict.fromkeys(each.case.model for each in judged if not each.is_known)
    models = len({(each.case.engine, each.case.model) for each in judged})
    known = models - len({_key(each) for each in judged if not each.is_known})
    lines += [
        "",
        f"models recognised by name: {known} of {models} ({known / models:.1%})",
        f"not recognised: {', '.join(strangers) or 'none'}",
        f"agreement: {agree} of {len(judged)} ({agree / len(judged):.1%})",
        "",
        *(_explain(each) for each in judged if not each.agrees),
    ]
    return "\n".join(lines)


def _key(judged: Judged) -> tuple[str, str]:
    return judged.case.engine, judged.case.model


def _read_collection(root: Path, form: Format) -> Iterator[Case]:
    paths = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    shared_paths, entries = form.choose(paths)
    shared = {path: (root / path).read_text(encoding="utf-8") for path in shared_paths}
    made = Provenance(repository=form.name, commit="unknown")
    for entry in entries:
        text = (root / entry).read_text(encoding="utf-8")
        for recipe in form.read(entry, text, shared, made).recipes:
            if recipe.task == "text":
                yield _make_case(recipe)


def _make_case(recipe: Recipe) -> Case:
    lifetimes = load_lifetimes(recipe.engine)
    least = recipe.versions.removeprefix(">=").partition(",")[0]
    flags = load_parsers().engine[recipe.engine]
    features = [each for feature in recipe.features for each in feature.settings]
    values = {each.name.lstrip("-"): each.value for each in (*features, *recipe.settings)}
    return Case(
        engine=recipe.engine,
        model=recipe.model,
        release=lifetimes.release_of(least) or _oldest_or_newest(lifetimes.releases, least),
        named={
            "tool_call": values.get(flags.tool_call),
            "reasoning": values.get(flags.reasoning),
        },
    )


def _oldest_or_newest(releases: Sequence[str], least: str) -> str:
    """A recipe may ask for a release older than all that are described, or for none."""
    return releases[0] if least[:1].isdigit() else releases[-1]


def _compare(case: Case, use: str, said: Mapping[str, Plain]) -> str:
    release = Release(engine=case.engine, catalogue=load_catalogue(case.engine, case.release))
    rows, theirs, ours = release.rows(use), case.named[use], said[use]
    if theirs is None:
        return "neither" if ours is None else "ours more"
    if ours is not None and canonical_name(ours, rows) == canonical_name(theirs, rows):
        return "same" if ours == theirs else "other name"
    if said["family"] is None:
        return "family not known"
    if not release.knows(theirs, use):
        return "release lacks it"
    if ours is not None:
        return "ours differs"
    return "ours none: does not think" if said["thinks"] is False else "ours none"


def _columns(judged: Sequence[Judged]) -> list[str]:
    return list(dict.fromkeys(_column(each) for each in judged))


def _column(judged: Judged) -> str:
    return f"{judged.case.engine} {judged.use}"


def _explain(judged: Judged) -> str:
    case = judged.case
    return (
        f"{case.engine} {case.release} {case.model}: {judged.use}: the recipe names "
        f"{case.named[judged.use] or 'none'}, ours is {judged.ours or 'none'} "
        f"({judged.verdict}; {judged.because})"
    )


if __name__ == "__main__":
    sys.exit(main())
