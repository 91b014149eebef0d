"""Settings of torchtitan's release and main branch, with the schedule as a CSV where torchtitan has no such name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from poise.core.errors import ScenarioError, ScheduleError
from poise.cost.training.job import Job
from poise.cost.training.layout import ALTERNATE, Layout
from poise.pipeline import Schedule, make
from poise.pipeline.csv import write_csv
from poise.plan.training.exports.split import layers, named_layers, whole_layers
from poise.plan.training.exports.torchtitan_models import FLAVORS, planned

SCHEDULES = {
    "one_f_one_b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B", "breadth_first": "LoopedBFS",
    "zb_v": "ZBVZeroBubble", "dualpipe_v": "DualPipeV",
}  # fmt: skip

CSV = "schedule.csv"

Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class Version:
    """A version of torchtitan: its module here, and how it counts batches.

    batch: fields of TrainingConfig.  microbatches: the field of ParallelismConfig that cuts a batch for the pipeline.
    """

    text: str
    module: str
    batch: Callable[[Job, Layout], Fields]
    microbatches: Callable[[Job, Layout], Fields]


def _sequences(job: Job, layout: Layout) -> Fields:
    return {
        "local_batch_size": job.batch // layout.data if layout.pipeline > 1 else layout.micro_batch,
        "global_batch_size": job.batch,
        "seq_len": job.sequence,
    }


def _tokens(job: Job, layout: Layout) -> Fields:
    return {
        "num_tokens_per_microbatch_per_dp_rank": layout.micro_batch * job.sequence,
        "num_tokens_per_train_step": job.tokens,
        "max_context_length": job.sequence,
    }


RELEASE = Version(
    "torchtitan 0.3.0", "torchtitan_config", _sequences,
    lambda _, layout: {"pipeline_parallel_microbatch_size": layout.micro_batch},
)  # fmt: skip
MAIN = Version(
    "torchtitan's main branch of 2026-08-21", "torchtitan_main_config", _tokens,
    lambda job, layout: {"num_pp_microbatches": layout.microbatches(job)},
)  # fmt: skip


def torchtitan(job: Job, layout: Layout) -> dict[str, str]:
    """`torchtitan_config.py` for the released version, and `schedule.csv` where one is needed."""
    return _files(job, layout, RELEASE)


def torchtitan_main(job: Job, layout: Layout) -> dict[str, str]:
    """`torchtitan_main_config.py` for the main branch, which counts batches in tokens."""
    return _files(job, layout, MAIN)


def check_torchtitan(job: Job, layout: Layout) -> None:
    """Raise ScenarioError for a layout that torchtitan cannot run.

    torchtitan shards weights (zero 3), keeps them whole between forward and backward (zero 2: never resharded), or
    copies everything (zero 0). Stages go round the ranks, or as a V with two on each; nothing else can be placed.
    """
    model, tensor = job.model, layout.tensor
    if layout.zero == 1:
        raise ScenarioError("torchtitan shards weights or copies everything; take zero 0, 2 or 3")
    if layout.expert_tensor > 1:
        raise ScenarioError(
            f"torchtitan has no tensor ranks within experts; expert_tensor {layout.expert_tensor} must be 1"
        )
    if layout.offload_activations:
        raise ScenarioError("torchtitan moves no part of the activations to the host; offload_activations must be 0")
    if layout.offload_optimizer and layout.zero == 0:
        raise ScenarioError("torchtitan moves states to the host only where it shards; take zero 2 or 3")
    _recompute(layout)
    whole_layers("torchtitan", job, layout)
    if model.tied and layout.pipeline > 1:
        raise ScenarioError(
            f"torchtitan has no pipeline for tied embeddings, which {model.name} has; pipeline must be 1"
        )
    if model.mla is None and model.kv_heads % tensor:
        raise ScenarioError(f"torchtitan: tensor {tensor} must divide the {model.kv_heads} key-value heads")
    cut = (tensor if layout.sequence_parallel else 1) * (2 * layout.context if layout.context > 1 else 1)
    if job.sequence % cut:
        raise ScenarioError(f"torchtitan: sequences of {job.sequence} tokens must be a multiple of {cut}")
    inner = _sharded(layout) * layout.context * tensor
    if inner % layout.expert:
        raise ScenarioError(
            f"torchtitan: expert {layout.expert} must divide sharded data × context × tensor, {inner}; take zero 2 or 3"
        )


def _recompute(layout: Layout) -> str:
    """The value of `activation_checkpoint`; ScenarioError for what torchtitan does not recompute."""
    if layout.recompute == "operations" and set(layout.operations) == set(ALTERNATE):
        return "SelectiveAC.Config()"
    known = {"none": "None", "full": "FullAC.Config()"}
    if layout.recompute not in known:
        raise ScenarioError(
            f"torchtitan recomputes nothing, layers whole or {'+'.join(ALTERNATE)}, not {layout.recomputed}; take one"
        )
    return known[layout.recompute]


def _sharded(layout: Layout) -> int:
    return layout.data if layout.zero >= 2 else 1


def _files(job: Job, layout: Layout, version: Version) -> dict[str, str]:
    check_torchtitan(job, layout)
    shard = _sharded(layout)
    fields: Fields = {
        "data_parallel_replicate_degree": layout.data // shard,
        "data_parallel_shard_degree": shard,
        "fsdp_reshard_after_forward": "always" if layout.zero == 3 and layout.reshard else "never",
        "tensor_parallel_degree": layout.tensor,
        "enable_sequence_parallel": layout.sequence_parallel,
        "context_parallel_degree": layout.context,
        "expert_parallel_degree": layout.expert,
        "pipeline_parallel_degree": layout.pipeline,
    }
    if layout.context > 1:  # the models attend by FlexAttention, which the default balancer is not for
        fields["context_parallel_load_balancer"] = "ptrr"
    files = {}
    if layout.pipeline > 1:
        name, csv = _schedule(job, layout)
        fields |= {
            "pipeline_parallel_schedule": name,
            **version.microbatches(job, layout),
            "module_fqns_per_model_part": _modules(job, layout),
        }
        if csv is not None:
            files[CSV] = write_csv(csv)
    training = {
        **version.batch(job, layout),
        "enable_cpu_offload": layout.offload_optimizer,
        "disable_cuda_graphs": layout.pipeline > 1 or layout.expert > 1,  # torchtitan refuses them there
    }
    return {f"{version.module}.py": _python(job, layout, version, fields, training, bool(files)), **files}


def _schedule(job: Job, layout: Layout) -> tuple[str, Schedule | None]:
    """torchtitan's name for the schedule, or of one with the same placement, with the schedule itself."""
    if layout.schedule in SCHEDULES:
        return SCHEDULES[layout.schedule], None
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
    found = [named_layers(each) for each in layers(job, layout)]
    found[0].insert(0, "tok_embeddings")
    found[-1] += ["norm", "lm_head"]
    return found


