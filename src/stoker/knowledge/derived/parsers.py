"""Which parsers of the engine read the calls and the thoughts of this model.

Called by :mod:`stoker.knowledge.describe`. A family is recognised by the model's name before its
type, and by its type before what its chat template writes; a parser that the release does not
have is never chosen, and what would have is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.lifetimes import order_releases
from stoker.knowledge.parsers import (
    USES,
    EngineFlags,
    Family,
    FamilyParsers,
    Parser,
    load_parsers,
)
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in
from stoker.model.engine_table import FlagCatalogue
from stoker.model.facts import Plain, Unknown

_NEVER = "never"
_ALWAYS = "always"


#: What is said where there is nothing to say.
_NOTHING: Mapping[str, Plain] = {
    **dict.fromkeys(("family", "title", "because", "conflict", "thinks", *USES)),
    **dict.fromkeys(("template", "note", "wrong_tool_call", "wrong_reasoning")),
    "lacking": [],
    "swallows": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A family, ``by`` what it was known (name, base, type or template) and by which sign."""

    family: Family
    by: str
    sign: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release of an engine, and which parsers it knows."""

    engine: str
    catalogue: FlagCatalogue

    @property
    def flags(self) -> EngineFlags:
        """How the engine names the two."""
        return load_parsers().engine[self.engine]

    def flag(self, use: str) -> str:
        """The flag for one use."""
        return self.flags.tool_call if use == "tool_call" else self.flags.reasoning

    def rows(self, use: str) -> Mapping[str, Parser]:
        """All parsers of the engine for one use, of any release."""
        return load_parsers().parsers[self.engine][use]

    def knows(self, name: str, use: str) -> bool:
        """Whether it has a parser: its own parser of flags tells, else the table does."""
        option = self.catalogue.find(self.flag(use))
        if option is not None and option.choices:
            return name in option.choices
        row = self.rows(use).get(name)
        if row is None:
            return False
        build = self.catalogue.build
        ends = (row.since, build, row.until or build)
        return order_releases(ends) == ends

    def reads(self, chosen: FamilyParsers, name: str) -> bool:
        """Whether a parser that it has reads such a family; a release without numbers counts."""
        told = chosen.reads.get(name)
        wanted = parse_version_range(told) if told else None
        version = parse_version(self.catalogue.build)
        return wanted is None or version is None or version_is_in(version, wanted)

    def presumes(self, row: Parser) -> bool:
        """Whether a reasoning parser takes all for thought until the end of it is marked."""
        wanted = parse_version_range(row.presumes) if row.presumes else None
        version = parse_version(self.catalogue.build)
        return bool(wanted and version and version_is_in(version, wanted))

    def explain_lack(self, name: str, use: str) -> str:
        """Where a parser is to be had that this release does not have."""
        row = self.rows(use)[name]
        when = f"was there until {row.until}" if row.until else f"comes with {row.since}"
        what = use.replace("_", "-")
        return f"the {what} parser {name} {when}, and this is {self.catalogue.build}"


def derive_parsers(
    subject: Subject, *, checkpoint: Mapping[str, Plain], settings: Mapping[str, Plain]
) -> dict[str, Plain]:
    """What :func:`read_parsers` says for the engine of a subject."""
    table = subject.table
    return read_parsers(table.kind, table.catalogue, checkpoint=checkpoint, settings=settings)


def read_parsers(
    engine: str,
    catalogue: FlagCatalogue,
    *,
    checkpoint: Mapping[str, Plain],
    settings: Mapping[str, Plain],
) -> dict[str, Plain]:
    """``tool_call`` and ``reasoning``: the engine's names for them, None where none fits.

    ``family`` and ``title``, ``because`` (how it was recognised), ``conflict`` (what speaks
    against it), ``thinks``, ``template`` (a chat template of the engine's repository that calls
    need because the model's own writes none), ``lacking`` (sentences about parsers that this
    release does not have) and ``note``. ``wrong_tool_call``, ``wrong_reasoning``: what is set and
    cannot read this family. ``swallows``: the reasoning parser that is set will take the answers
    of this model for thoughts. The engine and its catalogue may be of any release.
    """
    match = recognise(checkpoint)
    if isinstance(match, Unknown):
        return dict.fromkeys(_NOTHING, match)
    about: dict[str, Plain] = dict(_NOTHING)
    if match is not None:
        about |= {
            "family": match.family.id,
            "title": match.family.title,
            "because": _explain(match),
            "conflict": _find_conflict(match, checkpoint),
            "thinks": _thinks(match, checkpoint),
        }
    if match is None or engine not in load_parsers().engine:
        return about
    release = Release(engine=engine, catalogue=catalogue)
    return {
        **about,
        **_choose(match, release, checkpoint=checkpoint),
        **_judge(match, release, settings, checkpoint=checkpoint),
    }


def recognise(checkpoint: Mapping[str, Plain]) -> Match | Unknown | None:
    """The family of a checkpoint, None for one that nobody described.

    Unknown where neither a name nor a file of the model says anything.
    """
    families = load_parsers().families
    names = _texts(checkpoint.get("names"))
    for by, told in (("name", names), ("base", _texts(checkpoint.get("base_names")))):
        for name in told:
            if family := _find_by_name(name, families):
                return Match(family=family, by=by, sign=name.rpartition("/")[2])
    return _recognise_files(checkpoint, families, has_name=bool(names))


def _find_by_name(name: str, families: Sequence[Family]) -> Family | None:
    short = shorten_name(name)
    return next(
        (each for each in families if any(re.search(pattern, short) for pattern in each.names)),
        None,
    )


def _recognise_files(
    checkpoint: Mapping[str, Plain], families: Sequence[Family], *, has_name: bool
) -> Match | Unknown | None:
    """By what config.json says, then by what the chat template writes."""
    markers = list_markers(checkpoint)
    told = {str(checkpoint.get(part)) for part in ("model_type", "class")} - {"None"}
    for family in families:
        fits = told & {*family.types, *family.classes}
        if fits and (not family.needs_markers or _has_markers(family, markers)):
            return Match(family=family, by="type", sign=min(fits))
    for family in families:
        if not family.needs_markers and _has_markers(family, markers):
            return Match(family=family, by="template", sign=" ".join(family.markers))
    if not has_name and all(_is_unread(checkpoint.get(part)) for part in ("model_type", "class")):
        return Unknown(reason="neither a name nor a file of the model says what it is")
    return None


def shorten_name(name: str) -> str:
    """A model's name as the patterns have it: small letters, dashes, no organisation."""
    return name.rpartition("/")[2].lower().replace("_", "-")


