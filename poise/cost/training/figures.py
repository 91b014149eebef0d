"""Training parameters beyond kernel tables: fitted once over measured runs, with meaning, source and date."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from poise.cost.efficiency import stated

SHIPPED = Path(__file__).with_name("figures.json")


@dataclass(frozen=True, slots=True)
class Figures:
    """Factors apply to tables' or datasheets' figures, durations are in seconds, bytes in bytes.

    `figures.json` holds the fitted values; the defaults here are where fitting starts, and apply where no run
    determines a value.
    """

    gemm: float = stated(1.05, "time of products beside that of the same products measured alone", "start")
    gemm_new: float = stated(1.25, "the same on devices with FP8 units, whose clocks fall under load", "start")
    gemm_blackwell: float = stated(1.2, "the same on NVIDIA's devices with FP4 units", "start")
    gemm_amd: float = stated(1.12, "the same on AMD's devices", "start")
    gemm_amd_new: float = stated(1.12, "the same on AMD's devices with FP4 units", "start")
    gemm_tpu: float = stated(1.0, "the same on Google's devices", "start")
    power: float = stated(0.4, "how products slow as watts per peak FLOP fall below their generation's", "start")
    odd: float = stated(2.5, "time of products with a width that is no multiple of 8 beside one that is", "start")
    gemm_fp8: float = stated(1.2, "8-bit products beside those of 16 bits at twice the peak", "start")
    rows: float = stated(1.3, "products with a scale a row beside one scale", "start")
    blocks_32: float = stated(1.1, "products with a scale for 32 values (MXFP8) beside one scale", "start")
    blocks_128: float = stated(1.2, "products with a scale for blocks of 128 beside one scale", "start")
    nvfp4: float = stated(0.65, "products in NVFP4 beside FP8 with one scale", "start")
    casts: float = stated(4.0, "bytes moved per quantised value of a product's input", "start")
    stream: float = stated(0.8, "memory bandwidth reached by norms, activations, additions", "start")
    flash: float = stated(0.6, "BF16 peak reached by flash attention's forward, heads of 128, long sequences", "start")
    flash2_new: float = stated(0.35, "the same of FlashAttention 2 on devices with FP8 units", "start")
    flash_back: float = stated(0.8, "what its backward reaches beside its forward", "start")
    flash_narrow: float = stated(0.9, "what heads of 64 reach beside those of 128", "start")
    flash_short: float = stated(300.0, "keys by which the diagonal and its edges lengthen each row", "start")
    core: float = stated(0.45, "peak reached by the two products of unfused attention", "start")
    scores: float = stated(6.5, "unfused attention's passes over its scores in a forward, dropout's included", "start")
    scores_back: float = stated(1.2, "its backward's passes beside its forward's", "start")
    eager: float = stated(
        2.5, "passes of attention of single operations over its scores beside a fused softmax's", "start"
    )
    forward_s: float = stated(0.3e-3, "host time to launch a layer's forward", "start")
    backward_s: float = stated(0.5e-3, "host time to launch a layer's backward", "start")
    moe_s: float = stated(0.5e-3, "host time to launch a layer's experts in a forward; backward 1.5 times", "start")
    launch_s: float = stated(50e-6, "host time to launch a collective of a layer", "start")
    chunk_s: float = stated(60e-6, "fixed time of a pass of one chunk: its messages are launched and awaited", "start")
    loss: float = stated(12.0, "times that the loss passes over 32-bit logits", "start")
    near: float = stated(1.0, "time of collectives inside a server beside NCCL's alone", "start")
    far: float = stated(0.75, "bandwidth between servers that collectives reach", "start")
    hop: float = stated(0.6, "bandwidth that messages between stages reach", "start")
    far_s: float = stated(25e-6, "latency of a hop between servers", "start")
    gather: float = stated(0.6, "part of a layer's compute behind which FSDP's gathers can hide", "start")
    hidden: float = stated(0.6, "part of the last backward behind which sums of gradients can hide", "start")
    beside: float = stated(0.15, "how much slower compute runs while a collective does", "start")
    update: float = stated(1.2, "time of the optimizer beside its bytes at `stream`", "start")
    step_s: float = stated(20e-3, "fixed time of a step: norms of gradients, scalers, the loader", "start")
    expert: float = stated(1.3, "time of grouped products of experts beside equal products", "start")
    exchange: float = stated(0.6, "bandwidth that experts' all-to-alls reach", "start")
    dispatch: float = stated(6.0, "times that routing and permuting move a token's copies", "start")
    linear: float = stated(0.15, "BF16 peak reached by linear attention and state spaces within chunks", "start")
    context: float = stated(0.4, "part of context-parallel exchange that stays exposed", "start")
    tensor: float = stated(1.0, "part of tensor-parallel collectives that stays exposed", "start")
    tensor_new: float = stated(0.7, "the same of dense models on devices with FP8 units", "start")
    framework: float = stated(1.5e9, "device memory of context, libraries and communicators", "start")
    fragment: float = stated(0.03, "memory lost between blocks, of what is allocated", "start")

    def sources(self) -> dict[str, dict[str, object]]:
        """Each figure with its value, meaning and source."""
        about = _shipped()
        return {
            f.name: {"value": getattr(self, f.name), "what": f.metadata["what"], **about.get(f.name, {})}
            for f in fields(Figures)
        }


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Any]:
    saved: dict[str, Any] = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return saved


@lru_cache(maxsize=4)
def figures(host: str = "") -> Figures:
    """The fitted figures, with those that the software `host` has of its own."""
    saved = _shipped()
    values = dict(saved["figures"])
    values.update(saved["hosts"].get(host, {}))
    return Figures(**values)
