"""What differs for a deployment between two releases of its engine, flag by flag.

Called by `stoker engine upgrade-check`. Pure: two launches and two catalogues in, items out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.knowledge.derived.values import fits
from stoker.knowledge.renames import explain_absence, judge_flags
from stoker.model.deployment import Engine
from stoker.model.engine_table import EngineVariable, FlagCatalogue, Option
from stoker.model.facts import Plain
from stoker.model.launch import Origin, Setting
from stoker.model.upgrade import UpgradeItem

_NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A deployment at one release: its flags, its variables and the settings of its launch."""

    catalogue: FlagCatalogue
    variables: Mapping[str, EngineVariable]
    settings: Sequence[Setting]


def compare_releases(
    engine: Engine, before: Standing, after: Standing
) -> tuple[tuple[UpgradeItem, ...], tuple[UpgradeItem, ...]]:
    """What concerns the deployment's own settings, and the defaults that it relies on."""
    items = (
        *_lost(engine.settings, before.catalogue, after.catalogue),
        *_reshaped(engine.settings, before.catalogue, after.catalogue),
        *_lost_variables(engine.env, before.variables, after.variables),
        *_chosen(before.settings, after.settings, after.catalogue),
    )
    set_names = {each.name for each in (*before.settings, *after.settings)}
    defaults = (
        *_defaults(before.catalogue, after.catalogue, set_names),
        *_variable_defaults(before.variables, after.variables, set_names),
    )
    return tuple(items), tuple(defaults)


def _lost(
    settings: Mapping[str, Plain], before: FlagCatalogue, after: FlagCatalogue
) -> Iterator[UpgradeItem]:
    """Flags that are gone, renamed or about to go. What is unknown in both was wrong before."""
    for verdict in judge_flags(settings, after):
        if settings[verdict.name] is False:
            continue
        if verdict.kind in ("renamed", "shortened"):
            yield UpgradeItem(
                name=verdict.name,
                kind=verdict.kind,
                says=verdict.says,
                instead=verdict.instead,
                breaks=verdict.kind == "renamed",
            )
        elif verdict.kind == "deprecated":
            yield UpgradeItem(
                name=verdict.name,
                kind=verdict.kind,
                says=verdict.says,
                instead=verdict.instead,
            )
        else:
            was = "is gone" if before.find(verdict.name) else "is in neither release"
            told = explain_absence(verdict.name, after)
            says = f"{verdict.name} {was} {told}".rstrip()
            yield UpgradeItem(name=verdict.name, kind="removed", says=says, breaks=True)


def _reshaped(
    settings: Mapping[str, Plain], before: FlagCatalogue, after: FlagCatalogue
) -> Iterator[UpgradeItem]:
    """Flags that take other words there than those that the file gives them."""
    for name, value in settings.items():
        old, new = before.find_whole(name), after.find_whole(name)
        if old is None or new is None or value is False:
            continue
        shape = _explain_shape(name, value, old, new)
        if shape:
            yield UpgradeItem(name=name, kind="shape", says=shape, breaks=True)
            continue
        words = [str(item) for item in _items(value)]
        gone = [word for word in words if fits(word, old) and not fits(word, new)]
        if gone:
            taken = ", ".join(new.choices) or new.type
            yield UpgradeItem(
                name=name,
                kind="value",
                says=f"{name} no longer takes {', '.join(gone)}; it takes {taken}",
                before=", ".join(gone),
                breaks=True,
            )


def _explain_shape(name: str, value: Plain, old: Option, new: Option) -> str:
    is_bare = value is None or value is True
    if is_bare and new.argument is not None and new.nargs not in ("?", "*"):
        return f"{name} needs a value there: {new.argument}"
    if not is_bare and new.argument is None:
        return f"{name} takes no value there"
    several = isinstance(value, list) and len(value) > 1
    if several and old.nargs in ("*", "+") and new.nargs not in ("*", "+"):
        return f"{name} takes one value there, not {len(value)}"
    return ""


def _items(value: Plain) -> list[Plain]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if item is not None and not isinstance(item, bool)]


def _lost_variables(
    env: Mapping[str, str],
    before: Mapping[str, EngineVariable],
    after: Mapping[str, EngineVariable],
) -> Iterator[UpgradeItem]:
    for name in env:
        if name in before and name not in after:
            says = f"the variable {name} is read no more"
            yield UpgradeItem(name=name, kind="removed", says=says, breaks=True)


def _chosen(
    before: Sequence[Setting], after: Sequence[Setting], catalogue: FlagCatalogue
) -> Iterator[UpgradeItem]:
    """What Stoker and its rules set otherwise there; the file needs no change for it."""
    old, new = _by_identity(before, catalogue), _by_identity(after, catalogue)
    for identity in dict.fromkeys((*old, *new)):
        one, other = old.get(identity), new.get(identity)
        is_same = one and other and (one.name, one.value) == (other.name, other.value)
        chosen = other or one
        origins = {each.origin for each in (one, other) if each is not None}
        if is_same or chosen is None or Origin.USER in origins:
            continue
        yield UpgradeItem(
            name=chosen.name,
            kind="chosen",
            says=f"Stoker sets {_word(other)} there, {_word(one)} now: {chosen.reason}",
            before=_word(one),
            after=_word(other),
        )


def _by_identity(settings: Iterable[Setting], catalogue: FlagCatalogue) -> dict[str, Setting]:
    return {catalogue.identify(each.name, each.kind): each for each in settings}


def _word(setting: Setting | None) -> str:
    if setting is None:
        return _NOTHING
    return " ".join(filter(None, (setting.name, setting.value, *setting.more)))


def _defaults(
    before: FlagCatalogue, after: FlagCatalogue, set_names: set[str]
) -> Iterator[UpgradeItem]:
    """Flags of both releases that nobody sets and whose defaults are known and differ."""
    for new in after.options:
        old = next(filter(None, (before.find_whole(name) for name in new.names)), None)
        is_unknown = old is None or "default" in old.unknown or "default" in new.unknown
        if old is None or is_unknown or set_names & {*new.names, *old.names}:
            continue
        if old.default != new.default:
            name = next((each for each in new.names if each.startswith("--")), new.names[0])
            yield _default(name.lstrip("-"), old.default, new.default)


def _variable_defaults(
    before: Mapping[str, EngineVariable],
    after: Mapping[str, EngineVariable],
    set_names: set[str],
) -> Iterator[UpgradeItem]:
    for name in sorted(before.keys() & after.keys() - set_names):
        old, new = before[name], after[name]
        if not old.unknown and not new.unknown and old.default != new.default:
            yield _default(name, old.default, new.default)


def _default(name: str, old: str | None, new: str | None) -> UpgradeItem:
    says = f"{name}: {_shown(old)} becomes {_shown(new)}"
    return UpgradeItem(name=name, kind="default", says=says, before=old, after=new)


def _shown(value: str | None) -> str:
    return "no value" if value is None else value or '""'
