"""DeepSpeed's configuration file (0.19, deepspeed/runtime/config.py): ZeRO, batches, tensor ranks, recomputation."""

from __future__ import annotations

import json

from poise.core.errors import ScenarioError
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.plan.training.exports.split import bf16_only, named, no_operations, whole_layers


def deepspeed(job: Job, layout: Layout) -> dict[str, str]:
    """`ds_config.json`; tensor ranks are AutoTP's."""
    check_deepspeed(job, layout)
    zero: dict[str, object] = {"stage": layout.zero, "overlap_comm": layout.overlap, "contiguous_gradients": True}
    if layout.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    settings: dict[str, object] = {
        "train_batch_size": job.batch,
        "train_micro_batch_size_per_gpu": layout.micro_batch,
        "gradient_accumulation_steps": layout.microbatches(job),
        "bf16": {"enabled": True},
        "data_types": {"grad_accum_dtype": {4: "fp32", 2: "bf16"}[layout.gradient_bytes]},
        "zero_optimization": zero,
    }
    if layout.tensor > 1:
        settings["tensor_parallel"] = {"autotp_size": layout.tensor}
    return {"ds_config.json": json.dumps(settings, indent=2) + "\n"}


def deepspeed_code(layout: Layout) -> list[str]:
    """What the file cannot say and the program must: stages of a pipeline and recomputation.

    `activation_checkpointing` in the file only says how a model that already calls DeepSpeed's checkpoints keeps them.
    """
    again = layout.recompute == "full"
    if layout.pipeline > 1:
        interval = ", activation_checkpoint_interval=1" if again else ""
        return [f"build the model as PipelineModule(layers, num_stages={layout.pipeline}{interval})"]
    return ["call model.gradient_checkpointing_enable() (transformers), or checkpoint each layer"] if again else []


def check_deepspeed(job: Job, layout: Layout) -> None:
    """Raise ScenarioError for a layout that DeepSpeed's file cannot state."""
    bf16_only("DeepSpeed's file", job)
    if layout.pipeline > 1:
        named("DeepSpeed", layout, {"one_f_one_b": "1F1B"})
        if layout.zero > 1:
            raise ScenarioError(f"DeepSpeed's pipelines take zero 0 or 1; this layout has {layout.zero}")
        if layout.tensor > 1:
            raise ScenarioError("DeepSpeed's AutoTP takes no pipeline; tensor or pipeline must be 1")
        if layout.split:
            raise ScenarioError("DeepSpeed cuts layers evenly or by parameters; write a split as the program's own")
    if layout.context > 1 or layout.expert > 1:
        raise ScenarioError("DeepSpeed's file states no context or expert ranks; use Megatron-LM's arguments")
    if layout.tensor > 1 and layout.sequence_parallel:
        raise ScenarioError("DeepSpeed's AutoTP does not cut norms along the sequence; tensor must be 1")
    no_operations("DeepSpeed", layout)
    whole_layers("DeepSpeed", job, layout)
    if layout.offload_activations:
        raise ScenarioError("DeepSpeed moves no part of the activations to the host; offload_activations must be 0")
    if layout.offload_optimizer and layout.zero == 0:
        raise ScenarioError("DeepSpeed moves states to the host only where it shards them; take zero 1, 2 or 3")