def _python(job: Job, layout: Layout, version: Version, ranks: Fields, training: Fields, csv: bool) -> str:
    recompute = _recompute(layout)
    known = job.model.name in FLAVORS
    start = f"`torchrun ... -m torchtitan.train --module {version.module} --config planned` in its folder starts it"
    hand = "hand them to the Trainer.Config of your model"
    imports = ["from torchtitan.config.configs import ParallelismConfig, TrainingConfig"]
    if recompute != "None":
        imports.append(f"from torchtitan.distributed.activation_checkpoint import {recompute[:-9]}")
    if csv:
        imports.insert(0, "from pathlib import Path\n")
    body = [
        f'"""Settings of {version.text} for this layout: {start if known else hand}."""\n',
        *imports,
        f"\nparallelism = {_call('ParallelismConfig', ranks)}",
        *([f'parallelism.pipeline_parallel_schedule_csv = str(Path(__file__).with_name("{CSV}"))'] * csv),
        f"training = {_call('TrainingConfig', training)}",
        f"activation_checkpoint = {recompute}",
    ]
    return "\n".join(body) + "\n" + (planned(job) if known else "")


def _call(name: str, fields: Mapping[str, object]) -> str:
    return f"{name}(\n" + "".join(f"    {field}={value!r},\n" for field, value in fields.items()) + ")"
