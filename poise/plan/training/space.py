"""The layouts of a search, as columns: every way to factor the devices, and the settings of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from poise.core.errors import ScenarioError
from poise.cost.training.columns import FULL, Columns, by_rank, counted_split, even_split, word_code
from poise.cost.training.job import Job
from poise.cost.training.layout import BY_OPERATION, RECOMPUTE, Layout, named_operations
from poise.cost.training.schedules import FORMS, LOOP, SCHEDULES, allowed, why_not

SEARCHED = ("none", "selective", BY_OPERATION, "full")
"""Recomputation that is searched by default."""


@dataclass(frozen=True, slots=True)
class Space:
    """What a search may choose from; () leaves a degree free.

    tensor, pipeline, context, expert, expert_tensor, micro_batch, chunks: degrees allowed.  zero: sharding stages;
    zero_pipelined: those of them that may stand with a pipeline.
    recompute: nothing, attention's core (selective), operations (the cheap ones that the model has, or those named as
    in `norm+mla`), or layers whole (full); parts: of which part of each stage's layers, where they are.
    schedule: names of `poise.cost.training.schedules.SCHEDULES`; those that split the backward are timed so.
    counted: also splits that count embedding and head as a layer each.  offload: also optimizer states on the host.
    offload_activations: which part of the activations is kept there.
    tensor_far: whether a tensor group may reach beyond a server.
    check: raises ScenarioError for a layout that must not be found, as `trainer` cannot run it.
    """

    tensor: tuple[int, ...] = ()
    pipeline: tuple[int, ...] = ()
    context: tuple[int, ...] = (1,)
    expert: tuple[int, ...] = ()
    expert_tensor: tuple[int, ...] = (1,)
    micro_batch: tuple[int, ...] = ()
    chunks: tuple[int, ...] = ()
    zero: tuple[int, ...] = (1, 3)
    zero_pipelined: tuple[int, ...] = (0, 1, 2, 3)
    recompute: tuple[str, ...] = SEARCHED
    parts: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    schedule: tuple[str, ...] = ("one_f_one_b", "interleaved", "zb_h1")
    counted: bool = True
    offload: bool = False
    offload_activations: tuple[float, ...] = (0.0,)
    tensor_far: bool = False
    check: Callable[[Job, Layout], None] | None = None
    trainer: str = ""

    def __post_init__(self) -> None:
        for each in self.schedule:
            if each not in FORMS:
                raise ScenarioError(why_not(each))
        for word in self.recompute:
            if word not in RECOMPUTE:
                named_operations(word)
        for zero in self.zero:
            if zero not in (0, 1, 2, 3):
                raise ScenarioError(f"zero {zero!r} is not searched; known: 0, 1, 2, 3")
        for part in self.offload_activations:
            if not 0 <= part <= 1:
                raise ScenarioError(f"offload_activations {part:g} is not a part of the activations; give 0 to 1")


def refused(job: Job, space: Space, layout: Layout) -> str:
    """Why a layout of the space must not be found; empty where it may."""
    if space.check is None:
        return ""
    try:
        space.check(job, layout)
    except ScenarioError as error:
        return str(error)
    return ""


def divisors(number: int) -> list[int]:
    """All divisors, ascending."""
    small = [each for each in range(1, int(number**0.5) + 1) if number % each == 0]
    return [*small, *(number // each for each in reversed(small) if each * each != number)]


def columns_of(job: Job, space: Space) -> Columns:
    """Every layout of the space that can be laid out; ScenarioError where there is none, naming what rules all out."""
    parts = [_of_mesh(job, space, *mesh) for mesh in meshes(job, space)]
    rows = [row for part in parts for row in part]
    if not rows:
        raise ScenarioError(
            f"no layout of {job.devices} devices divides {job.model.name} ({job.model.heads} heads, "
            f"{job.model.layers} layers) and a batch of {job.batch}; allow other degrees, or change batch or devices"
        )
    table = np.array(rows, dtype=np.float64).T
    whole = table[:-5].astype(np.int64)
    names = (
        "tensor", "pipeline", "data", "context", "expert", "expert_tensor", "chunks", "micro_batch",
        "sequence_parallel", "zero", "reshard", "recompute", "schedule", "offload_optimizer", "gradient_bytes",
        "overlap",
    )  # fmt: skip
    found: dict[str, Any] = dict(zip(names, whole, strict=True))
    rest = ("offload_activations", "again_layers", "first", "last", "most")
    return Columns(**found, **dict(zip(rest, table[-5:], strict=True)))


def meshes(job: Job, space: Space) -> Iterator[tuple[int, int, int, int]]:
    """(tensor, context, pipeline, data) whose product is the devices; tensor groups stay in a server unless allowed."""
    model, deep = job.model, job.model.layers
    for tensor in space.tensor or divisors(job.devices):
        if model.heads % tensor or job.devices % tensor or (tensor > job.inside and not space.tensor_far):
            continue
        for context in space.context or divisors(job.devices // tensor):
            if job.devices % (tensor * context) or (context > 1 and job.sequence % (2 * context)):
                continue
            for pipeline in space.pipeline or divisors(job.devices // (tensor * context)):
                rest, left = divmod(job.devices, tensor * context * pipeline)
                if not left and pipeline <= deep and job.batch % rest == 0:
                    yield tensor, context, pipeline, rest


def _of_mesh(
    job: Job, space: Space, tensor: int, context: int, pipeline: int, data: int
) -> Iterator[tuple[float, ...]]:
    """Rows of one mesh."""
    each = job.batch // data
    sizes = [size for size in space.micro_batch or divisors(each) if each % size == 0 and size <= 64]
    experts = list(_experts(job, space, tensor * context * data))
    flash = job.attention.startswith("flash")
    words = [name for name in space.recompute if not (name == "selective" and flash)]
    again = list(dict.fromkeys(word_code(name, job.model) for name in words))
    offloads = list(product((0, 1) if space.offload else (0,), space.offload_activations))
    zeros = [zero for zero in space.zero if pipeline == 1 or zero in space.zero_pipelined]
    for size in sizes:
        shapes = list(_stages(job, space, pipeline, each // size))
        for (chunks, schedule, split), (expert, wide), zero, (off, away) in product(shapes, experts, zeros, offloads):
            ranks = by_rank(split, pipeline)
            for how, part in _recomputed(again, space, job.model.layers / (pipeline * chunks)):
                yield (
                    tensor, pipeline, data, context, expert, wide, chunks, size, 1, zero, 1, how, schedule, off, 4, 1,
                    away, part, ranks[0], ranks[-1], max(ranks),
                )  # fmt: skip


def _recomputed(again: list[int], space: Space, deep: float) -> Iterator[tuple[int, float]]:
    """The ways to recompute layers, and the part of a stage's `deep` layers, in whole layers."""
    for how in again:
        if how != FULL:
            yield how, 1.0
            continue
        counts = {round(part * deep) for part in space.parts}
        yield from ((how, min(1.0, count / deep)) for count in sorted(counts) if count)


