"""The tables are whole: every row has a source, every range is one, every release finds a row."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from stoker.knowledge.capacity import (
    find_row,
    load_contexts,
    load_gpu_rows,
    load_llamacpp,
    load_number_types,
    load_sglang,
    load_stored,
    load_vllm,
)
from stoker.knowledge.capacity_drafting import load_drafting
from stoker.knowledge.capacity_flags import load_capacity_flags
from stoker.knowledge.datafiles import check_source
from stoker.knowledge.gpus import load_gpus
from stoker.knowledge.model_dimensions import load_shape_keys
from stoker.knowledge.versions import parse_version_range

TABLES = (
    *load_gpu_rows(),
    *load_contexts(),
    *load_stored(),
    *load_number_types().values(),
    load_sglang(),
    load_vllm(),
    load_llamacpp(),
    load_drafting(),
    load_shape_keys(),
    *load_capacity_flags().values(),
)


def rows_of(value: Any) -> list[Any]:
    """All dataclasses inside of a value that have a source."""
    found = []
    if is_dataclass(value):
        if hasattr(value, "source"):
            found.append(value)
        for field in fields(value):
            found += rows_of(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            found += rows_of(item)
    return found


@pytest.mark.parametrize("table", TABLES, ids=lambda table: type(table).__name__)
def test_every_row_has_a_source_and_a_range(table: Any) -> None:
    rows = rows_of(table)
    assert rows
    for row in rows:
        check_source(row.source, where=type(row).__name__)
        versions = getattr(row, "versions", None)
        assert versions is None or parse_version_range(versions)


@pytest.mark.parametrize(
    "release", ["0.4.3", "0.4.7", "0.5.0", "0.5.9", "0.5.17", "0.6.1", "", "b1"]
)
def test_every_release_has_a_row(release: str) -> None:
    rules, other = load_sglang(), load_vllm()
    pools = rules.pools
    found: list[object] = [
        find_row(rules.share, release),
        find_row(rules.sizes, release),
        find_row(rules.window, release),
        find_row(rules.baseline, release),
        find_row(rules.work, release),
        find_row(pools.state, release),
        find_row(pools.draft, release),
        find_row(pools.sparse, release),
        find_row(other.share, release),
        find_row(other.graphs, release),
        find_row(other.count, release),
        find_row(other.sizes, release),
    ]
    assert None not in found


def test_gpus_are_those_of_the_other_table() -> None:
    known = {row.key for row in load_gpus()}
    own = {row.key for row in load_gpu_rows()}
    assert own - known <= {"mi355x", "mi325x", "mi300x"}  # that table has NVIDIA's alone
    words = [word.lower() for row in load_gpu_rows() for word in row.words]
    assert len(words) == len(set(words))
