"""DualParal: a long video is a queue of blocks of frames, each at its own noise, that pass a pipeline of layers.

Wang et al. (arXiv 2505.21070). In each pass every block of the queue goes through all layers and loses one step of
noise; a new block enters behind, and the first leaves once it is clean. So devices, which have some layers each, are
idle only while the queue is shorter than the pipeline. A block attends to latents of the blocks before and behind it;
a device keeps those of the block before. Sequence parallelism, its baseline, has all layers on every device, attends to
the whole video, and exchanges heads for frames around attention (DeepSpeed-Ulysses, arXiv 2309.14509).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from poise.core.errors import UserError
from poise.core.spec import Device
from poise.cost.collective import Link, all_to_all, p2p
from poise.cost.efficiency import Efficiencies
from poise.cost.layout import link_of

LIGHT = 8
"""Light kernels of a layer: norms, modulation, rotary embedding, residuals and activation."""


class Film(NamedTuple):
    """A video transformer: layers, width, feed-forward width, tokens of a latent frame.

    The defaults are Wan2.1-1.3B at 480 × 832 pixels: latents of 8 × 8 pixels and 4 frames, tokens of 2 × 2 latents.
    """

    layers: int = 30
    hidden: int = 1536
    inner: int = 8960
    frame_tokens: int = 1560

    @property
    def weights(self) -> float:
        """Of a layer: attention to the video and to the text, and the feed-forward part."""
        return 8.0 * self.hidden**2 + 2.0 * self.hidden * self.inner


@dataclass(frozen=True, slots=True)
class Video:
    """A video on `count` devices, with text and without one after the other, as its guidance needs.

    steps: of noise.  block, around: latents of a block, and of the blocks before and behind it to which it attends.
    """

    device: Device
    count: int
    frames: int
    film: Film = field(default_factory=Film)
    steps: int = 50
    block: int = 8
    around: int = 8
    use: Efficiencies = field(default_factory=Efficiencies)

    def __post_init__(self) -> None:
        if min(self.count, self.frames, self.steps, self.block) < 1 or self.around < 0:
            raise UserError(f"{self}: devices, frames, steps and latents are counted; give 1 or more, around 0 or more")

    @property
    def latents(self) -> int:
        """Latent frames: the first frame alone, then one for each four."""
        return (self.frames - 1) // 4 + 1

    @property
    def blocks(self) -> int:
        """Blocks of the video; the last may be short of latents and counts whole."""
        return -(-self.latents // self.block)

    @property
    def link(self) -> Link:
        """What joins the devices."""
        return link_of(self.device, self.count, self.use)

    def layer_s(self, latents: float, seen: float, devices: int = 1) -> float:
        """Seconds of a layer over so many latents, that attend to `seen` ones, shared out over devices."""
        use, film = self.use, self.film
        mine = latents * film.frame_tokens / devices
        products = 2 * film.weights * mine / (self.device.bf16_flops * use.gemm_bf16)
        pairs = mine * seen * film.frame_tokens
        attention = 4 * film.hidden * pairs / (self.device.bf16_flops * use.attention_prefill)
        light = LIGHT * (use.light_s + 4 * film.hidden * mine / self.device.memory_bw)
        return products + attention + light

    def stage_s(self) -> float:
        """Seconds of one block on one device, which sends it on while it computes the next."""
        seen = min(self.latents, self.block + 2 * self.around)
        compute = self.film.layers / self.count * self.layer_s(self.block, seen)
        sent = 2 * self.film.hidden * self.block * self.film.frame_tokens
        return max(compute, p2p(self.link).at(sent)) if self.count > 1 else compute

    def slots(self) -> int:
        """Stages' times until the last block is clean.

        A pass takes as many as it has blocks, and no fewer than its successor's first block needs to leave the last
        device: that is the first again, or once that is clean the second, one slot later.
        """
        steps, total = self.steps, self.count
        for at in range(self.blocks + steps - 2):
            there = min(at, self.blocks - 1) - max(0, at - steps + 1) + 1
            clean = at >= steps - 1
            total += max(there, self.count + clean) if there > clean else there
        return total

    def queue_s(self) -> float:
        """Seconds of the video by a queue of blocks, both passes of guidance."""
        return 2 * self.slots() * self.stage_s()

    def idle(self) -> float:
        """The part of the devices' time in which they have no block."""
        return 1 - self.blocks * self.steps / self.slots()

    def whole_s(self) -> float:
        """Seconds of the video by sequence parallelism: queries, keys, values and outputs are exchanged."""
        film = self.film
        sent = 4 * 2 * film.hidden * self.latents * film.frame_tokens / self.count
        exchange = all_to_all(self.count, self.link).at(sent) if self.count > 1 else 0.0
        layer = self.layer_s(self.latents, self.latents, self.count) + exchange
        return 2 * self.steps * film.layers * layer


def played(blocks: int, steps: int, devices: int) -> int:
    """The slots of a queue, played block by block: a stage takes one slot, and takes blocks in the order of the queue.

    The reference of `Video.slots`: block b is in passes b to b + steps − 1.
    """
    free, out = [0] * devices, [0] * blocks
    for at in range(blocks + steps - 1):
        for block in range(max(0, at - steps + 1), min(at, blocks - 1) + 1):
            ready = out[block]
            for stage in range(devices):
                ready = free[stage] = max(ready, free[stage]) + 1
            out[block] = ready
    return max(out)


class Videos(NamedTuple):
    """Seconds by a queue of blocks and by sequence parallelism; the idle part of the queue's devices."""

    queue_s: float
    whole_s: float
    idle: float


def videos(device: Device, count: int, frames: int) -> Videos:
    """Each way to make a video of so many frames."""
    video = Video(device, count, frames)
    return Videos(video.queue_s(), video.whole_s(), video.idle())
