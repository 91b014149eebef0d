"""How a job is laid over devices, and the checks that a layout can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from poise.core.errors import ScenarioError
from poise.core.model import Model
from poise.cost.training.job import Job
from poise.cost.training.schedules import COUNTS, FORMS, LOOP, allowed, why_not

Recompute = Literal["none", "selective", "full", "operations"]

RECOMPUTE = ("none", "selective", "full")
"""Recomputation of nothing, of attention's core and of whole layers, in the order of a column's numbers."""
OPERATIONS = ("attention", "norm", "activation", "mla", "experts", "shared", "products")
"""Operations that may be computed again alone: attention's core, norms, activation functions, the up-projections of
latent attention, the routed experts with their exchange, the shared ones (Megatron-LM's `--recompute-modules`), every
second matrix product (torchtitan's selective recomputation by operation)."""
CHEAP = ("norm", "activation", "mla")
"""Those that cost little time for the memory that they free (DeepSeek-V3, arXiv 2412.19437, 3.2.3)."""
ALTERNATE = ("norm", "activation", "products")
"""What torchtitan's selective recomputation by operation runs again."""
BY_OPERATION = "operations"
"""The word for recomputation of `CHEAP`, or of what a trainer has in its place."""


def named_operations(word: str) -> tuple[str, ...]:
    """The operations of a word such as `norm+mla`, or of `operations`; ScenarioError for any that is not known."""
    if word == BY_OPERATION:
        return CHEAP
    found = tuple(word.split("+"))
    for each in found:
        if each not in OPERATIONS:
            raise ScenarioError(
                f"recompute {word!r} is not known; give {', '.join((*RECOMPUTE, BY_OPERATION))}, or operations joined "
                f"by +, of {', '.join(OPERATIONS)}"
            )
    return found


def present(operations: Sequence[str], model: Model) -> tuple[str, ...]:
    """Those of the operations that the model has."""
    shared = model.moe is not None and model.moe.shared > 0
    lacks = {"mla": model.mla is None, "experts": model.moe is None, "shared": not shared}
    return tuple(each for each in operations if not lacks.get(each, False))


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees of parallelism and what is kept, recomputed or moved.

    tensor, context, data: ranks of attention's mesh; pipeline: ranks of the pipeline, each with `chunks` stages.
    sequence_parallel: norms and additions are cut along the sequence by the tensor group (Korthikanti 2022, 4.2).
    expert, expert_tensor: the experts' own mesh, folded over the same tensor × context × data ranks.
    zero: 0 copies everything, 1 shards optimizer states over data ranks, 2 gradients too, 3 weights too (FSDP).
    reshard: with zero 3, weights are freed after the forward and gathered again.
    recompute: nothing, attention's core alone (selective), layers whole (full) or the `operations` named;
    `recompute_layers` of each stage only, where it is set.
    split: layers of each stage in order of depth (() as even as can be).
    offload_optimizer: states live in host memory.  offload_activations: the part of them that does.
    gradient_bytes: of one gradient value as it is summed.  overlap: gradients are summed during the backward.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1
    chunks: int = 1
    micro_batch: int = 1
    sequence_parallel: bool = True
    zero: int = 1
    reshard: bool = True
    recompute: Recompute = "none"
    recompute_layers: int | None = None
    operations: tuple[str, ...] = CHEAP
    split: tuple[int, ...] = ()
    offload_optimizer: bool = False
    offload_activations: float = 0.0
    schedule: str = "one_f_one_b"
    gradient_bytes: int = 4
    overlap: bool = True

    @property
    def stages(self) -> int:
        """Stages of the pipeline over all ranks."""
        return self.pipeline * self.chunks

    @property
    def recomputed(self) -> str:
        """What is computed again, in one word; operations are joined by `+`."""
        return "+".join(self.operations) if self.recompute == BY_OPERATION else self.recompute

    def microbatches(self, job: Job) -> int:
        """Microbatches of one pipeline in a step."""
        return job.batch // (self.data * self.micro_batch)

    def label(self) -> str:
        """The layout in one line; what is 1 or usual is left out."""
        of = "" if self.recompute_layers is None else f" of {self.recompute_layers} layers a stage"
        parts = [f"tp {self.tensor}"] * (self.tensor > 1) + [f"pp {self.pipeline}"] * (self.pipeline > 1)
        parts += [f"v {self.chunks}"] * (self.chunks > 1) + [f"cp {self.context}"] * (self.context > 1)
        parts += [f"dp {self.data}"] + [f"ep {self.expert}"] * (self.expert > 1)
        parts += [f"etp {self.expert_tensor}"] * (self.expert_tensor > 1)
        parts += [f"zero {self.zero}", f"mb {self.micro_batch}", f"recompute {self.recomputed}{of}"]
        parts += [self.schedule] * (self.pipeline > 1) + ["optimizer in host memory"] * self.offload_optimizer
        parts += [f"{self.offload_activations:.0%} of activations in host memory"] * (self.offload_activations > 0)
        return ", ".join(parts)


def check(job: Job, layout: Layout) -> None:
    """Raise ScenarioError for a layout that cannot be, with the whole equation and what would do."""
    for name in ("tensor", "pipeline", "data", "context", "expert", "expert_tensor", "chunks", "micro_batch"):
        if getattr(layout, name) < 1:
            raise ScenarioError(f"layout.{name} is {getattr(layout, name)}; it is a count: give 1 or more")
    _check_mesh(job, layout)
    _check_model(job, layout)
    _check_split(job, layout)
    _check_schedule(layout)
    step = layout.data * layout.micro_batch
    if job.batch % step:
        raise ScenarioError(
            f"batch {job.batch} is no multiple of data {layout.data} × micro_batch {layout.micro_batch} = {step}; "
            f"give {max(1, job.batch // step) * step} sequences, or other degrees"
        )
    if layout.chunks > 1 and layout.schedule == "interleaved" and layout.microbatches(job) % layout.pipeline:
        raise ScenarioError(
            f"{layout.microbatches(job)} microbatches are no multiple of pipeline {layout.pipeline}, which "
            "interleaved stages need; take a smaller micro_batch or chunks 1"
        )
    if layout.pipeline > 1 and not allowed(layout.schedule, layout.pipeline, layout.microbatches(job)):
        raise ScenarioError(
            f"{layout.schedule}: {layout.pipeline} ranks and {layout.microbatches(job)} microbatches; both must be "
            f"{COUNTS[layout.schedule][0]}; give such, or take zb_v"
        )
    if (layout.offload_optimizer or layout.offload_activations) and not job.device.host_bw:
        raise ScenarioError(f"device {job.device.name}: its host_bw is not known, so nothing can be offloaded; give it")
    if not 0 <= layout.offload_activations <= 1:
        raise ScenarioError(f"layout.offload_activations is {layout.offload_activations}; it is a part: 0 to 1")
    for each in layout.operations if layout.recompute == "operations" else ():
        if each not in OPERATIONS:
            raise ScenarioError(f"layout.operations has {each!r}; known are {', '.join(OPERATIONS)}")
    if not 0 <= layout.zero <= 3:
        raise ScenarioError(f"layout.zero is {layout.zero}; give 0, 1, 2 or 3")


def _check_mesh(job: Job, layout: Layout) -> None:
    ranks = layout.tensor * layout.context * layout.pipeline * layout.data
    if ranks != job.devices:
        raise ScenarioError(
            f"tensor {layout.tensor} × context {layout.context} × pipeline {layout.pipeline} × data {layout.data} = "
            f"{ranks}, but the job has {job.devices} devices; make the product {job.devices}"
        )
    group, folded = layout.tensor * layout.context * layout.data, layout.expert * layout.expert_tensor
    if group % folded:
        raise ScenarioError(
            f"expert {layout.expert} × expert_tensor {layout.expert_tensor} = {folded} does not divide tensor "
            f"{layout.tensor} × context {layout.context} × data {layout.data} = {group}, over which experts fold; "
            "give divisors of it"
        )


def check_one_shape(model: Model) -> None:
    """ScenarioError for a model of unlike layers."""
    if model.stack:
        raise ScenarioError(
            f"model {model.name} is a list of unlike layers, whose training is not priced; give a model of one shape"
        )


def _check_model(job: Job, layout: Layout) -> None:
    model = job.model
    check_one_shape(model)
    if model.heads % layout.tensor:
        raise ScenarioError(
            f"tensor {layout.tensor} does not divide the {model.heads} heads of {model.name}; give a divisor of them"
        )
    if layout.expert > 1 and (model.moe is None or model.moe.experts % layout.expert):
        has = "no experts" if model.moe is None else f"{model.moe.experts} experts"
        raise ScenarioError(f"expert {layout.expert} does not divide what {model.name} has: {has}; give a divisor")
    if job.sequence % (layout.context * 2 if layout.context > 1 else 1):
        raise ScenarioError(f"context {layout.context} needs sequences of a multiple of {2 * layout.context} tokens")


def _check_schedule(layout: Layout) -> None:
    name, chunks = layout.schedule, layout.chunks
    if name not in FORMS:
        raise ScenarioError(why_not(name))
    if layout.pipeline == 1 or (FORMS[name].place == LOOP and (chunks > 1 or name == "interleaved")):
        return
    if FORMS[name].place == LOOP or FORMS[name].chunks != chunks:
        wanted = {1: "one chunk", 2: "two chunks"}[FORMS[name].chunks] if FORMS[name].place != LOOP else "two or more"
        raise ScenarioError(f"{name} has {wanted} on each rank, not {chunks}; set chunks, or take interleaved")


def _check_split(job: Job, layout: Layout) -> None:
    layers, stages = job.model.layers, layout.stages
    if layout.split and (len(layout.split) != stages or sum(layout.split) != layers):
        raise ScenarioError(
            f"split {layout.split} has {len(layout.split)} stages of {sum(layout.split)} layers, but pipeline "
            f"{layout.pipeline} × chunks {layout.chunks} = {stages} stages hold {layers} layers; make both agree"
        )
    if stages > layers + 2:
        raise ScenarioError(
            f"pipeline {layout.pipeline} × chunks {layout.chunks} = {stages} stages, but {job.model.name} has {layers} "
            "layers, an embedding and a head; give fewer stages"
        )