def _experts(job: Job, space: Space, group: int) -> Iterator[tuple[int, int]]:
    """Degrees of experts and of tensors inside each, folded over `group` ranks."""
    if job.model.moe is None:
        yield 1, 1
        return
    moe = job.model.moe
    for expert, wide in product(space.expert or divisors(moe.experts), space.expert_tensor):
        if moe.experts % expert == 0 and group % (expert * wide) == 0 and moe.ffn % wide == 0:
            yield expert, wide


def _stages(job: Job, space: Space, pipeline: int, microbatches: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Chunks, the schedule's number and the split of layers."""
    layers = job.model.layers
    if pipeline == 1:
        yield 1, 0, (layers,)
        return
    for name in space.schedule:
        for chunks in _chunks(space, name, layers, pipeline, microbatches):
            stages = pipeline * chunks
            seen = set()
            for split in (even_split(layers, stages), counted_split(layers, stages) if space.counted else ()):
                if split and min(split[1:-1], default=1) > 0 and min(split) >= 0 and split not in seen:
                    seen.add(split)
                    yield chunks, SCHEDULES.index(name), split


def _chunks(space: Space, name: str, layers: int, pipeline: int, microbatches: int) -> list[int]:
    form = FORMS[name]
    if not allowed(name, pipeline, microbatches):
        return []
    if form.place != LOOP:
        return [form.chunks] if form.chunks * pipeline <= layers else []
    if name == "interleaved" and microbatches % pipeline:
        return []
    most = layers // pipeline
    return [
        each
        for each in space.chunks or range(2, most + 1)
        if 2 <= each <= most and (layers % (pipeline * each) == 0 or (layers + 2) % (pipeline * each) == 0)
    ]
