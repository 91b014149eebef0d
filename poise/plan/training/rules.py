"""The rules of *Efficient Parallelization Layouts* as an order of layouts, to compare with a search's result.

Hagemann et al. (arXiv 2311.05610), section 5: a microbatch of one; no recomputation, but model parallelism in its
place; the smallest tensor × pipeline that fits; pipeline before tensor; sequence parallelism always.
"""

from __future__ import annotations

import numpy as np

from poise.core.errors import ScenarioError
from poise.cost.training import Job, Prediction, predict
from poise.cost.training.columns import FULL, Columns
from poise.cost.training.figures import figures
from poise.cost.training.step import evaluate, safe_bytes
from poise.plan.training.space import Space, columns_of


def ruled(job: Job, space: Space | None = None) -> Prediction:
    """The first layout by the rules that fits; ScenarioError where none does."""
    cut = columns_of(job, space or Space(schedule=("one_f_one_b",), zero=(1,), counted=False))
    steps = evaluate(job, cut, figures(job.host))
    fits = np.flatnonzero(steps.memory <= safe_bytes(job))
    if not len(fits):
        raise ScenarioError(f"no layout of {len(cut):,} fits {job.device.name}; allow sharding of weights (zero 3)")
    first = min(fits, key=lambda row: order(cut, int(row)))
    return predict(job, cut.layout(int(first), job))


def _again(code: int) -> int:
    """Recomputation in order of what it costs: none, attention's core, some operations, layers whole."""
    return 1 << 16 if code == FULL else code


def order(cut: Columns, row: int) -> tuple[int, ...]:
    """The rules' sort key: least recomputation, then the microbatch, tensor × pipeline, then tensor."""
    model_parallel = int(cut.tensor[row] * cut.pipeline[row])
    return (_again(int(cut.recompute[row])), int(cut.micro_batch[row]), model_parallel, int(cut.tensor[row]))
