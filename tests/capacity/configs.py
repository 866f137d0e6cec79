"""Configs of public models, in the keys that memory needs."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.capacity.dimensions import read_shape
from stoker.capacity.inputs import Gpu, Shape
from stoker.model.facts import Plain

H200 = Gpu(total_bytes=143771 << 20, key="h200")
PRO_6000 = Gpu(total_bytes=97887 << 20, key="rtx-pro-6000-blackwell")
H100 = Gpu(total_bytes=81559 << 20, key="h100")
GIB = 1 << 30

LLAMA_8B: Mapping[str, Plain] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
LATENT_16B: Mapping[str, Plain] = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "num_hidden_layers": 27,
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "n_routed_experts": 64,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "vocab_size": 102400,
    "max_position_embeddings": 163840,
}
KIMI: Mapping[str, Plain] = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k2",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "n_routed_experts": 384,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "vocab_size": 163840,
    "max_position_embeddings": 262144,
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "num_bits": 4,
        "type": "int",
        "group_size": 32,
    },
}
#: Qwen3-Next, cut to twelve layers.
HYBRID: Mapping[str, Plain] = {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "num_hidden_layers": 12,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "num_experts": 128,
    "num_experts_per_tok": 10,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "intermediate_size": 5120,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
}
SPARSE: Mapping[str, Plain] = {
    **KIMI,
    "architectures": ["GlmMoeDsaForCausalLM"],
    "model_type": "glm_moe_dsa",
    "num_hidden_layers": 78,
    "hidden_size": 6144,
    "index_head_dim": 128,
    "index_n_heads": 32,
    "index_topk": 2048,
    "quantization_config": None,
}


def gemma(*, full: int, sliding: int, name: str = "Gemma4ForConditionalGeneration") -> Shape:
    """Layers of both kinds with heads of their own."""
    kinds = ["full_attention"] * full + ["sliding_attention"] * sliding
    return read_shape(
        {
            "architectures": [name],
            "num_hidden_layers": full + sliding,
            "hidden_size": 2816,
            "intermediate_size": 2112,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "num_global_key_value_heads": 2,
            "global_head_dim": 512,
            "layer_types": kinds,
            "sliding_window": 1024,
            "vocab_size": 262144,
            "max_position_embeddings": 262144,
        }
    )
