"""What a flag is called in another release, and what became of one that a release does not have.

Called by :mod:`stoker.knowledge.derived.flags` and by the commands that take a deployment to
another release. A new name is certain only where the engine itself says it and the flag takes the
same words; everything else is told and never applied. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from stoker.knowledge.lifetimes import (
    Lifetime,
    Lifetimes,
    Rename,
    lifetime_kinds,
    load_lifetimes,
)
from stoker.model.engine_table import FlagCatalogue, Option
from stoker.model.facts import Plain

_NEAR_ENOUGH = 0.6
_MOST_RENAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be said of one flag under ``engine.settings``.

    ``kind``: renamed (``instead`` is its name here), shortened (a beginning that argparse
    completes to ``instead``), deprecated (``instead`` may say by what), unknown. ``instead`` has
    no dashes and is empty where nothing is certain; ``says`` is a phrase for a person.
    """

    name: str
    kind: str
    says: str
    instead: str = ""


def judge_flags(settings: Mapping[str, Plain], catalogue: FlagCatalogue) -> tuple[Verdict, ...]:
    """A verdict for each flag that the catalogue does not have as it is written, or is to lose."""
    verdicts = (_judge(name, settings, catalogue) for name in settings)
    return tuple(verdict for verdict in verdicts if verdict is not None)


def find_new_name(name: str, catalogue: FlagCatalogue) -> tuple[str, str]:
    """What the flag is called in this catalogue, and since or until when; both empty for nothing.

    Only what the engine says itself, in this release or in another one.
    """
    lifetimes = _lifetimes(catalogue)
    if lifetimes is None:
        return "", ""
    seen, said = name, ""
    for _ in range(_MOST_RENAMES):
        step = next((each for each in lifetimes.renamed_to(seen) if _is_flag(each.new)), None)
        if step is None:
            break
        seen, said = step.new, f"since {step.release}"
        if catalogue.find(seen) is not None:
            return seen.lstrip("-"), said
    back = [each for each in lifetimes.renames if _same(each.new, name)]
    for rename in reversed(back):
        if catalogue.find(rename.old) is not None:
            return rename.old.lstrip("-"), f"before {rename.release}"
    return "", ""


def explain_absence(name: str, catalogue: FlagCatalogue) -> str:
    """What is known of a flag that the catalogue does not have: its releases, or the nearest name.

    A phrase in brackets; empty where nothing is known.
    """
    lifetimes = _lifetimes(catalogue)
    found = lifetimes.find(name) if lifetimes else None
    told = [_spans(found, lifetimes)] if lifetimes and found else []
    words = lifetimes.renamed_to(name) if lifetimes else ()
    if words:
        told.append(_engine_says(words[0]))
    if not told and (near := find_nearest(name, catalogue)):
        told.append(f"did you mean {near}?")
    return f"({'; '.join(told)})" if told else ""


def find_nearest(name: str, catalogue: FlagCatalogue) -> str:
    """The flag that is spelled most like this one, without dashes; a guess, for messages alone."""
    known = [spelled.lstrip("-") for option in catalogue.options for spelled in option.names]
    wanted = name.partition("=")[0].replace("_", "-")
    near = get_close_matches(wanted, known, n=1, cutoff=_NEAR_ENOUGH)
    return near[0] if near else ""


def _judge(name: str, settings: Mapping[str, Plain], catalogue: FlagCatalogue) -> Verdict | None:
    option = catalogue.find(name)
    if option is not None:
        return _judge_old(name, settings, option, catalogue)
    new, when = find_new_name(name, catalogue)
    if new and _fits(settings[name], catalogue.find(new)) and not _is_set(new, settings, catalogue):
        return Verdict(name=name, kind="renamed", says=f"{name} is {new} {when}", instead=new)
    whole = catalogue.complete(name).lstrip("-")
    if whole and not _is_former(name, catalogue):
        if _is_set(whole, {each: None for each in settings if each != name}, catalogue):
            return None  # it stands there twice, which is told of both together
        says = f"{name} is short for {whole}"
        return Verdict(name=name, kind="shortened", says=says, instead=whole)
    told = f"({new} {when} stands for it)" if new else explain_absence(name, catalogue)
    return Verdict(name=name, kind="unknown", says=f"{name} {told}".rstrip())


def _judge_old(
    name: str, settings: Mapping[str, Plain], option: Option, catalogue: FlagCatalogue
) -> Verdict | None:
    """A flag that the release knows and names another for, or a name that stands behind it."""
    told = option.deprecated_by
    if told is None or settings[name] is False:
        return None
    if not told:
        return Verdict(name=name, kind="deprecated", says=f"{name} (nothing is named in its stead)")
    new = told.lstrip("-")
    is_sure = (
        _is_flag(told)
        and _fits(settings[name], catalogue.find_whole(new))
        and not _is_set(new, settings, catalogue)
    )
    says = f"{name} (the engine says: {told})"
    return Verdict(name=name, kind="deprecated", says=says, instead=new if is_sure else "")


def _is_former(name: str, catalogue: FlagCatalogue) -> bool:
    """Whether another release has a flag of this very name: then a beginning is not meant."""
    lifetimes = _lifetimes(catalogue)
    return lifetimes is not None and lifetimes.find(name) is not None


def _is_flag(word: str) -> bool:
    """Whether an engine's word for a new name is a flag and nothing beside it."""
    return word.startswith("--") and not set(word) & set("={}<>. ")


def _same(one: str, other: str) -> bool:
    return one.lstrip("-") == other.lstrip("-").replace("_", "-")


def _is_set(name: str, settings: Mapping[str, Plain], catalogue: FlagCatalogue) -> bool:
    """Whether the deployment sets this flag too, under any of its names."""
    option = catalogue.find_whole(name)
    return any(option is not None and catalogue.find_whole(each) is option for each in settings)


def _fits(value: Plain, option: Option | None) -> bool:
    """Whether a flag takes such a value: bare or not, and one of its choices."""
    if option is None:
        return False
    is_bare = value is None or isinstance(value, bool)
    if is_bare or option.argument is None:
        return is_bare and option.argument is None
    items = value if isinstance(value, list) else [value]
    is_open = option.kind != "choice"
    return is_open or all(str(item) in (*option.choices, *option.also) for item in items)


def _spans(found: Lifetime, lifetimes: Lifetimes) -> str:
    newest = lifetimes.releases[-1]
    spans = [
        f"since {first}" if last == newest else f"from {first} to {last}"
        for first, last in found.spans
    ]
    return f"the engine has it {' and '.join(spans)}"


def _engine_says(rename: Rename) -> str:
    return f"since {rename.release} the engine says: use {rename.new}"


def _lifetimes(catalogue: FlagCatalogue) -> Lifetimes | None:
    return load_lifetimes(catalogue.engine) if catalogue.engine in lifetime_kinds() else None
