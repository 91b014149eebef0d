"""Formats and engines by their names in operator tables."""

from __future__ import annotations

from typing import Final

from poise.core.spec import Device

WEIGHTS: Final = {"bf16": "bf16", "fp8": "fp8", "int8": "int8", "int4": "int4_wo", "fp4": "nvfp4", "mxfp4": "mxfp4_fp8"}
RAISED: Final = {"fp8": "int8_wo", "int8": "int8_wo", "fp4": "mxfp4_wo", "mxfp4": "mxfp4_wo"}
"""Formats of weights by their names in tables, with and without a native path on the device."""

WIDE_ACTIVATIONS: Final = ("vllm",)
"""Engines that multiply MXFP4 weights with activations of 16 bits where a device has FP4 (vLLM: `SM100_FI_MXFP4_BF16`
unless VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8 is set); others make MXFP8 of them."""

WEIGHT_ONLY: Final = ("int8_wo", "int4_wo", "mxfp4_wo")
"""Formats whose products are computed in 16 bits."""


FRAMEWORKS: Final = {"vllm": "vllm", "sglang": "sglang", "tensorrt": "trtllm", "trt": "trtllm"}
"""Engines by how their names begin, and by their names in tables."""


def framework(engine: str) -> str:
    """The tables' name of an engine in any spelling; itself where they have none."""
    spelt = "".join(letter for letter in engine.lower() if letter.isalnum())
    return next((name for start, name in FRAMEWORKS.items() if spelt.startswith(start)), engine)


def weights_format(device: Device, weights: str, engine: str = "") -> str:
    """The table format of weights: those without a native path are stored so and computed in BF16.

    engine: in the tables' name.
    """
    peaks = {"fp8": device.fp8_flops, "int8": device.int8_ops, "fp4": device.fp4_flops, "mxfp4": device.fp4_flops}
    native = peaks.get(weights, 1.0) and not (weights == "mxfp4" and engine in WIDE_ACTIVATIONS)
    return WEIGHTS[weights] if native else RAISED[weights]
