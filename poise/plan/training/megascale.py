"""The changes that MegaScale makes to a step of Megatron-LM, in the order of its ablation.

Jiang et al., "MegaScale: Scaling Large Language Model Training to More Than 10,000 GPUs" (NSDI 2024, arXiv 2402.15627),
sections 3 and 6.1. What a change does to a step follows from its mechanism; nothing is fitted to the table.
"""

from __future__ import annotations

from dataclasses import replace

from poise.cost.training import Job, Layout, Prediction, predict
from poise.cost.training.figures import Figures, figures
from poise.cost.training.flops import model_flops
from poise.cost.training.stages import stages_of

CHANGES = (
    "parallel block", "sliding window", "tensor overlap", "pipeline overlap", "data overlap", "operators", "loader",
    "larger batch",
)  # fmt: skip
"""What is changed, in order."""
WINDOW = 512
"""Tokens of the sliding window; the paper does not give its own."""
PARTS = 4
"""Parts into which a product is cut, so that the collective of one runs beside the product of the next."""
FLASH_1 = 0.5
"""Rate of FlashAttention 1 beside that of FlashAttention 2 (Dao 2023, arXiv 2307.08691)."""
BATCHES = 3
"""Times the batch that LAMB allows."""


def stepped(job: Job, layout: Layout, changes: int) -> Prediction:
    """A step with the first so many of `CHANGES`; MFU counts the attention of the model as given, over all keys.

    job, layout: those of Megatron-LM at the paper's start: FlashAttention 1, activation functions not fused,
    collectives of gradients not overlapped.
    """
    made = frozenset(CHANGES[:changes])
    use = _figures(job, made)
    given = replace(job, fused="all" if "operators" in made else "norms")
    if "larger batch" in made:
        given = replace(given, batch=BATCHES * job.batch)
    if "sliding window" in made:
        given = replace(given, model=replace(job.model, window=WINDOW, window_layers=job.model.layers))
    laid = replace(layout, overlap="data overlap" in made)
    found = predict(given, laid, use)
    return _overlapped(job, given, found, use, "pipeline overlap" in made)


def _figures(job: Job, made: frozenset[str]) -> Figures:
    """The cost model's figures under the changes."""
    use = figures(job.host)
    if "parallel block" in made:  # attention and feed-forward read one norm: one gather and one scatter, not two
        use = replace(use, tensor=use.tensor / 2, tensor_new=use.tensor_new / 2)
    if "tensor overlap" in made:
        use = tensor_overlap(use)
    if "operators" not in made:
        use = replace(use, flash=FLASH_1 * use.flash)
    return replace(use, step_s=0.0) if "loader" in made else use


def tensor_overlap(use: Figures) -> Figures:
    """Figures where a product is cut into `PARTS`: the first has nothing to run beside, the others slow it."""
    left = (1 + (PARTS - 1) * use.beside) / PARTS
    return replace(use, tensor=use.tensor * left, tensor_new=use.tensor_new * left)


def _overlapped(job: Job, given: Job, found: Prediction, use: Figures, hidden: bool) -> Prediction:
    """The step with its messages hidden, where they are, but for the receives while the pipeline fills and drains."""
    seconds = found.seconds
    if hidden and found.layout.pipeline > 1:
        left = (found.layout.pipeline - 1) * stages_of(given, found.layout, use).hop
        seconds -= max(0.0, found.parts["messages"] - left)
    work = given.tokens / (given.devices * seconds * given.peak)
    return replace(
        found, seconds=seconds, mfu=model_flops(job.model, job.sequence) * work,
        tokens_per_device=given.tokens / (given.devices * seconds),
    )  # fmt: skip
