"""Small configurations of every family, as `config.json` has them."""

from __future__ import annotations

from typing import Any

_BASE: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": 64,
}  # fmt: skip
_LATENT: dict[str, Any] = {
    **_BASE, "model_type": "deepseek_v2", "num_key_value_heads": 4, "q_lora_rank": None, "kv_lora_rank": 16,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 12, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "n_shared_experts": 2, "moe_intermediate_size": 16, "first_k_dense_replace": 1, "rms_norm_eps": 1e-5,
}  # fmt: skip
_LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
_GPT2: dict[str, Any] = {
    "model_type": "gpt2", "vocab_size": 64, "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64,
    "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
}  # fmt: skip
_QWEN_MOE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": True}

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**_BASE, "model_type": "llama"},
    "llama, tied, biases, llama3": {
        **_BASE, "model_type": "llama", "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True,
        "rope_scaling": _LLAMA3, "rope_theta": 500.0,
    },
    "llama, yarn": {**_BASE, "model_type": "llama", "rope_scaling": _YARN},
    "llama, linear": {**_BASE, "model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "mistral, window": {**_BASE, "model_type": "mistral", "sliding_window": 5, "head_dim": 16},
    "qwen2": {**_BASE, "model_type": "qwen2", "tie_word_embeddings": True},
    "qwen3": {**_BASE, "model_type": "qwen3", "head_dim": 16},
    "qwen2_moe": {**_BASE, "model_type": "qwen2_moe", **_QWEN_MOE, "shared_expert_intermediate_size": 24},
    "qwen3_moe": {**_BASE, "model_type": "qwen3_moe", **_QWEN_MOE, "head_dim": 16, "mlp_only_layers": [0]},
    "mixtral": {**_BASE, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
    "deepseek_v2_lite": {
        **_LATENT,
        "rope_scaling": {**_YARN, "mscale": 0.707, "mscale_all_dim": 0.707, "beta_fast": 32, "beta_slow": 1},
    },
    "deepseek_v2": {
        **_LATENT, "q_lora_rank": 24, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2,
        "routed_scaling_factor": 2.5,
    },
    "gpt2": _GPT2,
}  # fmt: skip
