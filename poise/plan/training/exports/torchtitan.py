"""torchtitan's settings (0.3, torchtitan/config/configs.py), with the schedule as a CSV where it has no such name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from poise.core.errors import ScenarioError, ScheduleError
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.pipeline import Schedule, make
from poise.pipeline.csv import write_csv
from poise.plan.training.exports.split import layers

_SCHEDULES = {
    "one_f_one_b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B", "breadth_first": "LoopedBFS",
    "zb_v": "ZBVZeroBubble", "dualpipe_v": "DualPipeV",
}  # fmt: skip

CSV = "schedule.csv"


def torchtitan(job: Job, layout: Layout) -> dict[str, str]:
    """`torchtitan_config.py`, which builds its dataclasses, and `schedule.csv` where one is needed.

    torchtitan shards weights (zero 3), keeps them whole between forward and backward (zero 2: never resharded), or
    copies everything (zero 0). Stages go round the ranks, or as a V with two on each; nothing else can be placed.
    """
    if layout.zero == 1:
        raise ScenarioError("torchtitan shards weights or copies everything; take zero 0, 2 or 3")
    if layout.expert_tensor > 1:
        raise ScenarioError(
            f"torchtitan has no tensor ranks within experts; expert_tensor {layout.expert_tensor} must be 1"
        )
    if layout.offload_activations:
        raise ScenarioError("torchtitan moves no part of the activations to the host; offload_activations must be 0")
    shard = layout.data if layout.zero >= 2 else 1
    fields: dict[str, object] = {
        "data_parallel_replicate_degree": layout.data // shard,
        "data_parallel_shard_degree": shard,
        "fsdp_reshard_after_forward": "always" if layout.zero == 3 and layout.reshard else "never",
        "tensor_parallel_degree": layout.tensor,
        "enable_sequence_parallel": layout.sequence_parallel,
        "context_parallel_degree": layout.context,
        "expert_parallel_degree": layout.expert,
        "pipeline_parallel_degree": layout.pipeline,
    }
    files = {}
    if layout.pipeline > 1:
        name, csv = _schedule(job, layout)
        fields |= {
            "pipeline_parallel_schedule": name,
            "pipeline_parallel_microbatch_size": layout.micro_batch,
            "module_fqns_per_model_part": _modules(job, layout),
        }
        if csv is not None:
            fields["pipeline_parallel_schedule_csv"] = CSV
            files[CSV] = write_csv(csv)
    training = {
        "local_batch_size": job.batch // layout.data if layout.pipeline > 1 else layout.micro_batch,
        "global_batch_size": job.batch,
        "seq_len": job.sequence,
        "enable_cpu_offload": layout.offload_optimizer,
    }
    return {"torchtitan_config.py": _python(layout, fields, training), **files}


def _schedule(job: Job, layout: Layout) -> tuple[str, Schedule | None]:
    """torchtitan's name for the schedule, or of one with the same placement, with the schedule itself."""
    if layout.schedule in _SCHEDULES:
        return _SCHEDULES[layout.schedule], None
    count = layout.microbatches(job)
    known: dict[str, Any] = {"chunks": layout.chunks} if layout.chunks > 1 else {}
    schedule = make(layout.schedule, layout.pipeline, count, **known)
    ranks = layout.pipeline
    looped = tuple((stage % ranks,) for stage in range(schedule.stages))
    folded = tuple((min(stage, 2 * ranks - 1 - stage),) for stage in range(2 * ranks))
    if schedule.homes == looped:
        return "PipelineScheduleMulti", schedule
    if schedule.homes == folded:
        return "ZBVZeroBubble", schedule
    raise ScheduleError(
        f"torchtitan places stages in a loop or as a V, and {layout.schedule} places them otherwise; "
        "`poise train run` runs it"
    )


def _modules(job: Job, layout: Layout) -> list[list[str]]:
    found = [[f"layers.{layer}" for layer in each] for each in layers(job, layout)]
    found[0].insert(0, "tok_embeddings")
    found[-1] += ["norm", "lm_head"]
    return found


def _python(layout: Layout, parallelism: Mapping[str, object], training: Mapping[str, object]) -> str:
    recompute = {"none": "None", "selective": "SelectiveAC.Config()", "full": "FullAC.Config()"}[layout.recompute]
    return (
        '"""Settings of torchtitan 0.3 for this layout: hand them to the Trainer.Config of your model."""\n\n'
        "from torchtitan.config.configs import ParallelismConfig, TrainingConfig\n"
        + (
            ""
            if recompute == "None"
            else f"from torchtitan.distributed.activation_checkpoint import {recompute[:-9]}\n"
        )
        + f"\nparallelism = {_call('ParallelismConfig', parallelism)}\n"
        f"training = {_call('TrainingConfig', training)}\n"
        f"activation_checkpoint = {recompute}\n"
    )


def _call(name: str, fields: Mapping[str, object]) -> str:
    return f"{name}(\n" + "".join(f"    {field}={value!r},\n" for field, value in fields.items()) + ")"
