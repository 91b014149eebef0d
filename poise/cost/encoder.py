"""Encoding of images and audio: the prompt tokens that it gives, and the time that it takes on a device.

Products and attention run at the roofline's efficiencies in 16 bits, or as long as the encoder's weights take to read;
each layer launches six kernels. Images of a request are encoded one after another, each alone. Ranks of a tensor group
do not make it faster: SGLang measures 492, 466 and 524 ms for four images under 2, 4 and 8 H20
(github:lm-sys/lm-sys.github.io, 2026-01-12-epd.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from poise.core.encoder import Audio, Vision
from poise.core.errors import ScenarioError
from poise.core.model import Model
from poise.core.spec import Device
from poise.core.units import SECOND
from poise.cost.coefficients import ACTIVATION_BYTES
from poise.cost.efficiency import Efficiencies

if TYPE_CHECKING:
    from poise.workload.table import Workload

LAUNCHES = 6
"""Kernels of an encoder's layer: two norms, attention, its projections, and two products of the feed-forward block."""


def encode_s(encoder: Vision | Audio, products: float, attention: float, device: Device, use: Efficiencies) -> float:
    """Seconds of so many FLOP of an encoder on a device."""
    math = products / (device.bf16_flops * use.gemm_bf16) + attention / (device.bf16_flops * use.attention_prefill)
    read = encoder.parameters * ACTIVATION_BYTES / (device.memory_bw * use.stream_bf16)
    return max(math, read) + encoder.layers * LAUNCHES * use.light_s


@dataclass(frozen=True, slots=True)
class Media:
    """What the requests of a workload bring along, by row.

    tokens: of the prompt that come from it.  images, seconds: how many, and of audio.  size: pixels of each image.
    """

    tokens: NDArray[np.int64]
    images: NDArray[np.int64]
    seconds: NDArray[np.float64]
    size: tuple[int, int]

    def times(self, model: Model, device: Device, use: Efficiencies | None = None) -> list[int]:
        """Picoseconds that each row takes on a device."""
        use = use or Efficiencies()
        found: NDArray[np.float64] = np.zeros(len(self.tokens))
        if model.vision is not None and self.images.any():
            seen = model.vision
            products, attention = seen.products(*self.size), seen.attention(*self.size)
            found += self.images * encode_s(seen, products, attention, device, use)
        if model.audio is not None:
            heard = model.audio
            lengths, of = np.unique(self.seconds, return_inverse=True)
            each = [
                encode_s(heard, heard.products(s), heard.attention(s), device, use) if s else 0.0
                for s in lengths.tolist()
            ]
            found += np.array(each)[of]
        picoseconds: list[int] = np.rint(found * SECOND).astype(np.int64).tolist()
        return picoseconds

    def handed(self, model: Model, bandwidth: float, latency_s: float) -> list[int]:
        """Picoseconds to hand the embeddings of each row over a link."""
        size = self.tokens * model.hidden * ACTIVATION_BYTES
        seconds = np.where(self.tokens > 0, size / bandwidth + latency_s, 0.0)
        picoseconds: list[int] = np.rint(seconds * SECOND).astype(np.int64).tolist()
        return picoseconds


def expanded(workload: Workload, model: Model) -> tuple[Workload, Media | None]:
    """The workload with prompts that hold what images and audio become under `model`, and what is to be encoded.

    None where no request brings any. ScenarioError where the model has no encoder for it.
    """
    rows = len(workload)
    images = np.zeros(rows, np.int64) if workload.images is None else workload.images.astype(np.int64)
    seconds = np.zeros(rows) if workload.audio is None else workload.audio / 1000
    if not images.any() and not seconds.any():
        return workload, None
    tokens: NDArray[np.int64] = np.zeros(rows, np.int64)
    if images.any():
        if model.vision is None:
            raise ScenarioError(_blind(model, "images"))
        tokens += images * model.vision.image_tokens(*workload.image_size)
    if seconds.any():
        if model.audio is None:
            raise ScenarioError(_blind(model, "audio"))
        tokens += np.ceil(seconds * model.audio.tokens_s).astype(np.int64)
    prompt = (workload.prompt + tokens).astype(np.int32)
    return replace(workload, prompt=prompt), Media(tokens, images, seconds, workload.image_size)


def _blind(model: Model, what: str) -> str:
    section = "vision_config" if what == "images" else "audio_config"
    return (
        f"workload.media: requests bring {what}, and no encoder of {model.name} is known; give a model that has one, "
        f"or a config.json with {section}"
    )
