"""Run in a process of its own: torchtitan's own code reads settings files, checks them and places the model's stages.

Reads from standard input a list of (folder, module, ranks); prints what was found for each.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import fields
from typing import Any

import torch
from stubs import found, stub


def read(folder: str, module: str, world: int) -> dict[str, Any]:
    """What torchtitan makes of the settings file `module` in a folder on so many ranks."""
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims

    os.chdir(folder)
    sys.path[0] = folder
    sys.modules.pop(module, None)
    config: Any = ConfigManager().parse_args(["--module", module, "--config", "planned"])
    dims = ParallelDims.from_config(config.parallelism, world)
    model = config.model_spec.model
    model.update_from_config(config=config)
    with torch.device("meta"):
        whole = model.build()
    rope = model.layers[0].attention.rope
    return {
        "parallelism": {each.name: getattr(config.parallelism, each.name) for each in fields(config.parallelism)},
        "training": {each.name: getattr(config.training, each.name) for each in fields(config.training)},
        "dims": [dims.pp, dims.dp_replicate, dims.dp_shard, dims.cp, dims.tp, dims.ep],
        "recompute": type(config.activation_checkpoint).__qualname__,
        "compiled": config.compile.enable,
        "parameters": sum(each.numel() for each in whole.parameters()),
        "layers": len(model.layers),
        "rope": [rope.theta, rope.scaling],
        "stages": _stages(config, whole, dims.pp) if dims.pp > 1 else None,
    }


def _stages(config: Any, whole: torch.nn.Module, count: int) -> list[list[int]]:
    """The stages of each rank, after a check that they hold the whole model, and that the schedule can be read."""
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime, get_schedule_class
    from torchtitan.distributed.pipeline_parallel import _get_pp_rank_to_stage_indices_mapping, _split_module

    ranks = config.parallelism
    parts = [_split_module(whole, each) for each in ranks.module_fqns_per_model_part]
    assert sum(p.numel() for part in parts for p in part.parameters()) == sum(p.numel() for p in whole.parameters())
    name = ranks.pipeline_parallel_schedule
    places = [list(_get_pp_rank_to_stage_indices_mapping(rank, count, name, len(parts))) for rank in range(count)]
    assert get_schedule_class(name)
    if ranks.pipeline_parallel_schedule_csv:
        sequences = getattr(config.training, "local_batch_size", 0)
        batches = sequences // ranks.pipeline_parallel_microbatch_size if sequences else ranks.num_pp_microbatches
        _read_csv(_PipelineScheduleRuntime, ranks.pipeline_parallel_schedule_csv, places, batches)
    return places


def _read_csv(runtime: Any, file: str, places: list[list[int]], batches: int) -> None:
    """PyTorch's reader of a schedule, with all that it needs of a runtime."""
    made = runtime.__new__(runtime)
    made.pipeline_order, made.pipeline_order_with_comms = {}, {}
    made.pp_group_size, made._num_stages, made._n_microbatches = len(places), sum(map(len, places)), batches
    made.stage_index_to_group_rank = {stage: rank for rank, row in enumerate(places) for stage in row}
    made._stages, made._defer_pp_recv = [], False
    made._load_csv(file)
    assert made.pipeline_order_with_comms


def main() -> None:
    """Read all."""
    stub("triton", "datasets", "torchdata", "grain", "wandb", "tensorboard", "PIL", "torchao")
    from torchtitan.components.quantization import float8

    float8.has_cuda_capability = lambda *_: True
    found([read(*each) for each in json.load(sys.stdin)])


main()
