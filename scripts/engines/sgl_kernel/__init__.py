"""Stands in for SGLang's kernels on a processor without AMX, for which there is no package.

SGLang imports a few of them at its start and calls one in its native way of computing; that one is
written out here, any other says its name where it is called. Put into the environment of the tests
by scripts/build_engines.py; no part of Stoker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__version__ = "0.0.0+processor"


def assign_req_to_token_pool_cpu(
    rows: Any, table: Any, starts: Any, ends: Any, places: Any, _stride: int
) -> None:
    """Write each request's new places into its row of the table, in order."""
    taken = 0
    for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True):
        count = end - start
        table[row, start:end] = places[taken : taken + count].to(table.dtype)
        taken += count


def __getattr__(name: str) -> Callable[..., None]:
    if name.startswith("__"):
        raise AttributeError(name)

    def refuse(*_words: object, **_named: object) -> None:
        raise NotImplementedError(f"there is no {name} on this processor")

    return refuse
