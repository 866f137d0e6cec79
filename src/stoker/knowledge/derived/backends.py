"""Whether the kernels that were chosen can run on this GPU with this model, and which can.

Called by :mod:`stoker.knowledge.describe`. Only what somebody chose is judged (a flag, a variable,
the model's own packing), never the engine's defaults: those are its own affair, and rules name the
few that are wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.knowledge.backends import CHANGES, Backends, Choice, Limit, load_backends, normalise
from stoker.knowledge.conditions import Answer, Condition, evaluate_condition
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.templates import read_leaf, render_template
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in
from stoker.model.engine_table import EngineTable
from stoker.model.facts import Plain, Unknown
from stoker.model.launch import Setting

_AUTO = "auto"
_TRUE = Answer(truth=True)
_MOST_ADVISED = 4

Tree = Mapping[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """One name that was chosen, and where: a flag without dashes, a variable, or empty."""

    choice: Choice
    name: str
    flag: str = ""

    @property
    def words(self) -> str:
        """What a person reads before the reason."""
        return f"{self.flag or self.choice.title} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """``truth``: whether the limit is broken; None with the reasons that leave it open."""

    limit: Limit
    truth: bool | None
    reasons: tuple[str, ...]


def derive_backends(subject: Subject, tree: Tree) -> dict[str, Plain]:
    """What cannot be, what will not be as it was asked for, and what could be instead.

    ``refused``: a sentence for each choice with which the engine ends, or that breaks later;
    ``doubtful``: one for each that the engine replaces or that costs something. A list may be
    Unknown, where something that decides it is not known and nothing else is found.
    ``fit``: by choice the names that nothing is known against here, of the choices that somebody
    made; Unknown where that is open. ``tree`` holds the other parts of the description. Without a
    GPU there is nothing to judge.
    """
    backends = load_backends(subject.table.kind)
    if read_leaf(tree, "hardware.count") == 0 or not backends.choices:
        return {"refused": [], "doubtful": [], "fit": {}}
    tree = _with_unset(tree, backends)
    uses = list(_uses(backends, subject, tree))
    made = {use.choice.id: use.choice for use in uses if use.choice.advises}
    fit = {name: _fit(choice, backends, tree, subject) for name, choice in made.items()}
    judged = [
        (use, _judge(limit, tree))
        for use in uses
        for limit in backends.limits_of(use.choice.id, use.name)
        if not limit.flags or use.flag in limit.flags
    ]
    grave = [(use, each) for use, each in judged if each.limit.effect != CHANGES]
    light = [(use, each) for use, each in judged if each.limit.effect == CHANGES]
    return {"refused": _tell(grave, fit, tree), "doubtful": _tell(light, fit, tree), "fit": fit}


def list_fitting(
    choice: str, table: EngineTable, tree: Tree
) -> tuple[tuple[str, str], ...] | Unknown:
    """The flag of a choice and each name that is not set and that no limit is known to forbid here.

    In the order in which they are worth a trial: those that serve most widely, then as the engine
    lists them. Unknown, with the reason, where nothing is known of such a choice. What is not known
    here forbids nothing: a trial will show it.
    """
    backends = load_backends(table.kind)
    row = backends.choices.get(choice)
    if row is None or not row.flags:
        return Unknown(reason=f"no choice named {choice} is known of {table.title}")
    tree = _with_unset(tree, backends)
    option = next(filter(None, map(table.catalogue.find, row.flags)), None)
    if option is None:
        return Unknown(reason=f"this release of {table.title} has no flag {row.flags[0]}")
    flag, listed = row.flags[0], option.choices or row.names
    names = [*(name for name in row.first if name in listed), *listed]
    current = read_leaf(tree, f"settings.{flag}")
    return tuple(
        (flag, name)
        for name in dict.fromkeys(names)
        if name not in (_AUTO, current)
        and name not in row.aside
        and not any(
            _judge(limit, tree).truth
            for limit in backends.limits_of(choice, name)
            if not limit.flags or flag in limit.flags
        )
    )


def _tell(
    judged: Sequence[tuple[_Use, _Verdict]], fit: Mapping[str, Plain], tree: Tree
) -> list[str] | Unknown:
    broken = [(use, each.limit) for use, each in judged if each.truth]
    if broken:
        return list(dict.fromkeys(_sentence(use, limit, fit, tree) for use, limit in broken))
    open_reasons = [reason for _, each in judged if each.truth is None for reason in each.reasons]
    if open_reasons:
        return Unknown(reason="; ".join(dict.fromkeys(open_reasons)))
    return []


def _sentence(use: _Use, limit: Limit, fit: Mapping[str, Plain], tree: Tree) -> str:
    said = f"{use.words}: {render_template(limit.because, tree)}"
    names = fit.get(use.choice.id)
    if isinstance(names, Unknown) or not names:
        return said
    others = [name for name in names if normalise(name) != normalise(use.name)]
    shown = ", ".join(others[:_MOST_ADVISED])
    return f"{said} (what fits here: {shown})" if shown else said


def _uses(backends: Backends, subject: Subject, tree: Tree) -> Iterator[_Use]:
    spelled = [(setting, _spellings(setting, subject)) for setting in subject.settings]
    for choice in backends.choices.values():
        for name, flag in _chosen(choice, spelled):
            if normalise(name) != _AUTO:
                yield _Use(choice=choice, name=name, flag=flag)
        told = read_leaf(tree, choice.model) if choice.model else None
        if isinstance(told, str):
            yield _Use(choice=choice, name=told)


def _spellings(setting: Setting, subject: Subject) -> frozenset[str]:
    """All names of the flag that a setting sets, without dashes; that of a variable as it is."""
    if setting.kind == "env":
        return frozenset((setting.name,))
    option = subject.table.catalogue.find(setting.name)
    names = option.names if option else (setting.name,)
    return frozenset(name.lstrip("-") for name in names)


def _chosen(
    choice: Choice, spelled: Sequence[tuple[Setting, frozenset[str]]]
) -> Iterator[tuple[str, str]]:
    """The names that settings choose, each with its flag or variable."""
    for setting, names in spelled:
        known = choice.env if setting.kind == "env" else choice.flags
        flag = next((each for each in known if each in names), None)
        if flag is not None and setting.value is not None:
            yield setting.value, flag
        for table, key in choice.tables.items():
            yield from _from_table(setting, setting.name.lstrip("-"), table=table, key=key)


def _from_table(setting: Setting, name: str, *, table: str, key: str) -> Iterator[tuple[str, str]]:
    """What a flag with a JSON table chooses, also where it is written ``--table.key``."""
    if setting.value is None or setting.kind != "flag":
        return
    if name == f"{table}.{key}":
        yield setting.value, name
    elif name == table:
        try:
            found = json.loads(setting.value)
        except (ValueError, RecursionError):
            return
        if isinstance(found, dict) and isinstance(found.get(key), str):
            yield found[key], f"{table}.{key}"


def _fit(choice: Choice, backends: Backends, tree: Tree, subject: Subject) -> Plain:
    """The names that no limit is known to forbid here, as far as that can be told."""
    option = next(filter(None, map(subject.table.catalogue.find, choice.flags)), None)
    names = (option.choices if option else ()) or choice.names
    found: list[str] = []
    for name in (each for each in names if each != _AUTO and each not in choice.aside):
        judged = [_judge(limit, tree) for limit in backends.limits_of(choice.id, name)]
        if any(each.truth for each in judged):
            continue
        grave = [each for each in judged if each.limit.effect != CHANGES]
        reasons = [reason for each in grave if each.truth is None for reason in each.reasons]
        if reasons:
            return Unknown(reason="; ".join(dict.fromkeys(reasons)))
        found.append(name)
    return found


def _judge(limit: Limit, tree: Tree) -> _Verdict:
    """Whether a limit is broken: in its releases, where it counts, without what it needs."""
    counts = [_in_versions(limit.versions, tree), _ask(limit.where, tree)]
    met = _ask(limit.needs, tree) if limit.needs else Answer(truth=False)
    truths = [*(each.truth for each in counts), None if met.truth is None else not met.truth]
    answers = (*counts, met)
    if False in truths:
        return _Verdict(limit=limit, truth=False, reasons=())
    if None not in truths:
        return _Verdict(limit=limit, truth=True, reasons=())
    reasons = tuple(reason for each in answers for reason in each.missing.values())
    return _Verdict(limit=limit, truth=None, reasons=reasons)


def _ask(condition: Condition | None, tree: Tree) -> Answer:
    return _TRUE if condition is None else evaluate_condition(condition, tree)


def _in_versions(versions: str, tree: Tree) -> Answer:
    if not versions:
        return _TRUE
    told = read_leaf(tree, "stack.version")
    version = parse_version(told) if isinstance(told, str) else None
    version_range = parse_version_range(versions)
    if version is None or version_range is None:
        reason = told.reason if isinstance(told, Unknown) else "the engine's release is no version"
        return Answer(truth=None, missing={"stack.version": reason})
    return Answer(truth=version_is_in(version, version_range))


def _with_unset(tree: Tree, backends: Backends) -> dict[str, Plain]:
    """The tree, and None for each setting that some limit asks about and this release lacks."""
    filled = dict(tree)
    for part in ("settings", "env"):
        told = tree.get(part)
        if isinstance(told, Mapping):
            filled[part] = {**dict.fromkeys(backends.asked[part]), **told}
    return filled
