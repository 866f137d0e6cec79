"""A capacity for a person: units, groups of GPUs, what was told beside what was predicted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.capacity.host_cache_limits import Limit, list_limits
from stoker.capacity.inputs import Host, HostSettings, Readings, SettingsParts
from stoker.capacity.options import add_options
from stoker.capacity.predict import predict
from stoker.model.capacity import Capacity, MemoryMap, MemoryPart, Option, Span
from stoker.report.capacity_text import ShownCapacity, group_maps, render_capacity
from tests.capacity.configs import GIB
from tests.capacity.test_options import KIMI_ON_EIGHT

WITH_HOST = replace(
    KIMI_ON_EIGHT,
    settings=replace(
        KIMI_ON_EIGHT.settings, parts=SettingsParts(host=HostSettings(is_on=True, ratio=4.0))
    ),
)


def test_eight_gpus_that_are_alike_are_one_map() -> None:
    text = render_capacity(ShownCapacity(capacity=predict(KIMI_ON_EIGHT)))
    assert text.count("keys and values of tokens") == 1
    assert "GPU 0 to 7 (rtx-pro-6000-blackwell), each: 95.59 GiB" in text
    assert "72.30 GiB" in text
    assert "tokens for 1 GB of each GPU" in text
    assert "70,272 bytes" in text


def test_gpus_that_differ_have_maps_of_their_own() -> None:
    maps = [MemoryMap(title=f"GPU {n}", total_bytes=(1 + n % 2) * GIB, rank=n) for n in range(4)]
    titles = [each.title for each in group_maps(maps)]
    assert titles == ["2 GPUs, each", "2 GPUs, each"]
    assert [each.title for each in group_maps(maps[:1])] == ["GPU 0"]


def test_what_was_told_stands_beside() -> None:
    readings = Readings(
        free_before_bytes=94 * GIB,
        weight_bytes=72 * GIB,
        resolved_parts=(("weights", 73 * GIB),),
    )
    inputs = replace(KIMI_ON_EIGHT, readings=readings)
    text = render_capacity(ShownCapacity(capacity=predict(inputs), told_tokens=150_000))
    assert "TOLD" in text
    assert "+1.00 GiB" in text
    assert "150,000 (" in text


def test_host_memory_has_both_units() -> None:
    capacity = predict(WITH_HOST)
    cache = capacity.host_cache
    assert cache is not None
    limits = (
        *list_limits(WITH_HOST, cache),
        Limit(name="group", title="a group", needed_bytes=2 * GIB, allowed_bytes=GIB),
        Limit(name="locked", title="locks", needed_bytes=2 * GIB, allowed_bytes=GIB, is_hard=False),
        Limit(name="x", title="nobody knows", needed_bytes=GIB, allowed_bytes=None),
    )
    text = render_capacity(ShownCapacity(capacity=capacity, limits=limits))
    assert "44.8 GB (41.7 GiB) for each rank, 358.0 GB (333.4 GiB) in all" in text
    assert "62.56 GiB of what is free then remain" in text
    assert "333.4 GiB of 386.0 GiB, 10 GiB kept back: fits" in text
    assert "a group: 2.0 GiB of 1.0 GiB: DOES NOT FIT" in text
    assert "transfers between machines" in text
    assert "nobody knows: not known" in text
    assert "never more context" in text


def test_options_are_numbered_and_host_tokens_stand_apart() -> None:
    capacity = add_options(predict(KIMI_ON_EIGHT), KIMI_ON_EIGHT)
    lines = render_capacity(ShownCapacity(capacity=capacity)).splitlines()
    numbered = [line for line in lines if line.partition(". ")[0].isdigit()]
    assert len(numbered) == len(capacity.options)
    assert numbered[0].startswith("1. keep keys and values in 8 bit")
    assert "+159,215 tokens (+100.0%)" in numbered[0]
    apart = [line for line in numbered if "tokens in host memory, apart" in line]
    assert len(apart) == 2
    assert all("(+" not in line for line in apart)


@pytest.mark.parametrize("context", [None, 262144])
def test_answers_and_what_is_not_known(context: int | None) -> None:
    shown = ShownCapacity(capacity=predict(KIMI_ON_EIGHT), context_tokens=context)
    assert ("does not fit" in render_capacity(shown)) is (context is not None)
    refused = predict(replace(KIMI_ON_EIGHT, gpus=()))
    text = render_capacity(ShownCapacity(capacity=refused, notes=("see this",)))
    assert "not known" in text
    assert "note: there are no GPUs" in text
    assert text.endswith("note: see this\n")


def test_parts_that_nobody_knows() -> None:
    odd = Capacity(
        name="x",
        engine="sglang",
        release="",
        kv_tokens=Span(low=1, likely=1, high=1),
        token_bytes=None,
        context_tokens=None,
        state_requests=7,
        maps=(
            MemoryMap(
                title="GPU 0",
                total_bytes=None,
                rank=0,
                parts=(MemoryPart(part="graphs", title="captured graphs", reason="a start tells"),),
            ),
        ),
        options=(
            Option(id="a", title="a", gain_tokens=None, changes={}, cost="b", needs_restart=False),
        ),
    )
    text = render_capacity(ShownCapacity(capacity=odd))
    assert "release not known" in text
    assert "size not known" in text
    assert "a start tells" in text
    assert "requests whose states fit" in text
    assert "1. a: no more tokens. Cost: b. No restart." in text


def test_a_host_whose_memory_nobody_read() -> None:
    capacity = predict(replace(WITH_HOST, host=Host()))
    assert "how much memory the machine has free is not known" in render_capacity(
        ShownCapacity(capacity=capacity)
    )