def list_markers(checkpoint: Mapping[str, Plain]) -> frozenset[str]:
    """All that the chat template is known to write, and the variables that switch it."""
    parts = ("tool_markers", "reasoning_markers", "template_variables")
    return frozenset(text for part in parts for text in _texts(checkpoint.get(part)))


def _choose(match: Match, release: Release, *, checkpoint: Mapping[str, Plain]) -> dict[str, Plain]:
    chosen = _parsers_of(match.family, release.engine)
    thinks = _thinks(match, checkpoint)
    wanted = {"tool_call": chosen.tool_call, "reasoning": chosen.reasoning if thinks else ()}
    found = {
        use: next(
            (name for name in names if release.knows(name, use) and release.reads(chosen, name)),
            None,
        )
        for use, names in wanted.items()
    }
    return {
        **found,
        "template": _find_template(chosen, checkpoint),
        "note": chosen.note or None,
        "lacking": [
            release.explain_lack(names[0], use)
            for use, names in wanted.items()
            if names and found[use] is None
        ],
    }


def _judge(
    match: Match,
    release: Release,
    settings: Mapping[str, Plain],
    *,
    checkpoint: Mapping[str, Plain],
) -> dict[str, Plain]:
    """What is set against what the family is read with."""
    set_now = {use: settings.get(release.flag(use)) for use in USES}
    wrong = {
        use: name
        for use, name in set_now.items()
        if isinstance(name, str)
        and name in release.rows(use)
        and name not in release.flags.automatic
        and not _reads(match.family, name, use, release)
    }
    reasoning = set_now["reasoning"]
    row = release.rows("reasoning").get(reasoning) if isinstance(reasoning, str) else None
    swallows = row is not None and release.presumes(row) and not _thinks(match, checkpoint)
    return {
        "wrong_tool_call": wrong.get("tool_call"),
        "wrong_reasoning": wrong.get("reasoning"),
        "swallows": swallows,
    }


