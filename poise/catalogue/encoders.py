"""Encoders of images and audio, read from `vision_config` and `audio_config`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from poise.catalogue.config import Config
from poise.core.encoder import Audio, Vision
from poise.core.errors import UserError

_DATA = Path(__file__).with_name("encoders.json")

_GATED = ("pixtral", "glm5_next_vision", "glm4v", "qwen2_5_vl")
"""Classes of vision towers whose feed-forward blocks have three matrices."""

_TILES = 16
"""Tiles into which Llama 4 cuts an image at most (`max_patches` of its processor)."""


def encoders_of(config: Config, name: str, width: int) -> tuple[Vision | None, Audio | None]:
    """The encoders of a model: those of its own keys, else what is listed of the built-in model `name`.

    width: of the language model.
    """
    listed = _listed().get(name, {})
    vision = config.section("vision_config") or _listed_section(listed, "vision_config", name)
    audio = config.section("audio_config") or _listed_section(listed, "audio_config", name)
    tokens = config.whole("mm_tokens_per_image", default=listed.get("mm_tokens_per_image", 0), least=0)
    try:
        seen = None if vision is None else _vision(vision, width, tokens)
        heard = None if audio is None else _audio(audio, width)
    except UserError:
        return None, None  # a class of its own; only requests with images need it, and they say so
    return seen, heard


def _vision(keys: Config, width: int, tokens: int) -> Vision:
    layers = keys.whole("depth", "num_hidden_layers", "vt_num_hidden_layers")
    shuffle = keys.get("pixel_shuffle_ratio")
    merge = keys.whole("spatial_merge_size", default=round(1 / keys.number("pixel_shuffle_ratio")) if shuffle else 1)
    kernel = keys.get("merge_kernel_size")
    if isinstance(kernel, list) and kernel and isinstance(kernel[0], int):
        merge = kernel[0]
    fixed = tokens or shuffle is not None
    return Vision(
        layers=layers,
        hidden=keys.whole("hidden_size", "vt_hidden_size"),
        ffn=keys.whole("intermediate_size", "vt_intermediate_size"),
        patch=keys.whole("patch_size"),
        width=width,
        matrices=3 if keys.string("model_type") in _GATED else 2,
        merge=merge,
        side=keys.whole("image_size", default=0, least=0) if fixed else 0,
        tokens=tokens,
        most=keys.whole("max_image_tokens", default=0, least=0),
        tiles=_TILES if shuffle is not None else 0,
        windowed=layers - len(whole) if (whole := keys.wholes("fullatt_block_indexes")) else 0,
        window=(keys.whole("window_size", default=0, least=0) // keys.whole("patch_size")) ** 2,
    )


def _audio(keys: Config, width: int) -> Audio:
    """Whisper's convolutions leave 50 positions a second; those models that are read average each two of them."""
    return Audio(
        layers=keys.whole("encoder_layers", "num_hidden_layers"),
        hidden=keys.whole("d_model", "hidden_size"),
        ffn=keys.whole("encoder_ffn_dim", "intermediate_size"),
        width=width,
    )


def _listed_section(listed: dict[str, Any], key: str, name: str) -> Config | None:
    return Config(listed[key], f"{name}: {key}") if key in listed else None


@cache
def _listed() -> dict[str, dict[str, Any]]:
    """Encoders of built-in models, whose list has the keys of their language models only."""
    found: dict[str, dict[str, Any]] = json.loads(_DATA.read_text(encoding="utf-8"))
    return found
