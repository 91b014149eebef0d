"""A `config.json` is read with its family's defaults; what cannot be built is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from poise.core.errors import UserError
from poise.runtime.models.read import read
from tests.runtime.models.configs import CONFIGS


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("llama", {"model_type": "bert"}, "config: model_type is 'bert'; it must be one of llama, mistral"),
        ("llama", {"hidden_size": 0}, "config: hidden_size is 0; a whole number of at least 1 is needed"),
        ("llama", {"num_key_value_heads": 3}, "num_key_value_heads is 3; it must divide the 4 attention heads"),
        ("llama", {"hidden_act": "relu"}, "hidden_act is 'relu'; it must be silu"),
        ("llama", {"head_dim": 9}, "head_dim is 9; rotary embeddings need an even width"),
        ("llama", {"rope_scaling": {"type": "dynamic"}}, "its rope_type must be one of default, linear, llama3, yarn"),
        ("llama", {"quantization_config": {}}, "weights that are trained are not quantized"),
        ("llama", {"attention_dropout": 2}, "a number of at least 0 is needed, at most 1"),
        ("qwen3_moe", {"num_experts_per_tok": 9}, "num_experts_per_tok is 9; there are 8 experts"),
        ("qwen3_moe", {"use_sliding_window": True, "sliding_window": 4}, "windows are not supported with Qwen's"),
        ("deepseek_v2", {"topk_method": "noaux_tc"}, "topk_method is 'noaux_tc'; it must be greedy"),
        ("deepseek_v2", {"topk_group": 5}, "topk_group is 5; there are 4 groups (n_group)"),
        ("gpt2", {"n_head": 5}, "n_head is 5; it must divide the hidden size 32"),
        ("gpt2", {"resid_pdrop": 0.1}, "all dropouts must be equal"),
    ],
)  # fmt: skip
def test_faults_name_key_value_and_rule(name: str, change: dict[str, Any], error: str) -> None:
    with pytest.raises(UserError) as caught:
        read({**CONFIGS[name], **change})
    assert error in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**CONFIGS["llama"], "hidden_size": "wide"}))
    with pytest.raises(UserError, match=r"config\.json: hidden_size is 'wide'"):
        read(file)


def test_defaults_are_those_of_the_family() -> None:
    assert read(CONFIGS["mixtral"]).rope.theta == 1e6
    assert read({**CONFIGS["llama"], "model_type": "mistral"}).windows == (4096, 4096)
    assert read({**CONFIGS["llama"], "rope_parameters": {"rope_theta": 7.0}}).rope.theta == 7.0
    qwen = {**CONFIGS["qwen2"], "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
    assert read(qwen).windows == (None, 8)
    assert read(CONFIGS["qwen3_moe"]).sparse == (False, True)
