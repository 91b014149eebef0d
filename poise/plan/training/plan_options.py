"""The options of `poise train plan`, and the question that they ask."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poise.scenario.options import Json

if TYPE_CHECKING:
    from poise.plan.training.plan import TrainPlanQuestion

Degrees = Annotated[str, typer.Option(metavar="N,…", help="Degrees to search; empty: all divisors.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The options."""

    model: Annotated[str, typer.Argument(help="A built-in model, or a config.json.", metavar="MODEL")]
    devices: Annotated[str, typer.Option("--devices", metavar="NAME", help="Device, as in H100.")]
    gpus: Annotated[int, typer.Option("--gpus", metavar="N", help="Number of devices.", min=1, max=1_000_000)]
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", help="Sequences per step (global batch).", min=1, max=10**9)
    ]
    seq: Annotated[int, typer.Option("--seq", metavar="N", help="Tokens per sequence.", min=1, max=10**9)]
    precision: Annotated[str, typer.Option("--precision", metavar="P", help="Precision: bf16 or fp8.")] = "bf16"
    tensor: Degrees = ""
    pipeline: Degrees = ""
    context: Degrees = "1"
    expert: Degrees = ""
    expert_tensor: Degrees = "1"
    micro_batch: Degrees = ""
    zero: Annotated[
        str, typer.Option(metavar="N,…", help="ZeRO stages to search, 0 to 3; empty: 1,3, or those of --for.")
    ] = ""
    recompute: Annotated[
        str, typer.Option(metavar="HOW,…", help="Recomputation to search; also operations, as in norm+mla.")
    ] = "none,selective,operations,full"
    schedules: Annotated[str, typer.Option("--schedules", metavar="NAME,…", help="Pipeline schedules to search.")] = (
        "one_f_one_b,interleaved,zb_h1"
    )
    trainer: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="TRAINER",
            help="Only what it runs: torchtitan, torchtitan-main, megatron, deepspeed, accelerate, galvatron.",
        ),
    ] = None
    offload: Annotated[bool, typer.Option("--offload", help="Also try optimizer states in host memory.")] = False
    offload_activations: Annotated[
        str, typer.Option(metavar="PART,…", help="Fractions of activations in host memory, as in 0,0.5.")
    ] = "0"
    nic: Annotated[
        float, typer.Option("--nic", metavar="GBIT", help="Gbit/s per device between servers; 0: the device's own.")
    ] = 0.0
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="DEVICE:N@GBIT", help="A second cluster: device, number, Gbit/s per device."),
    ] = None
    between: Annotated[float, typer.Option(metavar="GBIT", help="Gbit/s per device between clusters.")] = 0.0
    bandwidths: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Gbit/s between each pair of servers; their order is searched too."),
    ] = None
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write a page, JSON and settings for other trainers.")
    ] = None
    layerwise: Annotated[bool, typer.Option("--layerwise", help="Also search a strategy per layer (Galvatron).")] = (
        False
    )
    levels: Annotated[
        bool,
        typer.Option("--levels", help="Also shard weights, gradients and states over groups of their own (Frontier)."),
    ] = False
    reschedule: Annotated[
        bool, typer.Option("--reschedule", help="Also try other schedules on the best layouts, within their memory.")
    ] = False
    top: Annotated[int, typer.Option("--top", metavar="N", help="Number of layouts to print.", min=1)] = 8
    json: Json = None


def question_of(options: PlanOptions) -> TrainPlanQuestion:
    """The question, with the space that is searched; UserError for degrees, ScenarioError for names."""
    from poise.plan.training.options import space_of
    from poise.plan.training.plan import TrainPlanQuestion
    from poise.plan.training.trainers import restricted, usual_zero

    space = space_of(
        tensor=options.tensor, pipeline=options.pipeline, context=options.context, expert=options.expert,
        expert_tensor=options.expert_tensor, micro_batch=options.micro_batch,
        zero=options.zero or ",".join(map(str, usual_zero(options.trainer))), recompute=options.recompute,
        schedule=options.schedules, offload=options.offload, offload_activations=options.offload_activations,
    )  # fmt: skip
    return TrainPlanQuestion(
        options.model, options.devices, options.gpus, options.batch, options.seq, options.precision, options.top,
        options.nic, space if options.trainer is None else restricted(space, options.trainer), options.json,
        options.out, options.bandwidths, tuple(options.also or ()), options.between, options.reschedule,
        options.layerwise, options.levels,
    )  # fmt: skip
