"""Run in a process of its own: Megatron-LM's own code reads arguments, checks them and makes a model's configuration."""

from __future__ import annotations

import json
import os
import sys
import typing
from types import SimpleNamespace
from unittest.mock import MagicMock

import torch
import torch._inductor.codecache  # before the stub below, which it would take for the real Triton

WORLD = int(sys.argv[1])
HOPPER = (9, 0)


def main() -> None:
    """The arguments after the number of ranks; prints what Megatron-LM makes of them."""
    vars(typing).setdefault("override", lambda method: method)  # Python 3.11
    torch.compile = lambda function=None, **_: function or (lambda given: given)  # type: ignore[assignment]
    for name in ("triton", "triton.language"):  # kernels, which need a device
        sys.modules[name] = MagicMock(__spec__=None, __version__="3.4.0")
    torch.cuda.get_device_capability = lambda *_: HOPPER  # type: ignore[assignment]
    torch.cuda.get_device_properties = lambda *_: SimpleNamespace(major=9, minor=0)  # type: ignore[assignment, return-value]
    os.environ |= {"WORLD_SIZE": str(WORLD), "RANK": "0"}
    sys.argv = ["pretrain_gpt.py", *sys.argv[2:]]
    from megatron.core import utils
    from megatron.core.models.common.embeddings import rope_utils
    from megatron.training.argument_utils import core_transformer_config_from_args
    from megatron.training.arguments import parse_args, validate_args

    utils._te_version = utils.PkgVersion("2.9.0")  # Transformer Engine, which needs a device
    rope_utils.fused_apply_rotary_pos_emb = main
    args = validate_args(parse_args(), {})
    config = core_transformer_config_from_args(args)
    plain = {name: value for name, value in vars(args).items() if isinstance(value, str | int | float | list | None)}
    stages = None
    if args.pipeline_model_parallel_layout is not None:
        placed = config.pipeline_model_parallel_layout
        placed.validate_layer_layout(args.num_layers, None)
        stages = [[sum(kind.name == "decoder" for kind in stage) for stage in rank] for rank in placed.layout]
    print("\nFOUND " + json.dumps({"args": plain, "stages": stages, "config": type(config).__name__}))


main()
