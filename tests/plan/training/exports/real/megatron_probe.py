"""Run in a process of its own: Megatron-LM's own code reads arguments, checks them and makes a model's configuration.

Reads from standard input a list of (ranks, connections, arguments); prints what was found for each.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from stubs import found, stub


def read(world: int, connections: str, arguments: list[str]) -> dict[str, Any]:
    """What Megatron-LM makes of arguments on so many ranks; connections: CUDA_DEVICE_MAX_CONNECTIONS ("" unset)."""
    from megatron.training.argument_utils import core_transformer_config_from_args, gpt_config_from_args
    from megatron.training.arguments import parse_args, validate_args

    os.environ |= {"WORLD_SIZE": str(world), "RANK": "0"}
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    if connections:
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = connections
    sys.argv = ["pretrain_gpt.py", *arguments]
    args = validate_args(parse_args(), {})
    config = core_transformer_config_from_args(args)
    stages = None
    if args.pipeline_model_parallel_layout is not None:
        placed = config.pipeline_model_parallel_layout
        placed.validate_layer_layout(args.num_layers, None)
        stages = [[sum(kind.name == "decoder" for kind in stage) for stage in rank] for rank in placed.layout]
    plain = {name: value for name, value in vars(args).items() if isinstance(value, str | int | float | list | None)}
    built = _parameters(args) if "--use-cpu-initialization" in arguments else None
    gpt = gpt_config_from_args(args)
    base = getattr(config, "rotary_base", gpt.rotary_base)  # latent attention has its own
    rope = [base, gpt.rope_scaling, gpt.rope_scaling_factor]
    return {"args": plain, "stages": stages, "eps": config.layernorm_epsilon, "rope": rope, "parameters": built}


def _parameters(args: Any) -> int:
    """Parameters of the whole model, built by Megatron-LM on one rank without a device."""
    import torch
    from megatron.core import parallel_state
    from megatron.core.process_groups_config import ProcessGroupCollection
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer.dot_product_attention import DotProductAttention
    from megatron.training.argument_utils import gpt_config_from_args
    from megatron.training.models.gpt import GPTModelBuilder

    if not torch.distributed.is_initialized():
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
    torch.cuda.current_device = lambda: "cpu"  # type: ignore[assignment, return-value]
    torch.cuda.Stream = lambda *_, **__: None  # type: ignore[misc, assignment]
    plain = DotProductAttention.__init__
    if (
        "k_channels" not in plain.__code__.co_varnames
    ):  # latent attention is Transformer Engine's alone, and has no weights
        DotProductAttention.__init__ = lambda self, *given, k_channels=0, v_channels=0, **more: plain(
            self, *given, **more
        )
    random.model_parallel_cuda_manual_seed = lambda *_, **__: None
    groups = ProcessGroupCollection.use_mpu_process_groups()
    model = GPTModelBuilder(gpt_config_from_args(args)).build_model(groups, pre_process=True, post_process=True)
    return sum(each.numel() for each in model.parameters())


def main() -> None:
    """Read all, as if Transformer Engine were there, which needs a device."""
    stub("triton")
    from megatron.core import utils
    from megatron.core.models.common.embeddings import rope_utils

    utils._te_version = utils.PkgVersion("2.9.0")
    rope_utils.fused_apply_rotary_pos_emb = main
    found([read(*each) for each in json.load(sys.stdin)])


main()
