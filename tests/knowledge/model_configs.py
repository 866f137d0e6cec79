"""Small configs in the manner of well-known families, written for these tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]

PLAIN: Config = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 40960,
    "vocab_size": 151936,
    "torch_dtype": "bfloat16",
}
LATENT: Config = {
    **PLAIN,
    "architectures": ["DeepseekV32ForCausalLM"],
    "model_type": "deepseek_v32",
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "index_topk": 2048,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "num_nextn_predict_layers": 1,
    "quantization_config": {
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "activation_scheme": "dynamic",
    },
}
GATED_DELTA: Config = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "model_type": "qwen3_5_moe",
    "vision_config": {"depth": 27, "hidden_size": 1152, "num_hidden_layers": 99},
    "text_config": {
        **PLAIN,
        "model_type": "qwen3_5_moe_text",
        "num_hidden_layers": 8,
        "full_attention_interval": 4,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "mtp_num_hidden_layers": 1,
    },
}
MAMBA: Config = {
    **PLAIN,
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "num_hidden_layers": 7,
    "hybrid_override_pattern": "MEM*E-M",
    "mamba_num_heads": 64,
    "ssm_state_size": 128,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "n_shared_experts": 1,
}
WINDOWED: Config = {
    **PLAIN,
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "sliding_window": 128,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
}
DELTA_KIMI: Config = {
    **PLAIN,
    "architectures": ["KimiLinearForCausalLM"],
    "model_type": "kimi_linear",
    "kv_lora_rank": 512,
    "linear_attn_config": {"kda_layers": [1, 2, 3], "full_attn_layers": [4]},
}
LIGHTNING: Config = {
    **PLAIN,
    "architectures": ["MiniMaxM1ForCausalLM"],
    "model_type": "minimax_m1",
    "attn_type_list": [0, 0, 0, 1],
}
PURE_STATE: Config = {
    "architectures": ["Mamba2ForCausalLM"],
    "model_type": "mamba2",
    "num_hidden_layers": 4,
    "hidden_size": 4096,
    "state_size": 128,
    "num_heads": 128,
    "conv_kernel": 4,
    "vocab_size": 32768,
}
GEMMA: Config = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "vision_config": {"hidden_size": 1152},
    "text_config": {**PLAIN, "num_hidden_layers": 6, "sliding_window_pattern": 6}
    | {"sliding_window": 1024},
}
CHUNKED: Config = {
    **PLAIN,
    "architectures": ["Llama4ForConditionalGeneration"],
    "no_rope_layers": [1, 1, 1, 0],
    "attention_chunk_size": 8192,
}
SWITCHED_OFF: Config = {**PLAIN, "sliding_window": 32768, "use_sliding_window": False}
UNHEARD_OF: Config = {
    "architectures": ["ZorkForCausalLM"],
    "model_type": "zork",
    **{key: PLAIN[key] for key in PLAIN if key not in ("architectures", "model_type")},
    "num_zork_experts": 64,
}
SEARCHED: Config = {
    **{key: value for key, value in PLAIN.items() if key != "num_key_value_heads"},
    "block_configs": [
        {"attention": {"n_heads_in_group": 8}},
        {"attention": {"n_heads_in_group": None, "no_op": True}},
    ],
}
