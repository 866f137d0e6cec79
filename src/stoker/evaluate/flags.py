"""Whether a release's own parser takes what Stoker writes: every flag, every value that is listed.

Run by hand (`python -m stoker.evaluate.flags`). It looks for releases in two folders: virtual
environments named KIND-BUILD, and unpacked sources named so. The parser of bare sources runs in
the environment of another release of the same engine; packages that it lacks are made up, which a
parser of flags hardly notices. Nothing is served, and nothing of the machine is changed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from stoker.engines.settings import make_flags, render_setting
from stoker.errors import HostError
from stoker.hosts.local import LocalHost
from stoker.knowledge.derived.values import fits
from stoker.knowledge.engines import load_catalogue
from stoker.knowledge.releases import known_builds, load_table_for
from stoker.knowledge.stacks import load_reader, load_stacks
from stoker.model.deployment_fields import Scalar
from stoker.model.engine_table import FlagCatalogue, Option
from stoker.model.facts import Plain
from stoker.model.launch import Origin
from stoker.planning.command_line import is_negative
from stoker.ports import Command

_TIMEOUT_SECONDS = 900.0
_ENVIRONMENTS = Path(".cache/engines")
_SOURCES = Path(".cache/sources")
_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
#: A value for each word for a type in a catalogue; for any other word one of all of them must do.
_VALUES: Mapping[str, str] = {
    "int": "1",
    "float": "0.5",
    "json": "{}",
    "human_readable_int": "16k",
    "human_readable_int_or_auto": "auto",
}
_ANYTHING = ("x", "1", "{}", "[]", "a=b", "auto", "decode=disabled", '{"name": "a", "path": "b"}')
#: Stands for the path of a file with settings.
_FILE = "@settings@"
#: Values that somebody may write and that are wrong for many flags.
_TRIED = ("x-y", "5", "-1", "1.5", "auto", "all", "true", "none", "a=b", "8k", "1e3", "1_0", "[1")
#: Where an engine registers models that the newer library of the lent environment has itself.
_TAKEN_NAMES = "transformers.models.auto.configuration_auto:_LazyConfigMapping.register"
_NO_FLAG = "--there-is-no-such-flag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A release that can be asked: whose Python runs it, and from where it is imported."""

    kind: str
    build: str
    python: str
    sources: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Some words for a parser. ``about`` is the option; ``wanted``: taken, refused, or any.

    Of the trials of one option that are wanted as ``any`` one must be taken.
    """

    about: str
    words: tuple[str, ...]
    wanted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How one release judged what Stoker writes; the lists say what went wrong."""

    kind: str
    build: str
    how: str
    options: int = 0
    names: int = 0
    values: int = 0
    refusals: int = 0
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    error: str = ""

    @property
    def is_right(self) -> bool:
        """Whether the parser judged everything as Stoker does."""
        faults = (self.missing, self.unknown, self.refused, self.taken)
        return not self.error and not any(faults)

    def as_document(self) -> dict[str, Plain]:
        """The whole score as JSON has it."""
        return {**asdict(self), "is_right": self.is_right}


def find_places(environments: Path, sources: Path) -> list[Place]:
    """The releases that can be asked here, the environments first, in the order of releases."""
    pythons = {
        (kind, build): environments / f"{kind}-{build}" / "bin" / "python3"
        for kind in _kinds()
        for build in known_builds(kind)
    }
    there = {key: path.absolute() for key, path in pythons.items() if path.exists()}
    places = [
        Place(kind=kind, build=build, python=str(there[kind, build])) for kind, build in there
    ]
    for kind, build in pythons:
        folder = sources / f"{kind}-{build}"
        lent = [path for (other, _), path in there.items() if other == kind]
        if (folder / _root(kind)).is_dir() and (kind, build) not in there and lent:
            python, imported = str(lent[-1]), str(folder.absolute())
            places.append(Place(kind=kind, build=build, python=python, sources=imported))
    return places


