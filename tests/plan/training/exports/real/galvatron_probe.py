"""Run in a process of its own: Galvatron's runtime reads files and checks their strategies.

Reads from standard input a list of (file, layers, ranks); prints what was found for each.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import torch
from stubs import found, stub


def read(file: str, count: int, world: int) -> dict[str, Any]:
    """What Galvatron makes of a file for a model of `count` layers on so many ranks."""
    from galvatron.core.runtime.args_schema import GalvatronParallelArgs
    from galvatron.core.runtime.hybrid_parallel_config import check_hp_config, get_hybrid_parallel_configs_api

    torch.distributed.get_world_size = lambda *_, **__: world  # type: ignore[assignment]
    parallel = GalvatronParallelArgs(galvatron_config_path=file)
    train = SimpleNamespace(chunks=0, global_batch_size=0)
    model = SimpleNamespace(num_layers=count, is_moe_model=False)
    ckpt = SimpleNamespace(distributed_checkpoint=False)
    args = SimpleNamespace(local_rank=1, parallel=parallel, model=model, train=train, ckpt=ckpt)
    read: dict[str, Any] = get_hybrid_parallel_configs_api(args)
    check_hp_config(read, [count])
    kept = {"chunks": train.chunks, "pipeline": parallel.pipeline_type, "vocab_sdp": parallel.vocab_sdp}
    return {**read, **kept}


def main() -> None:
    """Read all."""
    stub("triton", "scipy", "flash_attn", "apex", "transformers", "h5py", "einops", "amp_C", "transformer_engine")
    found([read(*each) for each in json.load(sys.stdin)])


main()
