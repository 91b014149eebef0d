"""The roofline of single operators: the efficiencies that are typical of measured devices, by kind and format."""

from __future__ import annotations

from typing import Any, NamedTuple

from poise.cost.efficiency import Efficiencies
from poise.cost.operator import OPERATORS, Figures

_STREAM = {"bf16": "bf16", "int8": "int8", "int8_wo": "int8", "int4_wo": "int4", "nvfp4": "fp4"}
_PRODUCT = {"int8": "int8", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4"}


class Typical(NamedTuple):
    """Parts of peak and bandwidth that are reached, and fixed seconds."""

    arithmetic: float
    bandwidth: float
    fixed_s: float


def typical(kind: str, form: str, use: Efficiencies) -> Typical:
    """What operators of a kind reach in a format; KeyError for collectives, whose closed forms are others."""
    if kind == "gemm":
        arithmetic = getattr(use, f"gemm_{_PRODUCT.get(form, 'bf16')}")
        bandwidth = getattr(use, f"stream_{_STREAM.get(form, 'fp8')}")
        return Typical(arithmetic, bandwidth, use.gemm_s if form == "bf16" else use.quantised_gemm_s)
    if kind in ("prefill", "mla_prefill"):
        return Typical(use.attention_prefill, use.stream_bf16, use.attention_s)
    if kind == "decode":
        read = use.attention_decode_bf16 if form == "bf16" else use.attention_decode_fp8
        return Typical(use.attention_prefill, read, use.attention_s)
    if kind == "mla_decode":
        return Typical(use.mla_decode_flops, use.mla_decode, use.attention_s)
    if kind.endswith("_module"):
        return Typical(use.gemm_bf16, use.stream_bf16, 6 * use.gemm_s + use.attention_s + 4 * use.light_s)
    if kind in ("moe", "moe_ep"):
        return Typical(use.moe_gemm, use.moe_stream, use.moe_s)
    if kind == "light":
        return Typical(1.0, use.stream_bf16, use.light_s)
    raise KeyError(kind)


def parts(kind: str, form: str, figures: Figures, at: tuple[Any, ...], use: Efficiencies) -> tuple[Any, Any, float]:
    """Seconds of arithmetic and of bytes, of which the longer counts, and the fixed ones; floats or arrays."""
    reached = typical(kind, form, use)
    compute, moved = OPERATORS[kind].work_seconds(at, form, figures)
    return compute / reached.arithmetic, moved / reached.bandwidth, reached.fixed_s