def evaluate_place(place: Place) -> Score:
    """Ask one release's parser everything."""
    catalogue = load_catalogue(place.kind, place.build)
    trials = list(make_trials(catalogue))
    how = "sources, missing packages made up" if place.sources else "installed"
    empty = Score(kind=place.kind, build=place.build, how=how)
    words = [trial.words for trial in trials]
    try:
        answer = _ask(place, words)
    except (HostError, ValueError) as error:
        return replace(empty, error=str(error))
    return judge(catalogue, trials, answer, how=how)


def make_trials(catalogue: FlagCatalogue) -> Iterator[Trial]:
    """Every name of every option with a value that is right, and with some that are wrong."""
    base = _base(catalogue)
    yield Trial(about=_NO_FLAG, words=(*base, _NO_FLAG), wanted="refused")
    for option in catalogue.options:
        values = list(_right_values(option))
        wanted = "taken" if len(values) == 1 else "any"
        for name in option.names:
            for value in values:
                words = _render(catalogue, name, value)
                yield Trial(about=name, words=(*base, *words), wanted=wanted)
        name = option.names[0]
        for choice in option.choices if option.kind == "choice" else ():
            words = _render(catalogue, name, choice)
            yield Trial(about=f"{name} {choice}", words=(*base, *words), wanted="taken")
        for value in _TRIED if option.argument is not None else ():
            if not fits(value, option):
                words = _render(catalogue, name, value)
                yield Trial(about=f"{name} {value}", words=(*base, *words), wanted="refused")


def judge(
    catalogue: FlagCatalogue, trials: Sequence[Trial], answer: Mapping[str, Plain], *, how: str
) -> Score:
    """What the parser's answers say about the catalogue and about what Stoker writes."""
    said = dict(zip(trials, answer["results"], strict=True))
    told = {name for row in answer["options"] for name in row["names"]}
    known = {name for option in catalogue.options for name in option.names}
    some = {trial.about for trial, words in said.items() if trial.wanted == "any" and not words}
    refused = [
        f"{trial.about}: {words}"
        for trial, words in said.items()
        if (trial.wanted == "taken" and words)
        or (trial.wanted == "any" and words and trial.about not in some)
    ]
    taken = [
        trial.about for trial, words in said.items() if trial.wanted == "refused" and not words
    ]
    return Score(
        kind=catalogue.engine,
        build=catalogue.build,
        how=how,
        options=len(catalogue.options),
        names=len({trial.about for trial in trials if " " not in trial.about} - {_NO_FLAG}),
        values=sum(trial.wanted == "taken" and " " in trial.about for trial in trials),
        refusals=sum(trial.wanted == "refused" for trial in trials),
        missing=tuple(sorted(told - known)),
        unknown=tuple(sorted(known - told)),
        refused=tuple(dict.fromkeys(refused)),
        taken=tuple(dict.fromkeys(taken)),
    )


