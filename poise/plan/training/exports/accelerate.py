"""Accelerate's configuration for FSDP2 (`accelerate launch --config_file`, 1.15), which PyTorch runs."""

from __future__ import annotations

from math import gcd

from poise.core.errors import ScenarioError
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.plan.training.exports.split import bf16_only, no_operations, server, whole_layers


def accelerate(job: Job, layout: Layout) -> dict[str, str]:
    """`fsdp.yaml`; for layouts of sharded data ranks alone."""
    check_accelerate(job, layout)
    lines = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "mixed_precision": "bf16",
        "num_machines": job.devices // gcd(job.devices, server(job)),
        "num_processes": job.devices,
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


def accelerate_code(job: Job, layout: Layout) -> list[str]:
    """What the file cannot say and the program must: the sizes of batches."""
    return [
        f"give the DataLoader batch_size={layout.micro_batch}",
        f"make Accelerator(gradient_accumulation_steps={layout.microbatches(job)})",
    ]


def check_accelerate(job: Job, layout: Layout) -> None:
    """Raise ScenarioError for a layout that Accelerate's file for FSDP cannot state."""
    bf16_only("Accelerate's file", job)
    if max(layout.tensor, layout.pipeline, layout.context, layout.expert, layout.expert_tensor) > 1:
        raise ScenarioError("Accelerate's file for FSDP states data ranks alone; take torchtitan or Megatron-LM")
    if layout.zero < 2:
        raise ScenarioError(
            f"FSDP shards gradients (zero 2) or weights too (zero 3); this layout has zero {layout.zero}"
        )
    no_operations("Accelerate", layout)
    whole_layers("Accelerate", job, layout)
    if layout.offload_activations:
        raise ScenarioError("Accelerate moves no part of the activations to the host; offload_activations must be 0")


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
