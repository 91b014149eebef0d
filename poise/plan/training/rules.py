"""The rules of *Efficient Parallelization Layouts* as an order of layouts, to compare with a search's result.

Hagemann et al. (arXiv 2311.05610), section 5: a microbatch of one; no recomputation, but model parallelism in its
place; the smallest tensor × pipeline that fits; pipeline before tensor; sequence parallelism always.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from poise.catalogue.devices import device
from poise.core.errors import ScenarioError
from poise.cost.training import Job, Layout, Prediction, predict, shape
from poise.cost.training.columns import FULL, Columns, Floats
from poise.cost.training.figures import figures
from poise.cost.training.step import evaluate, safe_bytes
from poise.plan.training.space import Space, columns_of

RULED = Space(schedule=("one_f_one_b",), zero=(1,), counted=False)
"""What the rules choose from."""


def ruled(job: Job, space: Space = RULED, like: Layout = Layout()) -> Prediction:  # noqa: B008
    """The first layout by the rules that fits; ScenarioError where none does.

    like: whether activations are cut along the sequence, gradients overlap, and the bytes of one.
    """
    cut, _, fits = _fitting(job, space, like)
    return predict(job, cut.layout(min(fits, key=lambda row: order(cut, row)), job))


def fastest(job: Job, space: Space = RULED, like: Layout = Layout()) -> Prediction:  # noqa: B008
    """The fastest layout of what the rules choose from; ScenarioError where none fits."""
    cut, seconds, fits = _fitting(job, space, like)
    return predict(job, cut.layout(min(fits, key=lambda row: seconds[row]), job))


def _fitting(job: Job, space: Space, like: Layout) -> tuple[Columns, Floats, list[int]]:
    """All layouts, their steps, and the rows of those that fit."""
    cut = columns_of(job, space)
    same = np.ones(len(cut), int)
    cut = replace(
        cut, sequence_parallel=like.sequence_parallel * same, overlap=like.overlap * same,
        gradient_bytes=like.gradient_bytes * same,
    )  # fmt: skip
    steps = evaluate(job, cut, figures(job.host))
    fits = np.flatnonzero(steps.memory <= safe_bytes(job))
    if not len(fits):
        raise ScenarioError(f"no layout of {len(cut):,} fits {job.device.name}; allow sharding of weights (zero 3)")
    return cut, steps.seconds, [int(each) for each in fits]


def _again(code: int) -> int:
    """Recomputation in order of what it costs: none, attention's core, some operations, layers whole."""
    return 1 << 16 if code == FULL else code


def order(cut: Columns, row: int) -> tuple[int, ...]:
    """The rules' sort key: least recomputation, then the microbatch, tensor × pipeline, then tensor."""
    model_parallel = int(cut.tensor[row] * cut.pipeline[row])
    return (_again(int(cut.recompute[row])), int(cut.micro_batch[row]), model_parallel, int(cut.tensor[row]))


SHAPES = {13: (40, 5120, 40, 13824), 30: (60, 6656, 52, 17920), 65: (80, 8192, 64, 22016)}
"""Layers, width, heads and feed-forward width of LLaMA by billions of weights."""


def in_table(
    billions: int, tokens: int, devices: int, how: str = "none", *, rule: bool = False, sequence_parallel: bool = False
) -> Prediction:
    """The layout of the rules, or the fastest, of one of the paper's tables; how: none or full recomputation, or any.

    Batch and vocabulary are those by which the runs' own MFU is right.
    """
    layers, hidden, heads, ffn = SHAPES[billions]
    model = shape(layers, hidden, heads, ffn=ffn, vocab=128_000, gated=True, tied=False)
    job = Job(
        model, device("A100"), devices, tokens, 2048 if tokens == 2048 else 512, attention="flash2", fused="norms",
        gathered=True,
    )  # fmt: skip
    few = (1, 2, 4, 8)
    again = ("none", "full") if how == "any" else (how,)
    space = replace(RULED, tensor=few, pipeline=few, micro_batch=few, recompute=again, parts=(1.0,))
    like = Layout(sequence_parallel=sequence_parallel, overlap=False, gradient_bytes=2)
    return (ruled if rule else fastest)(job, space, like)