def render_scores(scores: Sequence[Score]) -> str:
    """A Markdown table, and below it everything that is not as it should be."""
    lines = [
        "| engine | parser | options | names taken | listed values taken | wrong values refused |",
        "|---|---|---|---|---|---|",
    ]
    for score in scores:
        lost = [each for each in score.refused if " " not in each.partition(":")[0]]
        bad = [each for each in score.refused if each not in lost]
        cells = (
            f"{score.kind} {score.build}",
            score.how if not score.error else "could not be asked",
            str(score.options),
            f"{score.names - len(lost)} of {score.names}",
            f"{score.values - len(bad)} of {score.values}",
            f"{score.refusals - len(score.taken)} of {score.refusals}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    for score in scores:
        lines += [f"\n{score.kind} {score.build}:", *_faults(score)] if not score.is_right else []
    return "\n".join(lines) + "\n"


def _faults(score: Score) -> Iterator[str]:
    if score.error:
        yield f"- could not be asked: {score.error}"
    for title, names in (
        ("the parser has, and the catalogue has not", score.missing),
        ("the catalogue has, and the parser has not", score.unknown),
        ("the parser takes, and Stoker calls wrong", score.taken),
    ):
        if names:
            yield f"- {title}: {', '.join(names)}"
    for words in score.refused:
        yield f"- the parser refuses {words}"


def _right_values(option: Option) -> Iterator[Scalar]:
    """Values for one use of an option, of which one must do; one alone where it surely is right."""
    if option.argument is None:
        yield True
    elif option.choices:
        yield option.choices[0]
    elif "choices" in option.unknown:
        return
    elif option.type in _VALUES:
        yield _VALUES[option.type]
    else:
        yield from (*_ANYTHING, _FILE)


def _render(catalogue: FlagCatalogue, name: str, value: Scalar) -> list[str]:
    """The words that Stoker writes for a name in a deployment file."""
    option = catalogue.find(name)
    written = name.lstrip("-")
    if option is not None and is_negative(option, name):
        value = True
    made = make_flags(written, [value], catalogue, origin=Origin.USER, reason="tried")
    words = [word for setting in made for word in render_setting(setting)]
    return [name, *words[1:]] if words and words[0] != name else words


def _base(catalogue: FlagCatalogue) -> tuple[str, ...]:
    """What the parser cannot do without: the model, where a flag names it."""
    row = load_table_for(catalogue.engine, catalogue.build).settings["model_path"]
    return (row.flag, "/m") if row.kind == "flag" else ()


def _ask(place: Place, trials: Sequence[Sequence[str]]) -> Mapping[str, Plain]:
    """The answer of the reader in the environment of the release. HostError or ValueError."""
    engine = load_stacks().engine[place.kind]
    row = engine.parser
    if row is None:
        raise ValueError(f"{place.kind} has no parser in Python")
    with tempfile.TemporaryDirectory(prefix="stoker-flags-") as folder:
        path = Path(folder) / "trials.json"
        settings = Path(folder) / "settings.yaml"
        settings.write_text("port: 1\n", encoding="utf-8")
        real = [[str(settings) if word == _FILE else word for word in words] for words in trials]
        path.write_text(json.dumps(real), encoding="utf-8")
        asked = {
            "root": row.root,
            "make": row.make,
            "fill": row.fill,
            "path": [_link(Path(folder), row.root, place.sources)] if place.sources else [],
            "stub": bool(place.sources),
            "calm": [_TAKEN_NAMES] if place.sources else [],
            "trials": str(path),
        }
        argv = (place.python, "-c", load_reader(), json.dumps(asked))
        env = {**_ENV, **engine.cpu_env, "HOME": folder}
        ran = LocalHost().run(Command(argv=argv, timeout_seconds=_TIMEOUT_SECONDS, env=env))
    if ran.timed_out:
        raise ValueError(f"no answer within {_TIMEOUT_SECONDS:.0f} seconds")
    try:
        answer: Mapping[str, Plain] = json.loads(ran.stdout)
    except ValueError as error:
        last = ran.stderr.strip().rpartition("\n")[2]
        raise ValueError(last or "it ended without an answer") from error
    return answer


def _link(folder: Path, root: str, sources: str) -> str:
    """A folder with the engine's package alone: its own metadata stay those of the environment."""
    imported = folder / "imported"
    imported.mkdir()
    (imported / root).symlink_to(Path(sources) / root)
    return str(imported)


def _kinds() -> list[str]:
    return [kind for kind, row in load_stacks().engine.items() if row.parser is not None]


def _root(kind: str) -> str:
    row = load_stacks().engine[kind].parser
    return row.root if row is not None else ""


def main(words: Sequence[str]) -> int:
    """Print the table; 1 where a parser judges anything otherwise than Stoker."""
    parser = argparse.ArgumentParser(prog="python -m stoker.evaluate.flags", description=__doc__)
    parser.add_argument("releases", nargs="*", help="KIND-BUILD; all that are there if left out")
    parser.add_argument("--environments", type=Path, default=_ENVIRONMENTS)
    parser.add_argument("--sources", type=Path, default=_SOURCES)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args(words)
    places = find_places(wanted.environments, wanted.sources)
    if wanted.releases:
        places = [each for each in places if f"{each.kind}-{each.build}" in wanted.releases]
    if not places:
        parser.error(
            f"no release lies in {wanted.environments} or {wanted.sources}; "
            "`make test-engines` builds two"
        )
    scores = [evaluate_place(place) for place in places]
    text = json.dumps([score.as_document() for score in scores], indent=2) if wanted.json else ""
    sys.stdout.write(text or render_scores(scores))
    return 0 if all(score.is_right for score in scores) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
