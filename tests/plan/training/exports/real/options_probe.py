"""Run in a process of its own: the options that a trainer has, by its own code.

Reads from standard input a list of one name; prints the options by name.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields

from stubs import found, stub


def megatron() -> dict[str, object]:
    """What each argument takes: "flag", or a type, its choices and whether it takes several values."""
    from megatron.training.arguments import add_megatron_arguments

    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_megatron_arguments(parser)
    return {flag.removeprefix("--"): _kind(each) for each in parser._actions for flag in each.option_strings}


def _kind(action: argparse.Action) -> object:
    if action.nargs == 0:
        return "flag"
    choices = sorted(map(str, action.choices)) if action.choices else []
    return [getattr(action.type, "__name__", "str"), choices]


def torchtitan() -> dict[str, object]:
    """The fields of its two dataclasses."""
    from torchtitan.config import ParallelismConfig, TrainingConfig

    return {each.__name__: [name.name for name in fields(each)] for each in (ParallelismConfig, TrainingConfig)}


def accelerate() -> dict[str, object]:
    """The keys of a file and those of its section for FSDP."""
    from accelerate.commands.config.config_args import ClusterConfig
    from accelerate.commands.launch import launch_command_parser

    options = [name for each in launch_command_parser()._actions for name in each.option_strings]
    own = sorted(name[2:] for name in options if name.startswith("--fsdp_"))
    return {"file": [each.name for each in fields(ClusterConfig)], "fsdp_config": own}


def main() -> None:
    """The options of the trainer."""
    stub(
        "triton", "datasets", "torchdata", "grain", "wandb", "tensorboard", "PIL", "torchao", "huggingface_hub",
        "safetensors",
    )  # fmt: skip
    found([globals()[json.load(sys.stdin)[0]]()])


main()
