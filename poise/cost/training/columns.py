"""Many layouts at once: a column a field, so that a search costs a few numpy operations over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from poise.core.model import Model
from poise.cost.training.job import Job
from poise.cost.training.layout import OPERATIONS, RECOMPUTE, Layout, named_operations, present
from poise.cost.training.schedules import SCHEDULES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


FULL = RECOMPUTE.index("full")
SOME = 4
"""Numbers of recomputation from here on name operations, a bit each."""


def recompute_code(layout: Layout) -> int:
    """The number of a layout's recomputation."""
    if layout.recompute != "operations":
        return RECOMPUTE.index(layout.recompute)
    return _some_of(layout.operations)


def word_code(word: str, model: Model) -> int:
    """The number of a word of recomputation: of operations, those that the model has; of none, nothing is."""
    if word in RECOMPUTE:
        return RECOMPUTE.index(word)
    found = present(named_operations(word), model)
    return _some_of(found) if found else RECOMPUTE.index("none")


def _some_of(operations: Sequence[str]) -> int:
    return SOME + sum(1 << OPERATIONS.index(each) for each in set(operations))


def again(codes: Any, operation: str) -> Any:
    """Whether `operation` is computed again, alone or by `selective`, by numbers of recomputation."""
    named = (codes >= SOME) & ((codes - SOME) >> OPERATIONS.index(operation) & 1 > 0)
    return named | (codes == RECOMPUTE.index("selective")) if operation == "attention" else named


@dataclass(frozen=True, slots=True)
class Columns:
    """Fields of `Layout` as arrays; `recompute` and `schedule` by number; layers of first, last and fullest rank."""

    tensor: Ints
    pipeline: Ints
    data: Ints
    context: Ints
    expert: Ints
    expert_tensor: Ints
    chunks: Ints
    micro_batch: Ints
    sequence_parallel: Ints
    zero: Ints
    reshard: Ints
    recompute: Ints
    schedule: Ints
    offload_optimizer: Ints
    offload_activations: Floats
    gradient_bytes: Ints
    overlap: Ints
    again_layers: Floats
    first: Floats
    last: Floats
    most: Floats

    def __len__(self) -> int:
        return len(self.tensor)

    def take(self, where: Any) -> Columns:
        """The rows that an index or a mask picks."""
        return Columns(**{f.name: getattr(self, f.name)[where] for f in fields(Columns)})

    def layout(self, row: int, job: Job) -> Layout:
        """One row as a layout."""
        pick = {f.name: getattr(self, f.name)[row] for f in fields(Columns)}
        code = int(pick["recompute"])
        named: dict[str, Any] = {"recompute": RECOMPUTE[code] if code < SOME else "operations"}
        if code >= SOME:
            named["operations"] = tuple(each for at, each in enumerate(OPERATIONS) if (code - SOME) >> at & 1)
        counts = ("tensor", "pipeline", "data", "context", "expert", "expert_tensor", "chunks", "micro_batch", "zero")
        return Layout(
            **{name: int(pick[name]) for name in counts},  # type: ignore[arg-type]
            sequence_parallel=bool(pick["sequence_parallel"]),
            reshard=bool(pick["reshard"]),
            recompute_layers=_some(job, pick),
            **named,
            schedule=SCHEDULES[int(pick["schedule"])],
            offload_optimizer=bool(pick["offload_optimizer"]),
            offload_activations=float(pick["offload_activations"]),
            gradient_bytes=int(pick["gradient_bytes"]),
            overlap=bool(pick["overlap"]),
            split=_split(job, pick),
        )


def _some(job: Job, pick: dict[str, Any]) -> int | None:
    """Layers of a stage that are recomputed, where not all are."""
    part = float(pick["again_layers"])
    return None if part >= 1 else round(part * job.model.layers / int(pick["pipeline"] * pick["chunks"]))


def _split(job: Job, pick: dict[str, Any]) -> tuple[int, ...]:
    """Layers of each stage where they are not as even as can be."""
    stages = int(pick["pipeline"] * pick["chunks"])
    even = even_split(job.model.layers, stages)
    ranks = by_rank(even, int(pick["pipeline"]))
    if (ranks[0], ranks[-1]) == (pick["first"], pick["last"]):
        return ()
    return counted_split(job.model.layers, stages)


def even_split(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage, the earlier ones one more where they do not divide."""
    return tuple(layers // stages + (stage < layers % stages) for stage in range(stages))


def counted_split(layers: int, stages: int) -> tuple[int, ...]:
    """The same with embedding and head counted as a layer each (Megatron-LM's `account_for_…_in_pipeline_split`)."""
    if stages < 2:
        return (layers,)
    whole = list(even_split(layers + 2, stages))
    whole[0] -= 1
    whole[-1] -= 1
    return tuple(whole)


def by_rank(split: Sequence[int], ranks: int) -> list[int]:
    """Layers of each rank; stages go round the ranks."""
    found = [0] * ranks
    for stage, layers in enumerate(split):
        found[stage % ranks] += layers
    return found


def columns(job: Job, layouts: Sequence[Layout]) -> Columns:
    """The columns of given layouts."""
    splits = [by_rank(each.split or even_split(job.model.layers, each.stages), each.pipeline) for each in layouts]
    names: tuple[str, ...] = (
        "tensor",
        "pipeline",
        "data",
        "context",
        "expert",
        "expert_tensor",
        "chunks",
        "micro_batch",
    )
    names += ("sequence_parallel", "zero", "reshard", "offload_optimizer", "gradient_bytes", "overlap")
    found: dict[str, Any] = {name: np.array([int(getattr(each, name)) for each in layouts]) for name in names}
    return Columns(
        **found,
        recompute=np.array([recompute_code(each) for each in layouts]),
        schedule=np.array([SCHEDULES.index(each.schedule) for each in layouts]),
        offload_activations=np.array([each.offload_activations for each in layouts]),
        again_layers=np.array([_again(job, each) for each in layouts], dtype=np.float64),
        first=np.array([each[0] for each in splits], dtype=np.float64),
        last=np.array([each[-1] for each in splits], dtype=np.float64),
        most=np.array([max(each) for each in splits], dtype=np.float64),
    )


def _again(job: Job, layout: Layout) -> float:
    """The part of layers that recomputation is for."""
    if layout.recompute_layers is None:
        return 1.0
    return min(1.0, layout.recompute_layers * layout.stages / job.model.layers)
