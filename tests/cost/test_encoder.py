"""Encoders: what images and audio become, closed forms of their work, and its time on devices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.catalogue.models import models, read_config
from poise.core.encoder import Audio, Vision
from poise.core.errors import ScenarioError
from poise.cost.efficiency import Efficiencies
from poise.cost.encoder import encode_s, expanded
from poise.workload import all_at_once, media

QWEN = model("Qwen/Qwen3-VL-8B-Instruct")
USE = Efficiencies()


@pytest.mark.parametrize(
    ("name", "size", "tokens"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct", (1024, 1024), 1024),  # patches of 16, four to a token
        ("gemma-3-27b-it", (1024, 1024), 256),  # any image is 896 x 896, pooled to 256
        ("gemma-3-27b-it", (200, 100), 256),
        ("Llama-4-Scout-17B-16E-Instruct", (336, 336), 144),  # 24 x 24 patches, shuffled by 2
        ("Llama-4-Scout-17B-16E-Instruct", (672, 672), 5 * 144),  # four tiles and a thumbnail
        ("Mistral-Small-3.1-24B-Instruct-2503", (1540, 1540), 3025),  # 55 x 55, its limit
        ("Mistral-Small-3.1-24B-Instruct-2503", (4000, 4000), 3025),
    ],
)
def test_tokens_of_an_image(name: str, size: tuple[int, int], tokens: int) -> None:
    vision = model(name).vision
    assert vision is not None and vision.image_tokens(*size) == tokens


def test_audio_becomes_25_tokens_a_second() -> None:
    audio = Audio(layers=32, hidden=1280, ffn=5120, width=4096)
    assert (audio.audio_tokens(0), audio.audio_tokens(10), audio.audio_tokens(0.01)) == (0, 250, 1)
    assert audio.attention(60) == 2 * audio.attention(30)  # chunks of 30 s do not see one another


@given(st.integers(1, 4000), st.integers(1, 4000))
def test_work_is_that_of_every_matrix_and_pair(width: int, height: int) -> None:
    vision = Vision(layers=3, hidden=64, ffn=128, patch=16, width=96, merge=2)
    patches = vision.patches(width, height)
    layer = 2 * patches * (4 * 64 * 64 + 2 * 64 * 128)
    projector = 2 * (patches // 4) * (256 * 256 + 256 * 96)
    assert vision.products(width, height) == 3 * layer + 2 * patches * 3 * 16 * 16 * 64 + projector
    assert vision.attention(width, height) == 3 * 4 * 64 * patches**2
    assert vision.image_tokens(width, height) * 4 == patches


def test_larger_images_and_slower_devices_take_longer() -> None:
    vision = QWEN.vision
    assert vision is not None

    def seconds(side: int, on: str) -> float:
        return encode_s(vision, vision.products(side, side), vision.attention(side, side), device(on), USE)

    times = [seconds(side, "H100") for side in (64, 256, 512, 1024, 2048)]
    assert times == sorted(times)
    assert seconds(1024, "L40S") > seconds(1024, "H100") > seconds(1024, "B200")
    read = vision.parameters * 2 / (device("H100").memory_bw * USE.stream_bf16)
    assert seconds(16, "H100") >= read


def test_a_published_encoding_is_within_a_third() -> None:
    """SGLang on H20: 466 to 524 ms for four images by Qwen2.5-VL-72B's tower; 1080p, as its benchmark beside has."""
    tower = Vision(layers=32, hidden=1280, ffn=3456, patch=14, width=8192, matrices=3, merge=2, windowed=28, window=64)
    four = 4 * encode_s(tower, tower.products(1920, 1080), tower.attention(1920, 1080), device("H20"), USE)
    assert 0.466 < four < 1.33 * 0.524


def test_prompts_grow_by_what_they_bring() -> None:
    plain = all_at_once(requests=50, prompt_tokens=100, output_tokens=10)
    rich = media(plain, images=2, size=(1024, 1024), share=0.5, seed=3)
    grown, brought = expanded(rich, QWEN)
    assert brought is not None and rich.images is not None
    assert (grown.prompt - plain.prompt == 1024 * rich.images).all()
    times = np.array(brought.times(QWEN, device("H100")))
    assert ((times > 0) == (rich.images > 0)).all() and 0 < (times > 0).sum() < 50
    assert expanded(plain, QWEN) == (plain, None)


@pytest.mark.parametrize(("given", "what"), [({"images": 1}, "images"), ({"audio_s": 3.0}, "audio")])
def test_a_model_without_an_encoder_is_refused(given: dict[str, float], what: str) -> None:
    base = all_at_once(requests=3, prompt_tokens=100, output_tokens=10)
    with pytest.raises(ScenarioError, match=f"bring {what}, and no encoder of meta-llama"):
        expanded(media(base, **given), model("llama-3.1-8b"))  # type: ignore[arg-type]


def test_encoders_of_a_folder(tmp_path: Path) -> None:
    text = {
        "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 1000,
        "intermediate_size": 1024, "max_position_embeddings": 4096,
    }  # fmt: skip
    vision = {"depth": 4, "hidden_size": 64, "intermediate_size": 128, "patch_size": 14, "spatial_merge_size": 2}
    audio = {"encoder_layers": 32, "d_model": 1280, "encoder_ffn_dim": 5120}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"text_config": text, "vision_config": vision, "audio_config": audio}), encoding="utf-8")
    found = read_config(tmp_path)
    assert found.vision == Vision(layers=4, hidden=64, ffn=128, patch=14, width=512, merge=2)
    assert found.audio == Audio(layers=32, hidden=1280, ffn=5120, width=512)
    file.write_text(json.dumps({"text_config": text, "vision_config": {"kind": "of its own"}}), encoding="utf-8")
    assert read_config(tmp_path).vision is None


def test_some_built_in_models_see() -> None:
    assert sum(each.vision is not None for each in models()) >= 13
