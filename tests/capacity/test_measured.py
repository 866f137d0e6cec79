"""SGLang 0.5.17 on H200: what its log said, against predictions from GPU, config and flags."""

from __future__ import annotations

import pytest

from stoker.capacity.dimensions import read_shape
from stoker.capacity.inputs import Inputs, Ranks
from stoker.capacity.predict import predict
from stoker.capacity.settings import read_settings
from stoker.model.facts import Plain
from tests.capacity.configs import H200, HYBRID, LATENT_16B, LLAMA_8B

ROWS = [
    (LLAMA_8B, {}, 1, 905_795),
    (LLAMA_8B, {"mem-fraction-static": 0.7}, 1, 674_320),
    (LLAMA_8B, {"mem-fraction-static": 0.25}, 1, 161_196),
    (LLAMA_8B, {"disable-cuda-graph": True}, 1, 913_777),
    (LLAMA_8B, {"kv-cache-dtype": "fp8_e4m3"}, 1, 1_811_591),
    (LLAMA_8B, {}, 2, 1_918_437),
    (LATENT_16B, {}, 1, 3_337_502),
    (HYBRID, {}, 1, 10_540_050),
]


@pytest.mark.parametrize(("config", "flags", "tensor", "logged"), ROWS)
def test_tokens(
    config: dict[str, Plain], flags: dict[str, Plain], tensor: int, logged: int
) -> None:
    found = predict(
        Inputs(
            name="measured",
            engine="sglang",
            release="0.5.17",
            shape=read_shape(config),
            gpus=(H200,) * tensor,
            ranks=Ranks(tensor=tensor),
            settings=read_settings("sglang", flags),
        )
    )
    assert found.kv_tokens is not None
    assert found.kv_tokens.likely == pytest.approx(logged, rel=0.003)
    assert found.kv_tokens.low <= logged <= found.kv_tokens.high


def test_states_bound_the_requests() -> None:
    inputs = Inputs(
        name="hybrid", engine="sglang", release="0.5.17", shape=read_shape(HYBRID), gpus=(H200,)
    )
    found = predict(inputs)
    assert found.state_requests == pytest.approx(603, abs=2)
    parts = {part.part: part.predicted_bytes for part in found.maps[0].parts}
    assert parts["state_pool"] is not None
    assert parts["state_pool"].likely / (1 << 30) == pytest.approx(54.26, abs=0.2)


def test_the_host_cache_of_the_log() -> None:
    flags: dict[str, Plain] = {
        "mem-fraction-static": 0.25,
        "enable-hierarchical-cache": True,
        "hicache-ratio": 2,
    }
    found = predict(
        Inputs(
            name="host",
            engine="sglang",
            release="0.5.17",
            shape=read_shape(LLAMA_8B),
            gpus=(H200,),
            settings=read_settings("sglang", flags),
        )
    )
    assert found.host_cache is not None
    assert found.host_cache.tokens.likely == pytest.approx(322_393, rel=0.002)
    assert found.host_cache.rank_bytes.likely == pytest.approx(42.26e9, rel=0.002)
