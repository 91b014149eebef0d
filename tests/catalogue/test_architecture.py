"""What trainers must state of a model is read from its `config.json`, or is refused where it is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from poise.catalogue import architecture as module
from poise.catalogue.architecture import Router, Scaling, architecture, by_shape
from poise.catalogue.models import config_of, model
from poise.core.errors import UserError
from poise.cost.training import shape

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
    "num_hidden_layers": 2, "vocab_size": 256, "max_position_embeddings": 128,
}  # fmt: skip
GPT2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}


def written(folder: Path, keys: dict[str, Any]) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps(keys))
    return file


def test_keys_that_are_absent_take_the_defaults_of_the_class(tmp_path: Path) -> None:
    found = architecture(written(tmp_path, LLAMA))
    assert (found.rms, found.norm_eps, found.rope_base, found.scaling) == (True, 1e-6, 10_000, None)
    assert (found.activation, found.biases, found.router) == ("silu", "none", None)


@pytest.mark.parametrize("form", ["rope_scaling", "rope_parameters"])
def test_both_forms_of_stretched_positions_are_read(form: str, tmp_path: Path) -> None:
    stretched = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    base = {"rope_theta": 500_000.0}
    keys = {form: {**stretched, **base}} if form == "rope_parameters" else {form: stretched, **base}
    found = architecture(written(tmp_path, {**LLAMA, **keys}))
    assert found.rope_base == 500_000 and found.scaling == Scaling("llama3", 32.0)


def test_gpt2_has_as_many_parameters_as_published(tmp_path: Path) -> None:
    file = written(tmp_path, GPT2)
    assert model(file).parameters == 124_439_808
    found = architecture(file)
    assert (found.rms, found.learned, found.biases, found.norm_eps) == (False, True, "all", 1e-5)


def test_routers_are_those_of_the_reports() -> None:
    """DeepSeek-V3 (arXiv 2412.19437, section 4.2); DeepSeek-V2 (arXiv 2405.04434, section 3.1.2)."""
    assert architecture("deepseek-v3").router == Router(True, True, 8, 4, 2.5, 1e-4)
    v2 = architecture("deepseek-v2").router
    assert v2 is not None and (v2.sigmoid, v2.normalized, v2.groups, v2.group_topk, v2.scale) == (
        False,
        False,
        8,
        3,
        16,
    )
    assert architecture("mixtral-8x7b").router == Router() and architecture("qwen3-30b-a3b").head_norms


def test_a_model_by_shape_is_a_llama_or_a_gpt() -> None:
    assert by_shape(shape(2, 64, 4, gated=True)).kind == "llama"
    assert by_shape(shape(2, 64, 4)).learned


def test_every_entry_of_the_catalogue_is_of_a_built_in_model() -> None:
    for name in module._table():
        assert config_of(name)[1] and architecture(name).norm_eps in (1e-5, 1e-6)


def test_what_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="model_type 'gemma2': its norms and positions are not known, those of deepseek"
    ):
        architecture("gemma-2-9b")
    with pytest.raises(UserError, match="Yi-34B: the base of its positions is not in the catalogue; give its config"):
        architecture("yi-34b")
    with pytest.raises(UserError, match="rope_theta is 'large'; a number is needed"):
        architecture(written(tmp_path, {**LLAMA, "rope_theta": "large"}))
    with pytest.raises(UserError, match="rope_scaling is 8; an object is needed"):
        architecture(written(tmp_path, {**LLAMA, "rope_scaling": 8}))
