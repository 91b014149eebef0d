"""The stages of this rank: of the built-in decoder, or of a model built from a config.json."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import nn

from poise.runtime.choices import BYTES
from poise.runtime.decoder import Head, decoder, segments_of
from poise.runtime.job import Job
from poise.runtime.models import build
from poise.runtime.models.cut import Cut, Tie, cut
from poise.runtime.models.part import Part, materialise, share
from poise.runtime.tensor import TensorPeers

_TYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Stages:
    """What this rank trains."""

    parts: dict[int, Part]
    ties: list[Tie]
    output: nn.Linear | None = None
    """Its shard of the output layer, where the schedule has vocabulary passes."""


def stages_of(job: Job, rank: int, device: torch.device, beside: TensorPeers | None) -> Stages:
    """Those of a rank of the pipeline, on their device."""
    own = [stage for stage, homes in enumerate(job.schedule.homes) if rank in homes]
    made, output = _built_in(job, rank, beside) if job.shape is None else (_built(job, own, device, beside), None)
    parts = {stage: made.parts[stage] for stage in own}
    for part in parts.values():
        part.to(device)
        part.recompute, part.precision = job.recompute, _TYPES[job.precision]
        if job.compiled:
            part.compile_segments()
    return Stages(parts, made.ties, None if output is None else output.to(device))


def named(part: Part, beside: TensorPeers | None) -> dict[str, nn.Parameter]:
    """A stage's weights by their names in the whole model; a part of one that processes share says which."""
    found = {}
    for local, weight in part.named_parameters():
        cut_ = getattr(weight, "is_part", False) and beside is not None
        found[part.names[local] + (f"@{beside.part}-of-{beside.parts}" if cut_ and beside else "")] = weight
    return found


def named_shard(output: nn.Linear, rank: int, ranks: int) -> dict[str, nn.Parameter]:
    """The rows of the output layer that a rank has."""
    return {f"head.out.weight@{rank}-of-{ranks}": weight for weight in output.parameters()}


def _built(job: Job, own: Iterable[int], device: torch.device, beside: TensorPeers | None) -> Cut:
    """Only the rank's own stages get memory."""
    assert job.shape is not None
    with torch.device("meta"):
        model = build(job.shape)
    made = cut(model, job.schedule.stages, job.size.length)
    for stage in own:
        if beside is not None:
            share(made.parts[stage], beside)
        materialise(made.parts[stage], seed=job.seed, std=model.std, device=device)
    return made


def _built_in(job: Job, rank: int, beside: TensorPeers | None) -> tuple[Cut, nn.Linear | None]:
    """In stages of equally many layers."""
    modules, output = decoder(replace(job.size, vocabulary=BYTES), seed=job.seed, beside=beside), None
    if job.schedule.barriers:
        head = modules[-1]
        assert isinstance(head, Head)
        rows = BYTES // len(job.schedule.ranks)
        output = nn.Linear(job.size.hidden, rows, bias=False)
        output.weight.data.copy_(head.out.weight.data[rank * rows : (rank + 1) * rows])
        head.out = nn.Identity()  # type: ignore[assignment]
    costs = [0.0, *[1.0] * (len(modules) - 2), 0.0]
    return cut(segments_of(modules), job.schedule.stages, job.size.length, costs), output
