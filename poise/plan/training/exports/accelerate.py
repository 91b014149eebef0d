"""Accelerate's configuration for FSDP2 (`accelerate launch --config_file`), which PyTorch runs."""

from __future__ import annotations

from poise.core.errors import ScenarioError
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout


def accelerate(job: Job, layout: Layout) -> dict[str, str]:
    """`fsdp.yaml`; for layouts of sharded data ranks alone."""
    if max(layout.tensor, layout.pipeline, layout.context, layout.expert) > 1:
        raise ScenarioError("Accelerate's file for FSDP states data ranks alone; take torchtitan or Megatron-LM")
    if layout.zero < 2:
        raise ScenarioError(
            f"FSDP shards gradients (zero 2) or weights too (zero 3); this layout has zero {layout.zero}"
        )
    lines = {
        "distributed_type": "FSDP",
        "mixed_precision": "bf16",
        "num_machines": max(1, job.devices // job.inside),
        "num_processes": job.devices,
        "gradient_accumulation_steps": layout.microbatches(job),
    }
    own = {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": layout.zero == 3 and layout.reshard,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_activation_checkpointing": layout.recompute == "full",
        "fsdp_offload_params": layout.offload_optimizer,
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }
    text = "".join(f"{name}: {_yaml(value)}\n" for name, value in lines.items())
    return {
        "fsdp.yaml": text + "fsdp_config:\n" + "".join(f"  {name}: {_yaml(value)}\n" for name, value in own.items())
    }


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
