"""PO-H (Wan et al., "PipeOffload", ICML 2025, section 4): half of the chunks live on the host."""

from __future__ import annotations

from fractions import Fraction

from poise.pipeline.costs import Costs
from poise.pipeline.offload import offload
from poise.pipeline.schedule import Schedule
from poise.pipeline.wave import wave

BALANCED = Costs.of(offload="1.5", reload="1.5")
"""Copies of a full stage both ways take as long as its F, I and W: what can just be copied for free."""


def po_h(stages: int, microbatches: int, chunks: int = 2, costs: Costs | None = None) -> Schedule:
    """Peak about (v + 2) / 8 of the p activations that 1F1B holds, plus what is being copied; bubble below 3 (p − 1).

    Rank r has chunks r, p + r, …; the half of them with the longest lives is copied to the host and back, which removes
    three quarters. Free as long as both copies of a full stage take at most twice its compute time. Copies are placed
    by `costs` (default: as long as the compute time).
    """
    return offload(wave(stages, microbatches, chunks, "po_h"), costs or BALANCED, Fraction(1, 2))
