"""What a real start told corrects the next prediction, as far as it holds, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.capacity.correction import (
    Corrected,
    correct_capacity,
    correct_inputs,
    describe_conditions,
    find_missing_bytes,
    measure_start,
    tells_something,
)
from stoker.capacity.dimensions import read_shape
from stoker.capacity.inputs import (
    Gpu,
    Inputs,
    Ranks,
    Readings,
    Settings,
    SettingsParts,
    Speculation,
)
from stoker.capacity.predict import predict
from stoker.commands.capacity_inputs import (
    read_readings,
    told_count,
    told_parts,
    told_pool_bytes,
)
from stoker.engines.resolved import read_resolved
from stoker.knowledge.capacity_loading import load_loading
from stoker.knowledge.engines import load_engine_table
from stoker.knowledge.lifetimes import lifetime_kinds, load_lifetimes
from stoker.model.capacity import Span
from stoker.model.capacity_start import CapacityStart, StartFigures
from tests.capacity.configs import GIB, LLAMA_8B

LOG = Path(__file__).parent.parent / "recorded" / "engine_logs"
TOLD = read_resolved(
    (LOG / "sglang-0.5.17-two-h200-by-stoker.log").read_text().splitlines(),
    load_engine_table("sglang"),
)
TOLD_TOKENS = 1_918_437
AT_SECONDS = 1_790_000_000.0


def inputs(*, tensor: int = 2, free_gib: float = 139.0, **settings: Any) -> Inputs:
    gpu = Gpu(total_bytes=143771 << 20, free_bytes=int(free_gib * GIB), key="h200")
    return Inputs(
        name="x",
        engine="sglang",
        release="0.5.17",
        shape=read_shape(LLAMA_8B),
        gpus=(gpu,) * tensor,
        ranks=Ranks(tensor=tensor),
        settings=Settings(**{"memory_share": 0.902, **settings}),
    )


def measured(of: Inputs) -> StartFigures:
    return measure_start(
        of,
        read_readings(TOLD, parts=told_parts(TOLD)),
        pool_bytes=told_pool_bytes(TOLD),
        tokens=told_count(TOLD, "kv_tokens"),
    )


def start(of: Inputs, *, driver: str = "580", **figures: Any) -> CapacityStart:
    return CapacityStart(
        deployment="llama",
        at_seconds=AT_SECONDS,
        conditions=describe_conditions(of, driver=driver),
        figures=replace(measured(of), **figures),
    )


def correct(of: Inputs, *starts: CapacityStart, driver: str = "580") -> Corrected:
    return correct_inputs(of, describe_conditions(of, driver=driver), starts)


def tokens(of: Inputs) -> Span:
    found = predict(of).kv_tokens
    assert found is not None
    return found


def width(span: Span) -> float:
    return span.high - span.low


def test_the_next_start_is_predicted_as_the_last_one_was() -> None:
    fresh = inputs()
    corrected = correct(fresh, start(fresh))
    assert corrected.by is not None
    assert corrected.by.told_tokens == TOLD_TOKENS
    assert corrected.by.carried[:3] == ("free memory", "weights", "pool")
    now, before = tokens(corrected.inputs), tokens(fresh)
    assert abs(now.likely / TOLD_TOKENS - 1) < 0.0005
    assert abs(before.likely / TOLD_TOKENS - 1) > 0.003
    assert now.low <= TOLD_TOKENS <= now.high
    assert width(now) < width(before) / 2


def test_a_correction_in_bytes_holds_for_another_share() -> None:
    """Less share is less by as many bytes as that part of the GPU has."""
    fresh, other = inputs(), inputs(memory_share=0.7)
    corrected = correct(other, start(fresh))
    assert corrected.by is not None
    assert corrected.by.told_tokens is None
    before = told_count(TOLD, "free_before_weights_bytes")
    assert before is not None
    expected = TOLD_TOKENS - 0.202 * before / 65_536
    assert abs(tokens(corrected.inputs).likely / expected - 1) < 0.001


def test_other_ranks_have_other_figures() -> None:
    corrected = correct(inputs(tensor=4), start(inputs()))
    assert corrected.by is None
    assert corrected.inputs == inputs(tensor=4)
    assert "other ranks" in corrected.doubts[0]


def test_of_other_work_only_what_was_loaded_holds() -> None:
    drafting = SettingsParts(speculation=Speculation(kind="ngram", tokens=4))
    corrected = correct(inputs(parts=drafting), start(inputs()))
    assert corrected.by is not None
    assert corrected.by.carried == ("free memory", "weights")
    assert corrected.inputs.readings.missing_bytes is None


def test_another_driver_takes_another_part_of_the_gpu() -> None:
    fresh = inputs()
    corrected = correct(fresh, start(fresh), driver="590")
    assert corrected.by is not None
    assert corrected.inputs.readings.free_before_bytes is None
    assert corrected.inputs.readings.weight_bytes is not None


def test_what_other_programs_took_since_is_taken_off() -> None:
    busy = inputs(free_gib=129.0)
    corrected = correct(busy, start(inputs()))
    told = told_count(TOLD, "free_before_weights_bytes")
    assert told is not None
    assert corrected.inputs.readings.free_before_bytes == told - 10 * GIB
    # Two looks at one GPU differ by a little, which is nobody's.
    alike = correct(inputs(free_gib=138.9), start(inputs()))
    assert alike.inputs.readings.free_before_bytes == told


def test_the_likest_start_counts_and_then_the_newest() -> None:
    fresh = inputs()
    other = start(inputs(memory_share=0.7), told_tokens=1)
    older = replace(start(fresh), at_seconds=AT_SECONDS - 9, deployment="older")
    corrected = correct(fresh, other, older, start(fresh))
    assert corrected.by is not None
    assert (corrected.by.deployment, corrected.by.told_tokens) == ("llama", TOLD_TOKENS)


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ({"free_before_bytes": 10**30}, "more bytes than a GPU"),
        ({"weight_bytes": -1}, "fewer than none"),
        ({"free_after_bytes": 149 << 30 << 20}, "more bytes than a GPU"),
        ({"free_before_bytes": 1, "free_after_bytes": 2}, "more was free after"),
        ({"missing_bytes": 120 * GIB}, "a quarter of the GPU"),
        ({"missing_bytes": -120 * GIB}, "a quarter of the GPU"),
        ({"told_tokens": -5}, "fewer tokens than none"),
        ({"parts": {"graphs": -1}}, "fewer than none"),
    ],
)
def test_figures_that_cannot_be_correct_nothing(figures: Mapping[str, Any], told: str) -> None:
    fresh = inputs()
    corrected = correct(fresh, start(fresh, **figures))
    assert corrected.inputs == fresh
    assert told in corrected.doubts[0]
    assert correct_capacity(predict(fresh), corrected).corrected_by is None


@pytest.mark.parametrize("at_seconds", [-1.0, 1e300, 0.0])
def test_a_time_that_is_none(at_seconds: float) -> None:
    fresh = inputs()
    corrected = correct(fresh, replace(start(fresh), at_seconds=at_seconds))
    assert "its time is none" in corrected.doubts[0]


def test_a_correction_never_turns_a_fit_into_none() -> None:
    fresh = inputs()
    corrected = correct(
        fresh, start(fresh, free_before_bytes=GIB, free_after_bytes=0, weight_bytes=GIB)
    )
    assert corrected.inputs == fresh
    assert "nothing would fit" in corrected.doubts[0]


BYTES = st.none() | st.integers(-(2**70), 2**70) | st.integers(0, 140 * GIB)


@given(
    figures=st.builds(
        StartFigures,
        free_before_bytes=BYTES,
        free_after_bytes=BYTES,
        weight_bytes=BYTES,
        gpu_free_bytes=BYTES,
        missing_bytes=BYTES,
        told_tokens=BYTES,
        parts=st.dictionaries(st.sampled_from(["graphs", "workspace", "kv_pool"]), st.integers()),
    ),
    at_seconds=st.floats(allow_nan=False, allow_infinity=False),
)
def test_whatever_somebody_wrote_there_is_an_answer(
    figures: StartFigures, at_seconds: float
) -> None:
    fresh = inputs()
    kept = replace(start(fresh), figures=figures, at_seconds=at_seconds)
    corrected = correct(fresh, kept)
    capacity = correct_capacity(predict(corrected.inputs), corrected)
    assert capacity.kv_tokens is not None
    assert (capacity.corrected_by is None) or not corrected.doubts


def test_measured_parts_stand_in_the_map() -> None:
    fresh = inputs()
    corrected = correct(fresh, start(fresh, parts={"graphs": 3 * GIB}))
    capacity = correct_capacity(predict(corrected.inputs), corrected)
    before = predict(corrected.inputs)
    sizes, old = (
        {part.part: part.predicted_bytes for part in each.maps[0].parts}
        for each in (capacity, before)
    )
    graphs, usual = sizes["graphs"], old["graphs"]
    unused, usually_unused = sizes["unused"], old["unused"]
    assert graphs is not None
    assert usual is not None
    assert unused is not None
    assert usually_unused is not None
    assert graphs.likely == 3 * GIB
    moved = usually_unused.likely - unused.likely
    assert moved == pytest.approx(graphs.likely - usual.likely)


def test_a_start_that_told_nothing() -> None:
    figures = measure_start(inputs(), Readings(), pool_bytes=None, tokens=None)
    assert not tells_something(figures)
    assert tells_something(measured(inputs()))


def test_nothing_is_missing_where_nothing_was_predicted() -> None:
    assert find_missing_bytes(predict(replace(inputs(), gpus=())), GIB) is None


@pytest.mark.parametrize("kind", sorted(load_loading()))
def test_flags_that_change_what_is_loaded_are_flags(kind: str) -> None:
    lifetimes = load_lifetimes(kind) if kind in lifetime_kinds() else None
    catalogue = load_engine_table(kind).catalogue
    for name in load_loading()[kind].flags:
        found = lifetimes.find(name) if lifetimes else catalogue.find(f"--{name}")
        assert found is not None, name
