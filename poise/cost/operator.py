"""Operators by what they must do: the coordinates of a shape, its arithmetic and bytes, and a form in few parameters.

A form is a fixed time plus a smooth maximum of arithmetic and bytes, each at the part of the datasheet's figure that is
reached, and longer where a dimension is narrow: (1 + a/x) is what tiles and idle processors cost. It extrapolates by
physics and carries from one device to another; what it misses is the business of `Grid`. All functions here take plain
floats or numpy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log
from typing import Any, Literal, NamedTuple

from poise.core.spec import Device

SMOOTH = 3.0
"""The exponent p of the smooth maximum (a^p + b^p)^(1/p): 26 % above the larger where both are equal."""


class Figures(NamedTuple):
    """What a device could do at best for one operator: FLOP/s in the format, bytes/s of memory or link."""

    flops: float
    bandwidth: float


class Format(NamedTuple):
    """A format of weights or cache: bytes per value and the datasheet peak that it computes at."""

    size: float
    peak: str


FORMATS: dict[str, Format] = {
    "bf16": Format(2.0, "bf16_flops"),
    "bf16_kv8": Format(1.0, "bf16_flops"),
    "fp8": Format(1.0, "fp8_flops"),
    "fp8_block": Format(1.0, "fp8_flops"),
    "int8": Format(1.0, "int8_ops"),
    "int8_wo": Format(1.0, "bf16_flops"),
    "int4_wo": Format(0.5, "bf16_flops"),
    "mxfp4_wo": Format(0.5, "bf16_flops"),
    "mxfp4_fp8": Format(0.5, "fp8_flops"),
    "nvfp4": Format(0.5, "fp4_flops"),
}
"""Formats as profiles name them; `_wo`: weights only, computed in BF16; block scales are left out of the bytes."""

Wire = Literal["scaleup", "pcie", "staged"]
"""What carries the bytes of a collective: the link of a scale-up domain, PCIe from device to device, or PCIe to the
host's memory and back."""

STAGED_BW = 32e9
"""Bytes per second and direction that count of PCIe where bytes are copied through the host's memory: two devices on
PCIe 5 reach 15 GB/s there and 38 GB/s directly (AISimulate's tables of RTX PRO 6000)."""

TILE = 16
"""The least queries of a sequence that attention kernels compute at once, and the least keys."""

Work = Callable[..., tuple[Any, Any]]


def _gemm(m: Any, n: Any, k: Any, size: float) -> tuple[Any, Any]:
    """(m × k)(k × n): weights, inputs and outputs are moved once."""
    return 2.0 * m * n * k, size * n * k + min(size, 2.0) * m * k + 2.0 * m * n


def _prefill(span: Any, queries: Any, group: Any, width: Any, size: float) -> tuple[Any, Any]:
    """`queries` of all sequences and heads that see `span` keys each in the mean, `group` queries heads a KV head.

    So prompts, chunks after earlier tokens and sliding windows are one: `span` is what a query loops over, `queries`
    what runs side by side. The keys read are at least those of the queries' own tokens.
    """
    return 4.0 * width * queries * span, queries * width * (4.0 + 2.0 * size / group)


def _decode(context: Any, kv_heads: Any, group: Any, width: Any, size: float) -> tuple[Any, Any]:
    """One query a head over `context` tokens of `kv_heads` sequences × KV heads."""
    return 4.0 * width * group * kv_heads * context, 2.0 * size * width * kv_heads * context


def _mla_prefill(new: Any, heads: Any, size: float) -> tuple[Any, Any]:
    """Unabsorbed latent attention (DeepSeek-V2, arXiv 2405.04434, 2.1): scores of 192 values, outputs of 128."""
    return 320.0 * heads * new * (new + 1.0), 2.0 * heads * new * (192.0 + 128.0)


def _mla_decode(context: Any, batch: Any, heads: Any, size: float) -> tuple[Any, Any]:
    """Absorbed latent attention: 576 values of score and 512 of output a head over one latent of 576 values."""
    return 2.0 * 1088.0 * batch * heads * context, size * 576.0 * batch * context


