"""From the most literal deployment of a running server to one that says it in Stoker's own words.

Each step tries another wording and keeps it only if the engine would be started in the same way;
how an engine is started is asked of its adapter, so no arithmetic of an engine stands here. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from stoker.model.comparison import Comparison, Side
from stoker.model.engine_table import EngineTable, Option
from stoker.planning.adoption import Draft
from stoker.planning.command_line import own_name
from stoker.planning.compare import EMPTY

#: The rows that a key under ``serve`` of the same name sets, with the largest number it takes.
_COUNTS = {"parallel_requests": (1, 4096), "context_tokens": (16, 1 << 40)}
#: Rows that a deployment may say in other words: a model that Stoker fetches has another path.
_SAID_OTHERWISE = frozenset({"model_path", "draft_path"})
#: UUIDs as nvidia-smi -L prints them name the same GPU in any order.
_UUID_PREFIXES = ("GPU-", "MIG-")

#: How the engine would be started for a draft; None where it is no valid deployment.
StartOf = Callable[[Draft], Side | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Another wording of a draft. ``may_add``: variables that it may bring along."""

    draft: Draft
    may_add: frozenset[str] = frozenset()


def lift(draft: Draft, table: EngineTable, start_of: StartOf, *, has_equal_gpus: bool) -> Draft:
    """The draft with keys of the deployment in place of settings, where both mean the same."""
    for row in _COUNTS:
        draft = _first_equal(draft, _count_trials(draft, table, row), start_of)
    draft = _first_equal(draft, _no_gpu_trials(draft, table), start_of)
    trials = _gpu_trials(draft, table, has_equal_gpus=has_equal_gpus)
    return _first_equal(draft, trials, start_of)


def leave_out_additions(
    draft: Draft, comparison: Comparison, table: EngineTable, *, welcome: frozenset[str]
) -> Draft:
    """The draft with ``false`` for every flag that Stoker would add by itself.

    ``comparison`` has the running server as A and the draft as B; ``welcome`` are ids of rows
    that may be added.
    """
    rows = {_own_name(table, row.flag): row.id for row in table.settings.values()}
    added = [
        each.name
        for each in comparison.differences
        if each.what == "flag" and each.a is None and rows.get(each.name, "") not in welcome
    ]
    left = {name.lstrip("-"): False for name in added if name in rows}
    return replace(draft, settings={**draft.settings, **left})


def lost_flags(
    comparison: Comparison, table: EngineTable, *, welcome: frozenset[str]
) -> tuple[str, ...]:
    """Flags of the running server that the draft would not give again, for an error.

    What Stoker may add (``welcome``, ids of rows) and the weights may be said in another way; an
    empty value says nothing.
    """
    rows = {_own_name(table, row.flag): row.id for row in table.settings.values()}
    return tuple(
        f"{each.name} {each.a}: a deployment cannot say it"
        for each in comparison.differences
        if each.what == "flag"
        and each.a not in (None, EMPTY)
        and rows.get(each.name) not in welcome | _SAID_OTHERWISE
    )


def explain_additions(
    comparison: Comparison, table: EngineTable, reasons: Mapping[str, str]
) -> Comparison:
    """The comparison with the reasons of additions, by the ids of their rows, as notes."""
    names = {_own_name(table, row.flag): row.id for row in table.settings.values()}
    differences = (
        replace(
            each, note="; ".join(filter(None, (each.note, reasons.get(names.get(each.name, "")))))
        )
        for each in comparison.differences
    )
    return replace(comparison, differences=tuple(differences))


def _first_equal(draft: Draft, trials: Iterator[Trial], start_of: StartOf) -> Draft:
    before = start_of(draft)
    for trial in trials:
        after = start_of(trial.draft)
        if before is not None and after is not None and _agree(before, after, trial.may_add):
            return trial.draft
    return draft


def _agree(before: Side, after: Side, may_add: frozenset[str]) -> bool:
    added = after.variables.keys() - before.variables.keys()
    kept = {name: item for name, item in after.variables.items() if name not in added}
    return (
        before.flags == after.flags
        and kept == before.variables
        and added <= may_add
        and before.user == after.user
    )


def _count_trials(draft: Draft, table: EngineTable, row: str) -> Iterator[Trial]:
    """The number itself, and its share for each of the requests that are answered at once."""
    name, option = _setting_of(draft, table, row)
    given = draft.settings.get(name)
    if option is None or type(given) is not int:
        return
    low, high = _COUNTS[row]
    slots = draft.values.get("serve.parallel_requests")
    shares = [given] if not isinstance(slots, int) or given % slots else [given // slots, given]
    settings = {other: value for other, value in draft.settings.items() if other != name}
    for share in (share for share in shares if low <= share <= high):
        values = {**draft.values, f"serve.{row}": share}
        yield Trial(draft=replace(draft, values=values, settings=settings))


def _no_gpu_trials(draft: Draft, table: EngineTable) -> Iterator[Trial]:
    name, option = _setting_of(draft, table, "no_gpu")
    if option is None or draft.settings.get(name) != table.settings["no_gpu"].default:
        return
    settings = {other: value for other, value in draft.settings.items() if other != name}
    values = {**draft.values, "gpus": "none"}
    yield Trial(draft=replace(draft, values=values, settings=settings))


def _gpu_trials(draft: Draft, table: EngineTable, *, has_equal_gpus: bool) -> Iterator[Trial]:
    """The GPUs by number, where their order cannot change, or by UUID."""
    choice, order = table.settings.get("gpu_choice"), table.settings.get("gpu_order")
    if choice is None or choice.kind != "env" or choice.flag not in draft.env:
        return
    gpus = _parse_gpus(draft.env[choice.flag])
    if not gpus:
        return
    is_certain = has_equal_gpus or not any(isinstance(gpu, int) for gpu in gpus)
    may_add = frozenset({order.flag} if order is not None and is_certain else ())
    env = {name: value for name, value in draft.env.items() if name != choice.flag}
    without_order = {
        name: value for name, value in env.items() if order is None or name != order.flag
    }
    values = {**draft.values, "gpus": gpus}
    yield Trial(draft=replace(draft, values=values, env=without_order), may_add=may_add)
    yield Trial(draft=replace(draft, values=values, env=env), may_add=may_add)


def _parse_gpus(text: str) -> list[int | str] | None:
    """Numbers and UUIDs; None for anything else, such as an empty text, which hides all GPUs."""
    gpus: list[int | str] = []
    for part in text.split(","):
        if part.isascii() and part.isdecimal():
            gpus.append(int(part))
        elif part.startswith(_UUID_PREFIXES) and not any(map(str.isspace, part)):
            gpus.append(part)
        else:
            return None
    return gpus if len(set(gpus)) == len(gpus) else None


def _setting_of(draft: Draft, table: EngineTable, row: str) -> tuple[str, Option | None]:
    """The name under which a draft's settings hold a row of the table, and its option."""
    found = table.settings.get(row)
    option = table.catalogue.find(found.flag) if found and found.kind == "flag" else None
    name = own_name(option).lstrip("-") if option else ""
    return name, option if name in draft.settings else None


def _own_name(table: EngineTable, flag: str) -> str:
    option = table.catalogue.find(flag)
    return own_name(option) if option else flag
