"""Weights beside those of the files: tables of positions, and what an engine keeps twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from stoker.capacity.dimensions import read_shape
from stoker.capacity.inputs import Inputs, Ranks
from stoker.capacity.settings import read_settings
from stoker.capacity.weights import copied_bytes, find_target_weights, held_table_bytes, rope_bytes
from stoker.model.facts import Plain
from tests.capacity.configs import GIB, H200, HYBRID, LATENT_16B, LLAMA_8B

MIB = 1 << 20


def _inputs(
    config: Mapping[str, Plain], engine: str = "sglang", flags: Mapping[str, Plain] | None = None
) -> Inputs:
    return Inputs(
        name="copies",
        engine=engine,
        release="0.5.17" if engine == "sglang" else "0.32.0",
        shape=read_shape(config),
        gpus=(H200,),
        settings=read_settings(engine, flags or {}),
    )


@pytest.mark.parametrize(
    ("more", "width"),
    [
        ({}, 256),
        ({"partial_rotary_factor": 0.25}, 64),
        ({"rope_parameters": {"partial_rotary_factor": 0.25}}, 64),
        ({"partial_rotary_factor": 1}, 256),
        ({"partial_rotary_factor": 7.5}, 256),
        ({"partial_rotary_factor": True}, 256),
        ({"partial_rotary_factor": "a quarter"}, 256),
    ],
)
def test_only_the_rotated_part_has_positions(more: Mapping[str, Plain], width: int) -> None:
    inputs = _inputs({**HYBRID, **more})
    assert rope_bytes(inputs, 4) == 262_144 * width * 4


def test_the_weights_of_a_log_with_a_quarter_rotated() -> None:
    found = find_target_weights(_inputs({**HYBRID, "partial_rotary_factor": 0.25}))
    assert found is not None
    assert found.likely / GIB == pytest.approx(11.0, rel=0.002)


def test_a_latent_up_projection_is_kept_twice_by_one_engine() -> None:
    inputs = _inputs(LATENT_16B)
    assert copied_bytes(inputs) == 27 * 16 * 512 * (128 + 128) * 2
    assert copied_bytes(replace(inputs, ranks=Ranks(tensor=4))) == copied_bytes(inputs) / 4
    assert copied_bytes(_inputs(LATENT_16B, "vllm")) == 0
    assert copied_bytes(_inputs(LLAMA_8B)) == 0
    alone = replace(inputs, weight_bytes=29 * GIB)
    known = find_target_weights(alone)
    assert known is not None
    assert known.likely == 29 * GIB + rope_bytes(alone, 4) + copied_bytes(alone)


def test_a_memory_saver_holds_the_first_table() -> None:
    saver: Mapping[str, Plain] = {"enable-memory-saver": True}
    assert held_table_bytes(_inputs(LLAMA_8B)) == 0
    assert held_table_bytes(_inputs(LLAMA_8B, flags=saver)) == 66 * MIB
    assert held_table_bytes(_inputs(LLAMA_8B, flags={**saver, "context-length": 8192})) == 0
    assert held_table_bytes(replace(_inputs(LLAMA_8B, flags=saver), engine="vllm")) == 0
