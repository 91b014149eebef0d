"""Quantisation files by part: published sizes, exclusions of every spelling, and what a broken file is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from poise.catalogue import device, model
from poise.catalogue.models import models, read_config
from poise.catalogue.quantised import precision_of, published
from poise.core.errors import UserError
from poise.core.precision import PARTS, PLAIN, Store, uniform
from poise.core.spec import Pool

SIZED = [row for row in published() if "gigabytes" in row]
LLAMA = model("llama-3.1-8b")


@pytest.mark.parametrize("row", SIZED, ids=lambda row: row["repository"])
def test_weights_take_the_published_bytes(row: dict[str, Any]) -> None:
    """Within half a percent; MiniMax's files also hold draft modules, which are not part of the model."""
    shape = model(row["model"])
    found = precision_of(row["config"], shape)
    assert found is not None
    taken = Pool(shape, device("B200"), weights=found[0], parts=found[1]).weight_bytes / 1e9
    extra = 0.05 if "MiniMax" in row["repository"] else 0.005
    assert row["gigabytes"] * (1 - extra) <= taken <= row["gigabytes"] * 1.005


def test_published_checkpoints_are_of_built_in_models_and_reach_them() -> None:
    built_in = {each.name: each for each in models()}
    for row in published():
        found = precision_of(row["config"], built_in[row["model"]])
        assert found is not None and found[0] in dict(built_in[row["model"]].checkpoints)


def test_parts_of_published_checkpoints() -> None:
    """What a word means depends on the model."""
    nvfp4 = Store("fp4", 4.5)
    r1 = Pool(model("deepseek-r1"), device("B200"), weights="fp4").precision
    assert (r1.attention, r1.output, r1.experts, r1.head) == (PLAIN, nvfp4, nvfp4, PLAIN)
    kimi = Pool(model("kimi-k2-instruct"), device("H200"), weights="int4").precision
    assert kimi.experts == Store("int4", 4.5) and {kimi.attention, kimi.shared, kimi.dense} == {PLAIN}
    oss = Pool(model("gpt-oss-120b"), device("H100"), weights="fp4").precision
    assert oss.experts == Store("mxfp4", 4.25) and oss.attention == PLAIN
    assert Pool(model("gpt-oss-120b"), device("H100"), weights="mxfp4").precision == oss
    assert Pool(LLAMA, device("H100"), weights="fp8").precision == uniform("fp8")
    assert r1.kv == "fp8" and oss.kv is None


LINEAR = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}


@pytest.mark.parametrize(
    ("stated", "store"),
    [
        ({"quant_method": "fp8"}, Store("fp8", 8)),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, Store("fp8", 8 + 32 / 16384)),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, Store("int4", 4 + 20 / 128)),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, Store("int8", 8)),
        ({"quant_algo": "NVFP4"}, Store("fp4", 4.5)),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": LINEAR}}, Store("fp8", 8)),
    ],
)
def test_all_matrices_of_the_layers_and_no_more(stated: dict[str, Any], store: Store) -> None:
    found = precision_of(stated, LLAMA)
    assert found is not None
    word, parts = found
    assert word == store.format
    for part in ("attention", "output", "dense"):
        assert getattr(parts, part) == pytest.approx(store)
    assert parts.head == parts.embedding == PLAIN


@pytest.mark.parametrize(
    "ignored",
    ["re:.*self_attn.*", "model.layers.*.self_attn*", "model.layers.*.self_attn", "self_attn", "*.self_attn.*"],
)
def test_exclusions_of_every_spelling(ignored: str) -> None:
    for where in ("ignore", "exclude_modules", "modules_to_not_convert"):
        found = precision_of({"quant_method": "fp8", where: [ignored, "lm_head"]}, LLAMA)
        assert found is not None
        assert (found[1].attention, found[1].output) == (PLAIN, PLAIN) and found[1].dense.format == "fp8"


def test_a_part_of_which_some_layers_are_excluded_has_their_mean_bits() -> None:
    found = precision_of({"quant_algo": "NVFP4", "exclude_modules": ["model.layers.0*", "model.layers.1.*"]}, LLAMA)
    assert found is not None  # `layers.0*` is layer 0, and no other begins so
    assert found[1].dense == Store("fp4", pytest.approx((2 * 16 + 30 * 4.5) / 32))


def test_layers_listed_one_by_one() -> None:
    listed = {f"model.layers.{layer}.mlp.experts": {"quant_algo": "NVFP4"} for layer in range(61)}
    stated = {"quant_method": "fp8", "weight_block_size": [128, 128], "quantized_layers": listed}
    found = precision_of(stated, model("deepseek-v3"))
    assert found is not None
    assert (found[0], found[1].experts.format, found[1].shared.format) == ("fp4", "fp4", "fp8")


@pytest.mark.parametrize("stated", [{}, {"quant_method": "bitsandbytes"}, {"quant_method": "fp8", "ignore": ["re:.*"]}])
def test_nothing_is_made_up(stated: dict[str, Any]) -> None:
    assert precision_of(stated, LLAMA) is None


def _file(folder: Path, **more: object) -> Path:
    keys = {
        "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 1000,
        "intermediate_size": 1024, "max_position_embeddings": 4096, **more,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(keys), encoding="utf-8")
    return folder


def test_a_folder_with_a_quantisation_file_beside_its_config(tmp_path: Path) -> None:
    beside = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
    ((form, parts),) = read_config(_file(tmp_path)).checkpoints
    assert (form, parts.dense.format, parts.kv) == ("fp8", "fp8", "fp8")


def test_a_broken_file_is_one_line(tmp_path: Path) -> None:
    folder = _file(tmp_path, quantization_config={"quant_method": "awq", "bits": "four"})
    with pytest.raises(UserError, match=r"config\.json: quantization_config .*cannot be read"):
        read_config(folder)


def test_parts_add_up_to_the_model() -> None:
    for each in models():
        counts = each.part_parameters
        vocabulary = each.vocab * each.hidden * (1 if each.tied else 2)
        assert sum(counts.values()) == each.matrix_parameters + vocabulary
        assert set(counts) == set(PARTS) and min(counts.values()) >= 0
        assert Pool(each, device("H100")).weight_bytes == each.weight_bytes(16)
