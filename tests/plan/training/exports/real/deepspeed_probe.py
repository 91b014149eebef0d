"""Run in a process of its own: DeepSpeed's own code reads files and checks their batches.

Reads from standard input a list of (file, ranks); prints what was found for each.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from stubs import found, stub


def read(file: str, world: int) -> dict[str, Any]:
    """What DeepSpeed makes of a file on so many ranks."""
    import deepspeed.comm as ranks
    from deepspeed.runtime.config import DeepSpeedConfig

    ranks.get_world_size = lambda *_, **__: world
    ranks.get_rank = lambda *_, **__: 0
    config = DeepSpeedConfig(file)
    offload = config.zero_config.offload_optimizer
    return {
        "stage": int(config.zero_optimization_stage),
        "batch": config.train_batch_size,
        "micro_batch": config.train_micro_batch_size_per_gpu,
        "accumulation": config.gradient_accumulation_steps,
        "bf16": config.bfloat16_config.enabled,
        "tensor": config.tensor_parallel_config.autotp_size,
        "offload": None if offload is None else str(offload.device),
        "gradients": config.grad_accum_dtype,
    }


def main() -> None:
    """Read all."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    stub("triton", "cpuinfo", "ninja")
    found([read(*each) for each in json.load(sys.stdin)])


main()
