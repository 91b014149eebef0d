"""The options of `poise experts plan`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from poise.core.slot import SLOTS
from poise.scenario.options import Json

BALANCER = SLOTS["expert_balancer"].default
"""The balancer that plans unless another is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertOptions:
    """The options."""

    counts: Annotated[
        Path,
        typer.Argument(
            help="The load: a CSV of layer, expert, count; SGLang's .pt or .json; .npy with counts or router logits.",
            metavar="COUNTS",
        ),
    ]
    model: Annotated[str, typer.Option(metavar="NAME", help="The model, as in deepseek-v3, or its config.json.")]
    ranks: Annotated[int, typer.Option(metavar="N", help="Expert-parallel ranks.", min=1)]
    redundant: Annotated[int, typer.Option(metavar="N", help="Redundant copies of each layer's experts.", min=0)] = 0
    nodes: Annotated[int, typer.Option(metavar="N", help="Hosts over which the ranks spread evenly.", min=1)] = 1
    groups: Annotated[
        int, typer.Option(metavar="N", help="Groups of experts that the router chooses first (n_group).", min=1)
    ] = 1
    device: Annotated[str, typer.Option(metavar="NAME", help="The device of each rank.")] = "H200"
    engine: Annotated[str, typer.Option(metavar="NAME", help="Whose step times are taken: sglang or vllm.")] = "sglang"
    balancer: Annotated[
        str,
        typer.Option(metavar="NAME", help="Who plans: a file of poise/policies/rebalance, or package.module:Class."),
    ] = BALANCER
    placed: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="The placement in force: a physical_to_logical_map, as SGLang has it."),
    ] = None
    moves: Annotated[
        int | None, typer.Option(metavar="N", help="The most experts to fetch; plans by few_moves.", min=0)
    ] = None
    decodes: Annotated[int, typer.Option(metavar="N", help="Requests that decode on a rank.", min=1)] = 64
    context: Annotated[int, typer.Option(metavar="N", help="Tokens of each of them.", min=1)] = 2048
    prompt: Annotated[int, typer.Option(metavar="N", help="Prompt tokens of a rank's step of prefill.", min=1)] = 4096
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write sglang.json, vllm.json and plan.json.")] = None
    json: Json = None