def _moe(load: Any, expert: Any, experts: Any, ranks: Any, skew: Any, size: float) -> tuple[Any, Any]:
    """`experts` of `expert` weights each on the device, with a mean of `load` tokens each; load/(1 + load) have any.

    That is fewer than even and random loads touch, as uneven ones may; what `skew` costs, and tokens meant for the
    other `ranks`, is measured.
    """
    return 2.0 * expert * experts * load, size * expert * experts * (load / (1.0 + load))


def _projections(tokens: Any, heads: Any) -> tuple[Any, Any]:
    """(FLOP, weights) of DeepSeek-V3's latent attention around its kernel: down and up projections, and the output."""
    weights = 7168.0 * 2112.0 + heads * (1536.0 * 192.0 + 512.0 * 256.0 + 128.0 * 7168.0)
    return 2.0 * tokens * weights, weights


def _mla_prefill_module(new: Any, batch: Any, heads: Any, size: float) -> tuple[Any, Any]:
    """All of a layer's latent attention over prompts: projections and kernel."""
    flops, weights = _projections(new * batch, heads)
    attention, moved = _mla_prefill(new, heads * batch, size)
    return flops + attention, size * weights + moved


def _mla_decode_module(context: Any, batch: Any, heads: Any, size: float) -> tuple[Any, Any]:
    """All of a layer's latent attention of decodes: projections and kernel; the cache in 8 bits at least."""
    flops, weights = _projections(batch, heads)
    attention, moved = _mla_decode(context, batch, heads, 1.0)
    return flops + attention, size * weights + moved


def _moe_ep(load: Any, expert: Any, experts: Any, skew: Any, size: float) -> tuple[Any, Any]:
    """`_moe` of a rank that is sent only the tokens of its own experts."""
    return _moe(load, expert, experts, 1.0, skew, size)


def _message(moved: Any, ranks: Any, size: float) -> tuple[Any, Any]:
    """`moved` bytes from one rank to another."""
    return 0.0 * moved, moved + 0.0 * ranks


def _collective(moved: Any, ranks: Any, size: float) -> tuple[Any, Any]:
    """`moved` bytes on every rank: each rank must at least send or receive 1/ranks of them to the others."""
    return 0.0 * moved, moved * (ranks - 1.0) / ranks


def _stream(moved: Any, size: float) -> tuple[Any, Any]:
    """`moved` bytes read or written."""
    return 0.0 * moved, moved


@dataclass(frozen=True, slots=True)
class Operator:
    """One kind of operator.

    axes: its coordinates, each at least 1/1024 and compared by ratio.  steps: spacing of a grid's nodes in octaves.
    work: (coordinates…, bytes per value) to (FLOP, bytes).  rising: whether time may not fall along each axis.
    math, memory: the two coordinates that may be too narrow to reach the peak, and the bandwidth.
    link: bytes cross a link between devices instead of memory.  wire: which one.
    cached: its bytes may never leave the cache, so that the datasheet bounds nothing.
    starts: octaves where axes begin; a grid that begins later is led down to them.
    kernels: about how many run one after another.
    """

    name: str
    axes: tuple[str, ...]
    steps: tuple[float, ...]
    work: Work
    math: tuple[int, int]
    memory: tuple[int, int]
    rising: tuple[bool, ...]
    link: bool = False
    wire: Wire = "scaleup"
    cached: bool = False
    starts: tuple[float, ...] = ()
    kernels: int = 1

    def figures(self, device: Device, form: str) -> Figures:
        """What `device` could do at best; formats without a native path compute in BF16."""
        peak = getattr(device, FORMATS[form].peak) or device.bf16_flops
        return Figures(peak, self.carried(device) if self.link else device.memory_bw)

    def carried(self, device: Device) -> float:
        """Bytes per second one way of the link that this operator crosses, 1 where the device states none."""
        if self.wire == "scaleup":
            return device.scaleup_bw or device.host_bw or 1.0
        return min(device.host_bw or 1.0, STAGED_BW if self.wire == "staged" else inf)

    def least(self, at: tuple[Any, ...], form: str, figures: Figures) -> tuple[Any, Any]:
        """Seconds of arithmetic and of bytes at the datasheet's figures: neither can be undercut."""
        compute, moved = self.work_seconds(at, form, figures)
        return (compute, 0.0 * moved) if self.cached else (compute, moved)

    def work_seconds(self, at: tuple[Any, ...], form: str, figures: Figures) -> tuple[Any, Any]:
        """Seconds of arithmetic and of bytes, all of them moved, at the datasheet's figures."""
        flops, moved = self.work(*at, FORMATS[form].size)
        return flops / figures.flops, moved / figures.bandwidth

    def seconds(self, at: tuple[Any, ...], form: str, figures: Figures, shape: Shape) -> Any:
        """Seconds by the form: t₀ + ((arithmetic/e·narrowness)^p + (bytes/e·narrowness)^p)^(1/p)."""
        compute, moved = self.work_seconds(at, form, figures)
        (i, j), (u, v) = self.math, self.memory
        compute = compute / shape.arithmetic * (1 + shape.math_a / at[i]) * (1 + shape.math_b / at[j])
        moved = moved / shape.bandwidth * (1 + shape.memory_a / at[u]) * (1 + shape.memory_b / at[v])
        return shape.fixed_s + (compute**SMOOTH + moved**SMOOTH) ** (1 / SMOOTH)


