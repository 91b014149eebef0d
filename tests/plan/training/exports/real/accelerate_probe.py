"""Run in a process of its own: Accelerate's launcher reads files, and its FSDP plugin what the launcher hands on.

Reads from standard input a list of files; prints what was found for each.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from stubs import found, stub


def read(file: str) -> dict[str, Any]:
    """What `accelerate launch --config_file` makes of a file, and what a training process sees of it."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env

    given = launch_command_parser().parse_args(["--config_file", file, "script.py"])
    args, _, _ = _validate_launch_command(given)
    os.environ |= prepare_multi_gpu_env(args)
    plugin = FullyShardedDataParallelPlugin()
    return {
        "processes": args.num_processes,
        "machines": args.num_machines,
        "precision": os.environ["ACCELERATE_MIXED_PRECISION"],
        "version": plugin.fsdp_version,
        "reshard": plugin.reshard_after_forward,
        "recompute": plugin.activation_checkpointing,
        "offload": type(plugin.cpu_offload).__name__,
    }


def main() -> None:
    """Read all."""
    stub("triton", "huggingface_hub", "safetensors")
    found([read(each) for each in json.load(sys.stdin)])


main()
