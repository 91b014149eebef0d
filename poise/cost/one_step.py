"""What one step costs by the roofline, for closed forms that compare steps."""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.roofline import Roofline
from poise.cost.term import Over, Term, Termed


def step_s(
    pool: Pool, *, prompts: int = 0, prompt_tokens: int = 0, decodes: int = 0, context: int = 0,
    terms: Sequence[Term | Over] = (), roofline: Roofline | None = None,
) -> float:  # fmt: skip
    """Seconds of a step of equal whole prompts, and of decodes that each read `context` tokens.

    terms: systems around the roofline, the innermost first.  roofline: None has the default efficiencies.
    """
    estimator = Termed(roofline or Roofline(), tuple(terms)).build(pool)
    piece = estimator.step(StepShape(decodes, (Chunk(prompt_tokens, 0),) * prompts)).at(decodes * context)
    return (piece.base + piece.per_kv * decodes * context) / SECOND