class Shape(NamedTuple):
    """The parameters of a form: fixed seconds, parts of peak and bandwidth reached, and four narrow widths."""

    fixed_s: float
    arithmetic: float
    bandwidth: float
    math_a: float = 0.0
    math_b: float = 0.0
    memory_a: float = 0.0
    memory_b: float = 0.0


COLLECTIVES = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
    "dispatch", "combine", "dispatch_normal", "combine_normal",
)  # fmt: skip
"""Operators in which every rank of a group takes part; those of experts in DeepEP's low-latency and normal modes."""


def _sharing_out(name: str, wire: Wire = "scaleup") -> Operator:
    """A collective of several ranks."""
    return Operator(name, ("bytes", "ranks"), (1, 1), _collective, (0, 1), (0, 0), (True, False), True, wire)


OPERATORS: dict[str, Operator] = {
    each.name: each
    for each in (
        Operator("gemm", ("m", "n", "k"), (1, 1.5, 1.5), _gemm, (0, 1), (1, 2), (True,) * 3, starts=(0, 6, 6)),
        Operator(
            "prefill",
            ("span", "queries", "group", "width"),
            (1.5, 2, 2, 1),
            _prefill,
            (0, 1),
            (0, 1),
            (True, True, False, True),
        ),
        Operator(
            "decode", ("context", "kv_heads", "group", "width"), (2, 2, 2, 1), _decode, (0, 1), (0, 1), (True,) * 4
        ),
        Operator("mla_prefill", ("new", "heads"), (1, 1), _mla_prefill, (0, 1), (0, 1), (True,) * 2),
        Operator("mla_decode", ("context", "batch", "heads"), (1.5, 1, 1), _mla_decode, (2, 1), (0, 1), (True,) * 3),
        Operator(
            "moe",
            ("load", "expert", "experts", "ranks", "skew"),
            (2.5, 3, 3, 4, 1),
            _moe,
            (0, 2),
            (0, 2),
            (True, True, True, False, True),
        ),
        Operator(
            "moe_ep",
            ("load", "expert", "experts", "skew"),
            (2, 3, 2, 1),
            _moe_ep,
            (0, 2),
            (0, 2),
            (True,) * 4,
            kernels=5,
        ),
        Operator(
            "mla_prefill_module",
            ("new", "batch", "heads"),
            (1, 1.5, 1),
            _mla_prefill_module,
            (0, 1),
            (0, 2),
            (True,) * 3,
            kernels=15,
        ),
        Operator(
            "mla_decode_module",
            ("context", "batch", "heads"),
            (1.5, 1, 1),
            _mla_decode_module,
            (1, 2),
            (0, 1),
            (True,) * 3,
            kernels=15,
        ),
        Operator("light", ("bytes",), (1,), _stream, (0, 0), (0, 0), (True,), cached=True),
        *map(_sharing_out, COLLECTIVES),
        *(_sharing_out(f"pcie_{name}", "pcie") for name in COLLECTIVES[:4]),
        _sharing_out("staged_all_reduce", "staged"),
        Operator("send_recv", ("bytes", "ranks"), (1, 1), _message, (0, 1), (0, 0), (True, False), link=True),
    )
}
"""All kinds by name."""


def octaves(value: float) -> float:
    """log₂ of a coordinate, at least −10."""
    return log(max(value, 1 / 1024), 2)
