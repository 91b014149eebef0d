"""DeepSpeed's configuration file (deepspeed/runtime/config.py): ZeRO, batches, recomputation."""

from __future__ import annotations

import json

from poise.core.errors import ScenarioError
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.plan.training.exports.split import named


def deepspeed(job: Job, layout: Layout) -> dict[str, str]:
    """`ds_config.json`. Its pipelines take ZeRO 0 or 1; tensor ranks belong to the model (`mpu`), not to this file."""
    if layout.pipeline > 1:
        named("DeepSpeed", layout, {"one_f_one_b": "1F1B"})
        if layout.zero > 1:
            raise ScenarioError(f"DeepSpeed's pipelines take zero 0 or 1; this layout has {layout.zero}")
    if layout.context > 1 or layout.expert > 1:
        raise ScenarioError("DeepSpeed's file states no context or expert ranks; use Megatron-LM's arguments")
    zero: dict[str, object] = {"stage": layout.zero, "overlap_comm": layout.overlap, "contiguous_gradients": True}
    if layout.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    settings = {
        "train_batch_size": job.batch,
        "train_micro_batch_size_per_gpu": layout.micro_batch,
        "gradient_accumulation_steps": layout.microbatches(job),
        "bf16": {"enabled": True},
        "data_types": {"grad_accum_dtype": {4: "fp32", 2: "bf16"}[layout.gradient_bytes]},
        "zero_optimization": zero,
    }
    if layout.recompute != "none":
        settings["activation_checkpointing"] = {"partition_activations": layout.tensor > 1}
    return {"ds_config.json": json.dumps(settings, indent=2) + "\n"}
