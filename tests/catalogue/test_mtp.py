"""Layers for further tokens (MTP): read from `config.json` and counted as published."""

from __future__ import annotations

import pytest

from poise.catalogue.huggingface import from_keys
from poise.catalogue.models import model


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("deepseek-v3", 684.5e9),  # files of the repository, with copies of embedding and head
        ("deepseek-v3.2", 685e9),
        ("glm-4.5", 358e9),
        ("DeepSeek-V4-Pro", 1600e9),
    ],
)
def test_counts_of_checkpoints_hold_the_layers_and_copies_of_embedding_and_head(name: str, published: float) -> None:
    found = model(name)
    whole = found.parameters + found.draft_parameters + 2 * found.vocab * found.hidden
    assert whole == pytest.approx(published, rel=2e-3)


def test_the_module_of_deepseek_v3_has_the_published_weights_of_its_own() -> None:
    """README_WEIGHTS: 11.5 billion unique parameters, without the shared embedding and head."""
    assert model("deepseek-v3").draft_parameters == pytest.approx(11.5e9, rel=0.01)


@pytest.mark.parametrize("key", ["num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"])
def test_each_family_names_them_otherwise(key: str) -> None:
    keys = {
        "model_type": "qwen3",
        "num_hidden_layers": 4,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_attention_heads": 4,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
    }
    plain, drafting = from_keys(keys, "m", "s"), from_keys({**keys, key: 2}, "m", "s")
    assert (plain.draft_layers, plain.draft_parameters, drafting.draft_layers) == (0, 0, 2)
    assert drafting.parameters == plain.parameters
    attention = 2 * 256 * 4 * 128 * 2
    assert drafting.draft_parameters == 2 * (2 * 256 * 256 + attention + 3 * 256 * 512 + 5 * 256)
