"""What is odd about the engine flags that a deployment sets, against the engine's catalogue.

Called by :mod:`stoker.knowledge.derive`. Where the catalogue is not that of the very build, nothing
is called wrong: it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stoker.knowledge.derived.case import Case
from stoker.knowledge.derived.overrides import find_overrides
from stoker.knowledge.derived.values import find_unfit
from stoker.knowledge.renames import Verdict, judge_flags
from stoker.model.deployment_fields import Scalar
from stoker.model.engine_table import Option, ReservedFlag
from stoker.model.facts import Plain, Unknown
from stoker.model.launch import Origin


def derive_flags(case: Case) -> dict[str, Plain]:
    """Each kind of oddity as a list of what to say about each flag.

    ``doubled`` names those that stand there under two names.
    ``outcome`` says what a request gets where ``overrides`` names flags. ``own`` are flags that
    others than the user set and the build lacks. ``settings_renamed``, ``settings_in_full`` and
    ``settings_renewed`` are all of the deployment's settings with new names for flags of that kind,
    left out where no new name is certain.
    """
    return {
        **_judged(case),
        "doubled": list(_doubled(case)),
        "own": list(_own(case)),
        "owned": list(_reserved(case, with_key=True)),
        "refused": list(_reserved(case, with_key=False)),
        "malformed": list(_malformed(case)),
        "unfit": find_unfit(case),
        "idle": list(_idle(case)),
        **find_overrides(case),
    }


def _judged(case: Case) -> dict[str, Plain]:
    """What became of each flag that this build does not know by its full name, or is to lose."""
    settings = case.deployment.engine.settings
    verdicts = judge_flags(settings, case.table.catalogue)
    by_kind = {
        kind: [each for each in verdicts if each.kind == kind]
        for kind in ("unknown", "renamed", "shortened", "deprecated")
    }
    told: dict[str, Plain] = {kind: [each.says for each in by_kind[kind]] for kind in by_kind}
    told |= _replace("settings_renamed", settings, by_kind["renamed"])
    told |= _replace("settings_in_full", settings, by_kind["shortened"])
    told |= _replace("settings_renewed", settings, by_kind["deprecated"])
    if not case.is_known_build:
        build = case.table.catalogue.build
        for kind in ("unknown", "renamed", "shortened"):
            names = ", ".join(each.name for each in by_kind[kind])
            if names:
                told[kind] = Unknown(reason=f"{names}: only the flags of build {build} are known")
    return told


def _replace(key: str, settings: dict[str, Plain], verdicts: Sequence[Verdict]) -> dict[str, Plain]:
    """All settings with the new names in the places of the old ones; nothing without such names."""
    names = {each.name: each.instead for each in verdicts if each.instead}
    if not names:
        return {}
    return {key: {names.get(name, name): value for name, value in settings.items()}}


def _doubled(case: Case) -> Iterator[str]:
    """One flag under several names: the parser heeds the last word, and nobody means that."""
    names: dict[str, list[str]] = {}
    for name, value in case.deployment.engine.settings.items():
        option = case.table.catalogue.find_written(name)
        if option is not None and value is not False and not option.repeatable:
            names.setdefault(option.names[0], []).append(name)
    for group in names.values():
        if len(group) > 1:
            yield " and ".join(group)


def _own(case: Case) -> Iterator[str]:
    """Flags of a launch that the build lacks and that nobody wrote under ``engine.settings``."""
    if not case.is_known_build:
        return
    for setting in case.launch.settings:
        is_lost = setting.kind == "flag" and case.table.catalogue.find(setting.name) is None
        if is_lost and setting.origin is not Origin.USER:
            yield f"{setting.name} ({setting.reason})"


def _options_named(case: Case) -> Iterator[tuple[str, Option]]:
    """What the deployment sets, by flag or by the variable that stands for one."""
    engine, catalogue = case.deployment.engine, case.table.catalogue
    for name, value in engine.settings.items():
        option = catalogue.find_written(name)
        if option is not None and value is not False:
            yield f"engine.settings.{name}", option
    for name in engine.env:
        for option in catalogue.options:
            if option.env == name:
                yield f"engine.env.{name}", option


def _reserved(case: Case, *, with_key: bool) -> Iterator[str]:
    reserved = [row for row in case.table.reserved if bool(row.key) == with_key]
    for path, option in _options_named(case):
        for row in reserved:
            if row.flag in option.names:
                yield _explain_reserved(path, row)


def _explain_reserved(path: str, row: ReservedFlag) -> str:
    instead = f"use {row.key} instead of" if row.key else "leave out"
    return f"{instead} {path} ({row.reason})"


def _malformed(case: Case) -> Iterator[str]:
    for name, value in case.deployment.engine.settings.items():
        option = case.table.catalogue.find_written(name)
        if option is None:
            continue
        items = value if isinstance(value, list) else [value]
        given = [item for item in items if item is not False]
        for item in given:
            yield from _explain_argument(name, item, option)
        yield from _explain_count(name, given, option)


def _explain_argument(name: str, value: Scalar | None, option: Option) -> Iterator[str]:
    is_bare = value is None or value is True
    if is_bare and option.argument is not None and option.nargs not in ("?", "*"):
        yield f"{name} needs a value: {option.argument}"
    if not is_bare and option.argument is None:
        yield f"{name} takes no value: write true instead of {value}"


def _explain_count(name: str, items: Sequence[Scalar | None], option: Option) -> Iterator[str]:
    """A list is several uses of a flag that takes one value, and the last of them counts.

    Only where it is known how many values follow one use: an engine without argparse's words may
    heed every use.
    """
    is_counted = option.type and option.argument is not None and not option.repeatable
    if option.nargs.isdigit() and len(items) not in (0, int(option.nargs)):
        yield f"{name} takes {option.nargs} values, not {len(items)}"
    elif is_counted and option.nargs in ("", "?") and len(items) > 1:
        yield f"{name} takes one value: of {len(items)} only the last would count"


def _idle(case: Case) -> Iterator[str]:
    """``false`` leaves a flag out, which does not switch off what is on by itself."""
    for name, value in case.deployment.engine.settings.items():
        option = case.table.catalogue.find_written(name)
        if value is not False or option is None:
            continue
        opposite = f"no-{name.replace('_', '-')}"
        if f"--{opposite}" in option.names:
            yield f"{name}: false (write {opposite}: true)"
