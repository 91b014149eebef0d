"""PO-F (Wan et al., "PipeOffload", ICML 2025, section 4): all chunks live on the host."""

from __future__ import annotations

from fractions import Fraction

from poise.pipeline.costs import Costs
from poise.pipeline.offload import offload
from poise.pipeline.schedule import Schedule
from poise.pipeline.schedules.po_h import BALANCED
from poise.pipeline.wave import wave


def po_f(stages: int, microbatches: int, chunks: int = 2, costs: Costs | None = None) -> Schedule:
    """Peak of a few chunks, whatever p: what is being copied or used; bubble below 3 (p − 1).

    As PO-H, but all chunks that live for at least three round trips are copied: free as long as both copies of a full
    stage take at most its compute time.
    """
    return offload(wave(stages, microbatches, chunks, "po_f"), costs or BALANCED, Fraction(1))