def _reads(family: Family, name: str, use: str, release: Release) -> bool:
    """Whether a parser reads a family. One that the engine has no parser for is not judged."""
    chosen = _parsers_of(family, release.engine)
    right = chosen.tool_call if use == "tool_call" else chosen.reasoning
    if not right:
        # Of what never thinks no parser is right; whether that does harm is another question.
        return True
    fit = [each for each in (*right, *chosen.also) if release.reads(chosen, each)]
    names = {canonical_name(each, release.rows(use)) for each in fit}
    return canonical_name(name, release.rows(use)) in names


def canonical_name(name: str, rows: Mapping[str, Parser]) -> str:
    """One name for all parsers that read the same format."""
    row = rows.get(name)
    return row.same if row and row.same else name


def _parsers_of(family: Family, engine: str) -> FamilyParsers:
    return family.engines.get(engine, FamilyParsers())


def _find_template(chosen: FamilyParsers, checkpoint: Mapping[str, Plain]) -> Plain | Unknown:
    if not chosen.template:
        return None
    markers = checkpoint.get("tool_markers")
    if isinstance(markers, Unknown):
        return markers
    return None if markers else chosen.template


def _thinks(match: Match, checkpoint: Mapping[str, Plain]) -> bool:
    """Whether the model may think at all, as far as its name and its template tell."""
    family = match.family
    if family.thinks == _NEVER:
        return False
    told = (*_texts(checkpoint.get("names")), *_texts(checkpoint.get("base_names")))
    names = [shorten_name(name) for name in told]
    if any(re.search(pattern, name) for pattern in family.silent for name in names):
        return False
    has_template = checkpoint.get("has_chat_template")
    if family.thinks == _ALWAYS or match.by == "name" or has_template is not True:
        return True
    return bool(_texts(checkpoint.get("reasoning_markers")))


def _find_conflict(match: Match, checkpoint: Mapping[str, Plain]) -> str | None:
    """What the config says against the name; None where it says nothing or agrees."""
    told = [str(each) for part in ("model_type", "class") if _is_text(each := checkpoint.get(part))]
    family = match.family
    described = {*family.types, *family.classes, *family.kin}
    if match.by != "name" or not told or not described or described & set(told):
        return None
    return f"the name {match.sign} says {family.title}, and config.json says {', '.join(told)}"


def _explain(match: Match) -> str:
    how = {
        "name": f"the name {match.sign}",
        "base": f"the model that it was made from, {match.sign}",
        "type": f"config.json says {match.sign}",
        "template": f"the chat template has {match.sign}",
    }
    return how[match.by]


def _has_markers(family: Family, markers: Set[str]) -> bool:
    return bool(family.markers) and markers >= set(family.markers)


def _texts(value: Plain) -> tuple[str, ...]:
    """A list of texts; nothing for what is not known."""
    return tuple(_only_texts(value)) if isinstance(value, (list, tuple)) else ()


def _only_texts(items: list[Plain] | tuple[Plain, ...]) -> Iterator[str]:
    return (item for item in items if isinstance(item, str))


def _is_text(value: Plain) -> bool:
    return isinstance(value, str) and bool(value)


def _is_unread(value: Plain) -> bool:
    return value is None or isinstance(value, Unknown)
