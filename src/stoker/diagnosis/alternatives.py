"""Which kernels are worth a trial where those that are chosen answer nonsense.

Called by :mod:`stoker.diagnosis.repairing`. The table of kernels says which names an engine has and
which of them cannot serve this GPU and this model; what is left is put into an order, alone and
together, since some faults need an unlike pair to be mended. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from stoker.knowledge.derived.backends import list_fitting
from stoker.knowledge.engines import engine_kinds
from stoker.knowledge.releases import load_table_for
from stoker.model.facts import Plain, Unknown

#: Every trial is a start of minutes; who has tried so many has learned that it is not the kernels.
MOST_ALTERNATIVES = 12
_PREFIX = "engine.settings."


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Names to be chosen together: as ``words`` of a command line, and as keys of the file."""

    words: str
    changes: Mapping[str, Plain]


def list_alternatives(
    choices: Sequence[str], tree: Mapping[str, Plain], *, engine: str, release: str
) -> tuple[Alternative, ...]:
    """What to try, best first, of these choices of an engine; nothing for an unknown engine."""
    if engine not in engine_kinds():
        return ()
    table = load_table_for(engine, release or None)
    columns = []
    for choice in choices:
        fitting = list_fitting(choice, table, tree)
        if not isinstance(fitting, Unknown):
            columns.append(((), *fitting))
    found = (_make([pair for pair in pairs if pair]) for pairs in _order(columns))
    return tuple(each for each, _ in zip(found, range(MOST_ALTERNATIVES), strict=False))


def _order(
    columns: Sequence[Sequence[tuple[str, ...]]],
) -> Iterator[Sequence[tuple[str, ...]]]:
    """Combinations in which something changes: the best name of one choice, of two at once, ...

    A second-best name comes behind the best ones together: a fault of a whole family of kernels
    needs all of them changed.
    """
    numbered = [list(enumerate(column)) for column in columns]
    combined = sorted(
        (combination for combination in product(*numbered) if any(pair for _, pair in combination)),
        key=lambda combination: (
            sum(number for number, _ in combination),
            -sum(1 for _, pair in combination if pair),
            [number == 0 for number, _ in combination],
        ),
    )
    for combination in combined:
        yield [pair for _, pair in combination]


def _make(pairs: Sequence[tuple[str, ...]]) -> Alternative:
    return Alternative(
        words=" ".join(f"--{flag} {name}" for flag, name in pairs),
        changes={f"{_PREFIX}{flag}": name for flag, name in pairs},
    )
