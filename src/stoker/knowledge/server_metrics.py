"""What engines tell of themselves under load, as data: names of metrics by their meaning.

Called by the commands that measure. Pure; the texts are read by :mod:`stoker.contract.metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stoker.errors import DataError
from stoker.knowledge.datafiles import check_source, read_toml
from stoker.knowledge.structure import structure
from stoker.model.finding import Source

_FILE = "server_metrics.toml"
_KINDS = ("counter", "gauge", "share")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetric:
    """One figure of an engine. ``kind``: of a counter the growth is told, of a gauge the readings,
    of a share the growth of ``names`` divided by that of ``of``, with ``plus`` added."""

    meaning: str
    engine: str
    kind: str
    names: tuple[str, ...]
    source: Source
    of: tuple[str, ...] = ()
    plus: float = 0.0


@cache
def load_server_metrics() -> tuple[ServerMetric, ...]:
    """All rows. Raises DataError."""
    rows = structure(tuple[ServerMetric, ...], read_toml(_FILE).get("metric"), where=_FILE)
    for row in rows:
        where = f"{_FILE}: {row.engine}, {row.meaning}"
        check_source(row.source, where=where)
        if row.kind not in _KINDS or bool(row.of) != (row.kind == "share"):
            raise DataError(f"{where}: the kind is none, or does not fit what it is a share of")
    return rows


def metrics_of(engine: str) -> tuple[ServerMetric, ...]:
    """The rows of one engine; of an unknown one all, since the names tell engines apart."""
    rows = load_server_metrics()
    return tuple(row for row in rows if row.engine == engine) if engine else rows
