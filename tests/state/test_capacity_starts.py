"""What starts found is kept within bounds, and read back only as what Stoker wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.errors import StateError
from stoker.model.capacity_start import (
    CapacityStart,
    CapacityStarts,
    StartConditions,
    StartFigures,
)
from stoker.model.layout import capacity_starts_folder, capacity_starts_path
from stoker.state.capacity_starts import (
    LIMIT_BYTES,
    MOST_DOCUMENTS,
    MOST_STARTS,
    find_key,
    keep_capacity_start,
    read_capacity_starts,
)
from tests.fakes.host import MemoryHost
from tests.laws.worlds import FOLDERS

WANTED = CapacityStarts(engine="sglang", release="0.5.9", model="m@1", gpus=("h200, 143771 MiB",))


def start(share: float = 0.9, at_seconds: float = 1e9) -> CapacityStart:
    return CapacityStart(
        deployment="x",
        at_seconds=at_seconds,
        conditions=StartConditions(loading={"tensor": 1}, work={}, pool={"memory_share": share}),
        figures=StartFigures(missing_bytes=5),
    )


def test_what_is_kept_is_read_by_its_build_model_and_gpu_alone() -> None:
    host = MemoryHost()
    path = keep_capacity_start(host, FOLDERS, WANTED, start())
    assert read_capacity_starts(host, FOLDERS, WANTED).starts == (start(),)
    stat = host.stat(path)
    assert stat is not None
    assert stat.mode == 0o600
    for other in (
        replace(WANTED, release="0.5.10"),
        replace(WANTED, model="m@2"),
        replace(WANTED, gpus=()),
        replace(WANTED, engine="vllm"),
    ):
        assert read_capacity_starts(host, FOLDERS, other) == other


def test_the_newest_of_each_kind_are_kept() -> None:
    host = MemoryHost()
    for number in range(2 * MOST_STARTS):
        kept = read_capacity_starts(host, FOLDERS, WANTED)
        keep_capacity_start(host, FOLDERS, kept, start(share=number / 100))
    kept = read_capacity_starts(host, FOLDERS, WANTED)
    keep_capacity_start(host, FOLDERS, kept, start(share=0.15, at_seconds=2e9))
    found = read_capacity_starts(host, FOLDERS, WANTED).starts
    assert len(found) == MOST_STARTS
    assert found[0].at_seconds == 2e9
    assert [each.conditions.pool["memory_share"] for each in found].count(0.15) == 1


def test_documents_are_bounded_in_number() -> None:
    host = MemoryHost()
    for number in range(MOST_DOCUMENTS + 5):
        wanted = replace(WANTED, model=f"m@{number}")
        keep_capacity_start(host, FOLDERS, wanted, start())
    assert len(host.list_folder(capacity_starts_folder(FOLDERS))) == MOST_DOCUMENTS
    assert read_capacity_starts(host, FOLDERS, wanted).starts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"schema": "capacity-starts/1"}',
        '{"schema": "capacity-starts/9"}',
        '{"schema": "plan/3"}',
        "[" * 100_000,
        '{"schema": "capacity-starts/1", "engine": ' + "9" * 5000 + "}",
        " " * (LIMIT_BYTES + 1),
    ],
)
def test_a_damaged_document_is_an_error_of_the_state(text: str) -> None:
    host = MemoryHost()
    host.put(capacity_starts_path(FOLDERS, find_key(WANTED)), text)
    with pytest.raises(StateError):
        read_capacity_starts(host, FOLDERS, WANTED)


def test_a_document_under_the_name_of_another_is_refused() -> None:
    host = MemoryHost()
    path = keep_capacity_start(host, FOLDERS, replace(WANTED, model="m@2"), start())
    host.put(capacity_starts_path(FOLDERS, find_key(WANTED)), host.read_text(path))
    with pytest.raises(StateError, match="not what Stoker wrote"):
        read_capacity_starts(host, FOLDERS, WANTED)
