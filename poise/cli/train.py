"""`poise train`: search layouts; make, compare and check pipeline schedules. The work is in `plan.training`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from poise.cli.reading import reads
from poise.cli.spelled import renamed
from poise.plan.training.schedule_options import Limit, ScheduleOptions, SchedulesOptions, ShowOptions
from poise.runtime.options import RunOptions
from poise.scenario.options import Json

app = typer.Typer(help="Plan training runs; make, check, compare and run pipeline schedules.", no_args_is_help=True)


@app.command("schedule", cls=renamed(stages="ranks", save="out", perfetto="timeline"))
@reads(ScheduleOptions)
def schedule(options: ScheduleOptions) -> None:
    """Make a schedule, check it, print its step time and memory; --page draws it, --csv writes PyTorch's file."""
    from poise.plan.training.command import make_schedule

    make_schedule(options)


@app.command("schedules", cls=renamed(stages="ranks"))
@reads(SchedulesOptions)
def schedules(options: SchedulesOptions) -> None:
    """Compare all schedules for one pipeline."""
    from poise.plan.training.command import compare_schedules

    compare_schedules(options)


@app.command("show", cls=renamed(timeline="perfetto"))
@reads(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show a step with all its messages and copies, as a Program: proof, lanes, memory, critical path."""
    from poise.plan.training.show_program import show_program

    show_program(options)


@app.command("check")
def check(
    file: Annotated[
        Path,
        typer.Argument(
            help="PyTorch's .csv, a schedule of `train schedule --out`, or a Program of `train show --text`.",
            metavar="FILE",
        ),
    ],
    memory_limit: Limit = None,
    json: Json = None,
) -> None:
    """Check that a schedule, or a Program, completes and computes correct gradients, or name the fault."""
    from poise.plan.training.command import check_schedule

    check_schedule(file, memory_limit, json)


@app.command("compare")
def compare(
    recording: Annotated[Path, typer.Argument(help="A recording of `poise train run --record`.", metavar="STEP.json")],
    beside: Annotated[
        str, typer.Option(metavar="NAME,…", help="Other schedules, simulated at this step's costs.")
    ] = "",
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page with all of them on one axis.")
    ] = None,
    json: Json = None,
) -> None:
    """Compare a recorded step with its simulation and with other schedules at its costs."""
    from poise.plan.training.recorded import compare_recorded

    compare_recorded(recording, beside, page, json)


Degrees = Annotated[str, typer.Option(metavar="N,…", help="Degrees to search; empty: all divisors.")]


@app.command("plan")
def plan(
    model: Annotated[str, typer.Argument(help="A built-in model, or a config.json.", metavar="MODEL")],
    devices: Annotated[str, typer.Option("--devices", metavar="NAME", help="Device, as in H100.")],
    gpus: Annotated[int, typer.Option("--gpus", metavar="N", help="Number of devices.", min=1, max=1_000_000)],
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", help="Sequences per step (global batch).", min=1, max=10**9)
    ],
    seq: Annotated[int, typer.Option("--seq", metavar="N", help="Tokens per sequence.", min=1, max=10**9)],
    precision: Annotated[str, typer.Option("--precision", metavar="P", help="Precision: bf16 or fp8.")] = "bf16",
    tensor: Degrees = "",
    pipeline: Degrees = "",
    context: Degrees = "1",
    expert: Degrees = "",
    expert_tensor: Degrees = "1",
    micro_batch: Degrees = "",
    zero: Annotated[
        str, typer.Option(metavar="N,…", help="ZeRO stages to search, 0 to 3; empty: 1,3, or those of --for.")
    ] = "",
    recompute: Annotated[
        str, typer.Option(metavar="HOW,…", help="Recomputation to search; also operations, as in norm+mla.")
    ] = "none,selective,operations,full",
    schedules: Annotated[
        str, typer.Option("--schedules", metavar="NAME,…", help="Pipeline schedules to search.")
    ] = "one_f_one_b,interleaved,zb_h1",
    trainer: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="TRAINER",
            help="Only what it runs: torchtitan, torchtitan-main, megatron, deepspeed, accelerate, galvatron.",
        ),
    ] = None,
    offload: Annotated[bool, typer.Option("--offload", help="Also try optimizer states in host memory.")] = False,
    offload_activations: Annotated[
        str, typer.Option(metavar="PART,…", help="Fractions of activations in host memory, as in 0,0.5.")
    ] = "0",
    nic: Annotated[
        float, typer.Option("--nic", metavar="GBIT", help="Gbit/s per device between servers; 0: the device's own.")
    ] = 0.0,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="DEVICE:N@GBIT", help="A second cluster: device, number, Gbit/s per device."),
    ] = None,
    between: Annotated[float, typer.Option(metavar="GBIT", help="Gbit/s per device between clusters.")] = 0.0,
    bandwidths: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Gbit/s between each pair of servers; their order is searched too."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write a page, JSON and settings for other trainers.")
    ] = None,
    layerwise: Annotated[
        bool, typer.Option("--layerwise", help="Also search a strategy per layer (Galvatron).")
    ] = False,
    levels: Annotated[
        bool,
        typer.Option("--levels", help="Also shard weights, gradients and states over groups of their own (Frontier)."),
    ] = False,
    reschedule: Annotated[
        bool, typer.Option("--reschedule", help="Also try other schedules on the best layouts, within their memory.")
    ] = False,
    top: Annotated[int, typer.Option("--top", metavar="N", help="Number of layouts to print.", min=1)] = 8,
    json: Json = None,
) -> None:
    """Find the fastest layouts to train a model, with their bottleneck and memory."""
    from poise.plan.training.options import space_of
    from poise.plan.training.plan import TrainPlanQuestion, plan_training
    from poise.plan.training.trainers import restricted, usual_zero

    zero = zero or ",".join(map(str, usual_zero(trainer)))
    space = space_of(
        tensor=tensor, pipeline=pipeline, context=context, expert=expert, expert_tensor=expert_tensor,
        micro_batch=micro_batch, zero=zero, recompute=recompute, schedule=schedules, offload=offload,
        offload_activations=offload_activations,
    )  # fmt: skip
    space = space if trainer is None else restricted(space, trainer)
    ask = TrainPlanQuestion(model, devices, gpus, batch, seq, precision, top, nic, space, json, out, bandwidths)
    ask = replace(ask, also=tuple(also or ()), between_gbit_s=between, reschedule=reschedule)
    plan_training(replace(ask, layerwise=layerwise, levels=levels))


@app.command("run")
@reads(RunOptions)
def train_run(options: RunOptions) -> None:
    """Train a small decoder under a schedule: on N local processes, or as a torchrun rank."""
    from poise.runtime.command import run

    run(options)
