"""What is odd about the engine flags that a deployment sets, against the engine's catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from stoker.knowledge.derived.case import Case
from stoker.knowledge.derived.overrides import find_overrides
from stoker.knowledge.derived.values import find_unfit
from stoker.model.deployment import Scalar
from stoker.model.engine_table import FlagCatalogue, Option, ReservedFlag
from stoker.model.facts import Plain, Unknown

_NEAR_ENOUGH = 0.6


def derive_flags(case: Case) -> dict[str, Plain]:
    """Each kind of oddity as a list of what to say about each flag.

    ``outcome`` says what a request gets where ``overrides`` names flags.
    """
    return {
        "unknown": _unknown(case),
        "owned": list(_reserved(case, with_key=True)),
        "refused": list(_reserved(case, with_key=False)),
        "malformed": list(_malformed(case)),
        "unfit": find_unfit(case),
        "idle": list(_idle(case)),
        **find_overrides(case),
    }


def _unknown(case: Case) -> list[str] | Unknown:
    catalogue = case.table.catalogue
    names = [name for name in case.deployment.engine.settings if not catalogue.find(name)]
    if names and case.launch.engine_build != catalogue.build:
        listed = ", ".join(names)
        return Unknown(reason=f"{listed}: only the flags of build {catalogue.build} are known")
    return [_suggest(name, catalogue) for name in names]


def _suggest(name: str, catalogue: FlagCatalogue) -> str:
    known = [spelled.lstrip("-") for option in catalogue.options for spelled in option.names]
    near = get_close_matches(name.replace("_", "-"), known, n=1, cutoff=_NEAR_ENOUGH)
    return f"{name} (did you mean {near[0]}?)" if near else name


def _options_named(case: Case) -> Iterator[tuple[str, Option]]:
    """What the deployment sets, by flag or by the variable that stands for one."""
    engine, catalogue = case.deployment.engine, case.table.catalogue
    for name, value in engine.settings.items():
        option = catalogue.find(name)
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
        option = case.table.catalogue.find(name)
        for item in value if isinstance(value, list) else [value]:
            if option is not None and item is not False:
                yield from _explain_argument(name, item, option)


def _explain_argument(name: str, value: Scalar | None, option: Option) -> Iterator[str]:
    is_bare = value is None or value is True
    if is_bare and option.argument is not None:
        yield f"{name} needs a value: {option.argument}"
    if not is_bare and option.argument is None:
        yield f"{name} takes no value: write true instead of {value}"


def _idle(case: Case) -> Iterator[str]:
    """``false`` leaves a flag out, which does not switch off what is on by itself."""
    for name, value in case.deployment.engine.settings.items():
        option = case.table.catalogue.find(name)
        if value is not False or option is None:
            continue
        opposite = f"no-{name.replace('_', '-')}"
        if f"--{opposite}" in option.names:
            yield f"{name}: false (write {opposite}: true)"
