"""`poise train`: search layouts; make, compare and check pipeline schedules. The work is in `plan.training`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poise.cli.reading import reads
from poise.cli.spelled import renamed
from poise.plan.training.plan_options import PlanOptions, question_of
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


@app.command("plan")
@reads(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Find the fastest layouts to train a model, with their bottleneck and memory."""
    from poise.plan.training.plan import plan_training

    plan_training(question_of(options))


@app.command("run")
@reads(RunOptions)
def train_run(options: RunOptions) -> None:
    """Train a small decoder under a schedule: on N local processes, or as a torchrun rank."""
    from poise.runtime.command import run

    run(options)
