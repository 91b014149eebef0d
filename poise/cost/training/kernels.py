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
        self.form = "fp8" if precision == "fp8" and device.fp8_flops else "bf16"
        self.new = device.fp8_flops > 0
        self._slower = use.gemm_new if self.new else use.gemm

    def product(self, m: float, n: float, k: float) -> float:
        """(m × k)(k × n) in the precision of training; in 8 bits, inputs are quantised first."""
        if self.form == "bf16":
            return self.wide(m, n, k)
        return self.use.gemm_fp8 * _gemm(self.device, "fp8", m, n, k) + self.stream(self.use.casts * m * k)

    def wide(self, m: float, n: float, k: float) -> float:
        """A product that stays in 16 bits: the head's."""
        odd = self.use.odd if m % 8 or n % 8 or k % 8 else 1.0
        return odd * self._slower * _gemm(self.device, "bf16", m, n, k)

    def flash(self, sequences: float, queries: float, keys: float, heads: float, width: float) -> tuple[float, float]:
        """Forward and backward of causal flash attention: 4 and 10 FLOP per value of half the scores (Dao 2023, 3.1).

        FlashAttention 2 keeps its rate on newer devices, whose own matrix units it does not use (Shah 2024, 1).
        """
        pairs = sequences * heads * queries * keys / 2
        reached = self.use.flash2_new if self.new and self.attention == "flash2" else self.use.flash
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


@lru_cache(maxsize=16)
def _curve(device: Device, form: str) -> Curve:
    found = load_tables(SHIPPED).curve("gemm", device, form, "vllm")
    assert found is not None, "shipped tables hold products"
    return found


@lru_cache(maxsize=1 << 17)
def _gemm(device: Device, form: str, m: float, n: float, k: float) -> float:
    return _curve(device, form).seconds(m, n, k)
