"""torchtitan's parallelisms and optimizations, composed as its paper does: each adds one to those before.

Liang et al., "TorchTitan: One-stop PyTorch native solution for production ready LLM pre-training" (ICLR 2025,
arXiv 2410.06511): FSDP with compilation and Float8 (1D), tensor ranks with asynchronous collectives (2D), a pipeline
(3D), context ranks (4D). `exports/torchtitan.py` writes such a layout's settings.
"""

from __future__ import annotations

from dataclasses import replace

from poise.cost.training import Job, Layout, Prediction, predict
from poise.cost.training.figures import figures
from poise.plan.training.megascale import tensor_overlap

HOST = "torch"
"""The software whose figures are taken."""


def composed(job: Job, layout: Layout, *, compiled: bool = True, async_tensor: bool = False) -> Prediction:
    """A step under torchtitan: PyTorch's FlashAttention 2, light kernels fused where compiled, logits whole at the
    loss without tensor ranks; with async_tensor collectives of parts of a product run beside the others."""
    use = figures(HOST)
    given = replace(
        job, host=HOST, attention="flash2", fused="all" if compiled else "none", gathered=layout.tensor == 1
    )
    return predict(given, layout, tensor_overlap(use) if async_tensor else use)
