"""What a GGUF file tells of a model's shape, by our names."""

from __future__ import annotations

from stoker.probes.model_shape import gguf_shape


def test_recurrent_states_and_rotated_dimensions() -> None:
    told = {
        "general.architecture": "qwen3next",
        "qwen3next.ssm.conv_kernel": 4,
        "qwen3next.ssm.inner_size": 4096,
        "qwen3next.ssm.state_size": 128,
        "qwen3next.rope.dimension_count": 64,
    }
    shape = gguf_shape(told, {})
    assert (shape["ssm_conv_kernel"], shape["ssm_inner_size"]) == (4, 4096)
    assert (shape["ssm_state_size"], shape["rope_dimension_count"]) == (128, 64)
    assert gguf_shape({"general.architecture": "llama"}, {})["ssm_conv_kernel"] is None
