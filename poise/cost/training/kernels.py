"""Seconds of single kernels of training on one device: products from measured tables, the rest by what is reached."""

from __future__ import annotations

from functools import lru_cache

from poise.core.spec import Device
from poise.cost.tables import SHIPPED, Curve, load_tables
from poise.cost.training.figures import Figures


class Kernels:
    """Products, attention and streams of one device in one precision."""

    def __init__(self, device: Device, precision: str, attention: str, use: Figures) -> None:
        self.device, self.use, self.attention = device, use, attention
        self.narrow = precision != "bf16" and device.fp8_flops > 0
        self.new = device.fp8_flops > 0
        self._slower = slower(device, use)
        self._narrower = narrower(precision, use) * device.bf16_flops / max(device.fp8_flops, 1.0)

    def product(self, m: float, n: float, k: float, *, cast: bool = True) -> float:
        """(m × k)(k × n) in the precision of training; in 8 or 4 bits its inputs are quantised first, by `cast`.

        Engines' own 8-bit products, which the tables hold, quantise within; training's are those of 16 bits at the
        narrower format's peak.
        """
        if not self.narrow:
            return self.wide(m, n, k)
        seconds = self._narrower * self._slower * _gemm(self.device, "bf16", m, n, k)
        return seconds + self.stream(self.use.casts * m * k) if cast else seconds

    def wide(self, m: float, n: float, k: float) -> float:
        """A product that stays in 16 bits: the head's."""
        odd = self.use.odd if m % 8 or n % 8 or k % 8 else 1.0
        return odd * self._slower * _gemm(self.device, "bf16", m, n, k)

    def flash(self, sequences: float, queries: float, keys: float, heads: float, width: float) -> tuple[float, float]:
        """Forward and backward of causal flash attention: 4 and 10 FLOP per value of half the scores (Dao 2023, 3.1).

        FlashAttention 2 keeps its rate on newer devices, whose own matrix units it does not use (Shah 2024, 1), and so
        do AMD's ports of it.
        """
        pairs = sequences * heads * queries * keys / 2
        second = self.new and (self.attention == "flash2" or self.device.vendor == "AMD")
        reached = self.use.flash2_new if second else self.use.flash
        reached *= FLASH_1 if self.attention == "flash1" else 1.0
        back = reached * self.use.flash_back
        short = 1 + self.use.flash_short / keys
        rate = self.device.bf16_flops * (1.0 if width >= 128 else self.use.flash_narrow)
        return 4.0 * width * pairs * short / (rate * reached), 10.0 * width * pairs * short / (rate * back)

    def unfused(self, scores: float, width: float, passes: float) -> float:
        """Attention by two products with its scores in memory between them, nothing masked away."""
        flops = 4.0 * scores * width / (self.device.bf16_flops * self.use.core)
        return flops + passes * self.stream(2.0 * scores)

    def stream(self, moved: float) -> float:
        """`moved` bytes read or written by light kernels."""
        return moved / (self.device.memory_bw * self.use.stream)


FLASH_1 = 0.5
"""What FlashAttention 1 reaches beside 2: 25 to 40 % of the peak of an A100, and 50 to 73 % (Dao 2023, abstract)."""
HOPPER, BLACKWELL = 700 / 989e12, 1000 / 2250e12
CDNA_3, CDNA_4 = 750 / 1307e12, 1400 / 2516e12
"""Watts per FLOP/s of H100, B200, MI300X and MI355X with all of their power."""


def slower(device: Device, use: Figures) -> float:
    """The time of products in a training load beside that of the same products alone, by kind of device.

    A long load of products is bound by power: a part whose limit is lower for the same peak runs at lower clocks.
    """
    if device.vendor == "Google":
        return use.gemm_tpu
    if not device.fp8_flops:
        return use.gemm
    usual, factor = (BLACKWELL, use.gemm_blackwell) if device.fp4_flops else (HOPPER, use.gemm_new)
    if device.vendor == "AMD":
        usual, factor = (CDNA_4, use.gemm_amd_new) if device.fp4_flops else (CDNA_3, use.gemm_amd)
    own = device.tdp_w / device.bf16_flops or usual
    return factor * float((usual / own) ** use.power)


def narrower(precision: str, use: Figures) -> float:
    """The time of narrow products beside 8-bit ones with one scale, by how values are scaled."""
    scales = {
        "fp8_rows": use.rows, "mxfp8": use.blocks_32, "fp8_block": use.blocks_128, "nvfp4": use.nvfp4,
    }  # fmt: skip
    return use.gemm_fp8 * scales.get(precision, 1.0)


@lru_cache(maxsize=16)
def _curve(device: Device, form: str) -> Curve:
    found = load_tables(SHIPPED).curve("gemm", device, form, "vllm")
    assert found is not None, "shipped tables hold products"
    return found


@lru_cache(maxsize=1 << 17)
def _gemm(device: Device, form: str, m: float, n: float, k: float) -> float:
    return _curve(device, form).seconds(m, n, k)
