"""Encoders of images and audio: how much they compute, and how many prompt tokens they give."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class Vision:
    """A vision transformer, as `vision_config` states it; widths in elements, sides in pixels and patches.

    matrices: of a feed-forward block, 2 or 3.  patch: side of a patch.  merge: side of the square of patches that
    becomes one token.  side: of the square that each image is scaled to, 0 where it keeps its size.
    tokens: of each image, whatever its size; 0 where patches decide.  most: tokens of an image at most, beyond which it
    is scaled down; 0 for no limit.  tiles: of that side into which an image is cut at most, besides a thumbnail; 0 for
    none.  width: of the language model, which the projector writes.  windowed, window: layers whose patches see only
    the `window` patches around them (Qwen2.5-VL).
    """

    layers: int
    hidden: int
    ffn: int
    patch: int
    width: int
    matrices: int = 2
    merge: int = 1
    side: int = 0
    tokens: int = 0
    most: int = 0
    tiles: int = 0
    windowed: int = 0
    window: int = 0

    @property
    def parameters(self) -> int:
        """Weights of the layers, of the patch embedding and of the projector (two matrices behind the merge)."""
        merged = self.hidden * self.merge**2
        layer = 4 * self.hidden**2 + self.matrices * self.hidden * self.ffn
        return self.layers * layer + 3 * self.patch**2 * self.hidden + merged * (merged + self.width)

    def cuts(self, width: int, height: int) -> int:
        """Squares that are encoded apart: tiles and a thumbnail, or one."""
        tiles = ceil(width / self.side) * ceil(height / self.side) if self.tiles else 1
        return min(tiles, self.tiles) + 1 if tiles > 1 else 1

    def patches(self, width: int, height: int) -> int:
        """Patches of an image of that many pixels."""
        if self.side:
            return self.cuts(width, height) * (self.side // self.patch) ** 2
        unit = self.patch * self.merge
        across, down = max(1, round(width / unit)), max(1, round(height / unit))
        found = across * down
        if self.most and found > self.most:
            found = self.most
        return found * self.merge**2

    def image_tokens(self, width: int, height: int) -> int:
        """Prompt tokens that an image becomes."""
        return self.tokens or ceil(self.patches(width, height) / self.merge**2)

    def products(self, width: int, height: int) -> int:
        """FLOP of an image's products: layers by patch, projector by merged patch."""
        patches = self.patches(width, height)
        merged = self.hidden * self.merge**2
        projector = merged * (merged + self.width)
        return 2 * (patches * (self.parameters - projector) + patches // self.merge**2 * projector)

    def attention(self, width: int, height: int) -> int:
        """FLOP of an image's attention: every patch sees all of its square, or of its window, scores and values."""
        patches = self.patches(width, height)
        whole = patches // self.cuts(width, height)
        seen = (self.layers - self.windowed) * whole + self.windowed * min(self.window, whole)
        return 4 * self.hidden * patches * seen


@dataclass(frozen=True, slots=True)
class Audio:
    """A Whisper-like encoder: `frames_s` positions a second, attention within `chunk_s`, `tokens_s` prompt tokens."""

    layers: int
    hidden: int
    ffn: int
    width: int
    frames_s: float = 50.0
    tokens_s: float = 25.0
    chunk_s: float = 30.0

    @property
    def parameters(self) -> int:
        """Weights of the layers and of the projector."""
        return self.layers * (4 * self.hidden**2 + 2 * self.hidden * self.ffn) + self.hidden * self.width

    def audio_tokens(self, seconds: float) -> int:
        """Prompt tokens that so much audio becomes."""
        return ceil(self.tokens_s * seconds) if seconds > 0 else 0

    def products(self, seconds: float) -> float:
        """FLOP of its products."""
        return 2 * self.parameters * self.frames_s * seconds

    def attention(self, seconds: float) -> float:
        """FLOP of its attention: each position sees those of its chunk."""
        return 4 * self.layers * self.hidden * self.frames_s * seconds * self.frames_s * min(seconds, self.chunk_s)
