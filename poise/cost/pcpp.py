"""PCPP: each device denoises a patch of an image, conditioned on parts of the patches beside it alone.

Zhang, Luo and Lu (arXiv 2412.02962). DistriFusion's patch parallelism attends to the whole image of the step before,
whose keys and values all devices gather while they compute. PCPP receives a part of each neighbour's and attends to
that. The first steps wait for fresh ones. Images are square, their patches stripes; a device in the middle, which has
two neighbours, decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from poise.core.errors import UserError
from poise.core.spec import Device
from poise.cost.collective import Link, all_gather, p2p
from poise.cost.efficiency import Efficiencies
from poise.cost.layout import link_of

KERNELS, PRODUCTS = 8, 10
"""Light kernels of a transformer layer (norms, residuals, activations), and products with weights: those of
self-attention, of attention to the text and of the feed-forward part."""


class Level(NamedTuple):
    """Layers of a network that see the image at one scale: pixels on a side of one token, width, number."""

    side: int
    hidden: int
    layers: int


SDXL = (Level(16, 640, 10), Level(32, 1280, 60))
"""The attention of SDXL's U-Net (arXiv 2307.01952, table 1): 2 layers in each of 5 blocks, and 10 in each of 6."""

CONVOLUTIONS = 61e6 * 2 / 64
"""Operations of SDXL's convolutions for each pixel: 61 million multiplications for each of its latents of 8 × 8."""


@dataclass(frozen=True, slots=True)
class Patches:
    """An image of `side` pixels on `count` devices, with text and without at once (batch 2).

    part: how much of each neighbour's patch is received; 0.5 is chosen here, as the abstract names no part.
    warm: steps of `steps` that wait for fresh activations (DistriFusion's default, and one step before them).
    """

    device: Device
    count: int
    side: int
    part: float = 0.5
    steps: int = 50
    warm: int = 5
    use: Efficiencies = field(default_factory=Efficiencies)

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 <= self.part <= 1 or not 0 <= self.warm <= self.steps:
            raise UserError(
                f"{self.count} devices, part {self.part}, {self.warm} of {self.steps} steps: give 1 device or more, a "
                "part of 0 up to 1, and no more steps that wait than there are"
            )

    @property
    def link(self) -> Link:
        """What joins the devices."""
        return link_of(self.device, self.count, self.use)

    def layer_s(self, level: Level, seen: float) -> float:
        """Seconds of one layer whose queries are a patch and whose keys are `seen` of the image's tokens."""
        use, tokens = self.use, (self.side / level.side) ** 2
        mine = 2 * tokens / self.count
        products = 2 * 18 * level.hidden**2 * mine / (self.device.bf16_flops * use.gemm_bf16)
        attention = 4 * level.hidden * mine * tokens * seen / (self.device.bf16_flops * use.attention_prefill)
        light = KERNELS * (use.light_s + 4 * level.hidden * mine / self.device.memory_bw)
        return products + attention + light + PRODUCTS * use.gemm_s + 2 * use.attention_s

    def compute_s(self, seen: float) -> float:
        """Seconds of a step on one device, convolutions with it."""
        pixels = 2 * self.side**2 / self.count
        convolutions = pixels * CONVOLUTIONS / (self.device.bf16_flops * self.use.gemm_bf16)
        return sum(each.layers * self.layer_s(each, seen) for each in SDXL) + convolutions

    def bytes(self, level: Level) -> float:
        """Of keys and values of a patch in one layer, 16 bits each."""
        return 2 * 2 * 2 * level.hidden * (self.side / level.side) ** 2 / self.count

    def gathered_s(self) -> float:
        """Seconds in which all layers' keys and values reach all devices."""
        if self.count == 1:
            return 0.0
        line = all_gather(self.count, self.link)
        return sum(each.layers * line.at(self.bytes(each) * self.count) for each in SDXL)

    def passed_s(self) -> float:
        """Seconds in which a device sends its parts to two neighbours, one after the other."""
        if self.count == 1:
            return 0.0
        line, neighbours = p2p(self.link), min(2, self.count - 1)
        return sum(each.layers * neighbours * line.at(self.part * self.bytes(each)) for each in SDXL)

    def seen(self) -> float:
        """The part of the image that a device in the middle attends to."""
        return (1 + min(2, self.count - 1) * self.part) / self.count


class Images(NamedTuple):
    """Seconds of an image on one device, by DistriFusion and by PCPP; and the part of its bytes that PCPP sends."""

    alone_s: float
    whole_s: float
    part_s: float
    sent: float


def images(device: Device, count: int, side: int, part: float = 0.5) -> Images:
    """Each way to make an image of `side` × `side` pixels."""
    one, all_of = Patches(device, 1, side), Patches(device, count, side, part)
    whole = _image_s(all_of, all_of.compute_s(1.0), all_of.gathered_s())
    own = _image_s(all_of, all_of.compute_s(all_of.seen()), all_of.passed_s())
    sent = min(2, count - 1) * part / max(count - 1, 1)
    return Images(one.steps * one.compute_s(1.0), whole, own, sent)


def _image_s(patches: Patches, compute: float, sent: float) -> float:
    """Steps that wait, and steps in which sending is hidden as far as computing lasts."""
    return patches.warm * (compute + sent) + (patches.steps - patches.warm) * max(compute, sent)
