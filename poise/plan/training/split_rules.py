"""Redco: two rules give every matrix of a Transformer the dimension along which devices split it.

Tan et al. (arXiv 2310.16355). In attention and in feed-forward blocks the last matrix is split along its inputs, all
others along their outputs; tables of embeddings are split along the vocabulary, vectors are copied. `cheapest` tries
every other choice of dimensions, `ways` compares the layout with sharded data parallelism and with the best one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import NamedTuple

from poise.core.model import Model
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.cost.training.step import predict

INPUTS, OUTPUTS = 0, 1
"""Dimensions of a matrix that multiplies rows from the right."""


@dataclass(frozen=True)
class Block:
    """Matrices that read the same rows, whose products meet value by value, and one that maps these back.

    width: of the rows read and given.  inner: columns of each of the first matrices (keys may have fewer).
    """

    width: int
    inner: tuple[int, ...]


def blocks(model: Model) -> list[Block]:
    """Attention and the feed-forward block of a layer; latent attention and experts are left out."""
    heads, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    return [Block(model.hidden, (heads, keys, keys)), Block(model.hidden, (model.ffn,) * (2 if model.gated else 1))]


def rule(block: Block) -> tuple[int, ...]:
    """The dimension of each matrix, the last being the one that maps back."""
    return (*(OUTPUTS,) * len(block.inner), INPUTS)


def moved(block: Block, splits: Sequence[int], ranks: int) -> float:
    """Values that a device sends for each row in a forward, from copied rows to copied rows.

    Splitting outputs leaves products split, and inputs leave sums in parts: an all-reduce is 2(p − 1)/p of a product,
    a reduce-scatter or an all-gather half of that. Products meet where the last matrix wants them, split or copied.
    """
    part = (ranks - 1) / ranks
    first, last = splits[:-1], splits[-1]
    total = 0.0
    for columns, split in zip(block.inner, first, strict=True):
        if split == OUTPUTS:
            total += 0.0 if last == INPUTS else part * columns  # gathered for the last
        else:
            total += (1 if last == INPUTS else 2) * part * columns
    return total + (2 if last == INPUTS else 1) * part * block.width


def choices(block: Block) -> Iterator[tuple[int, ...]]:
    """Every choice of dimensions."""
    return product((INPUTS, OUTPUTS), repeat=len(block.inner) + 1)


class Bytes(NamedTuple):
    """Values sent for a row in a layer: by the rules, by the best choice, and by the worst."""

    rules: float
    best: float
    worst: float


def cheapest(model: Model, ranks: int) -> Bytes:
    """A layer of a model over `ranks` devices, by every choice of dimensions."""
    every = [[moved(block, each, ranks) for each in choices(block)] for block in blocks(model)]
    rules = sum(moved(block, rule(block), ranks) for block in blocks(model))
    return Bytes(rules, sum(map(min, every)), sum(map(max, every)))


class Ways(NamedTuple):
    """Seconds of a step: split by the rules over all devices, data parallel with shards (FSDP), and by the best of
    tensor and data degrees; each with its best microbatch.
    """

    rules: float
    fsdp: float
    best: float


def ways(job: Job) -> Ways:
    """Layouts of a job that fit, all layers recomputed; a way that never fits takes for ever."""
    n = job.devices
    degrees = [each for each in range(1, n + 1) if n % each == 0 and job.model.heads % each == 0]
    best = min(_seconds(job, each, zero) for each in degrees for zero in (1, 3))
    return Ways(_seconds(job, n, 1), _seconds(job, 1, 3), best)


def _seconds(job: Job, tensor: int, zero: int) -> float:
    """A step of a tensor degree and sharding with the best microbatch, a power of two."""
    data = job.devices // tensor
    rows = job.batch // data if job.batch % data == 0 else 0
    sizes = [1 << each for each in range(rows.bit_length()) if rows % (1 << each) == 0]
    layouts = [Layout(tensor=tensor, data=data, zero=zero, micro_batch=each, recompute="full") for each in sizes]
    found = [predict(job, each) for each in layouts]
    return min((each.seconds for each in found if each.fits(job)), default=inf)
