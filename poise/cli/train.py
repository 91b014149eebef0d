"""`poise train`: layouts searched; pipeline schedules made, compared and proven. Thin: the work is in `plan.train`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Training: search layouts; make, compare and prove pipeline schedules.", no_args_is_help=True)

Stages = Annotated[int, typer.Option(metavar="P", help="Ranks of the pipeline.", min=1)]
Microbatches = Annotated[int, typer.Option(metavar="M", help="Microbatches of a step.", min=1)]
Chunks = Annotated[int | None, typer.Option(metavar="V", help="Chunks on each rank.", min=1)]
_EACH = "one number, or one per stage, as in 1,1,1.5"
ForwardTime = Annotated[str, typer.Option("--f", metavar="T,…", help=f"Forward: {_EACH}.")]
InputTime = Annotated[str, typer.Option("--b", metavar="T,…", help="Backward's input-gradient part, the same.")]
WeightTime = Annotated[str, typer.Option("--w", metavar="T,…", help="Backward's weight-gradient part, the same.")]
LinkTime = Annotated[str, typer.Option("--comm", metavar="T,…", help="A message to the next rank, the same.")]
ShardTime = Annotated[str, typer.Option("--s", metavar="T,…", help="Vocabulary pass S of each rank.")]
RestTime = Annotated[str, typer.Option("--t", metavar="T,…", help="Vocabulary pass T of each rank.")]
BarrierTime = Annotated[str, typer.Option("--barrier", metavar="T", help="A barrier of vocabulary passes.")]
AwayTime = Annotated[
    str | None,
    typer.Option(
        "--offload", metavar="T,…", help="Copy of a stage's activations to the host; default (f + b + w) / 2."
    ),
]
BackTime = Annotated[str | None, typer.Option("--reload", metavar="T,…", help="Copy back, the same.")]
Limit = Annotated[
    str | None, typer.Option("--memory-limit", metavar="X,…", help="Full-stage microbatch activations per rank.")
]
By = Annotated[
    str | None, typer.Option("--by", metavar="makespan|span", help="What schedulers that choose make short.")
]
CostsFile = Annotated[
    Path | None, typer.Option("--costs", metavar="FILE", help="Times that `poise calibrate` took from a recorded step.")
]
JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the figures as JSON; - is standard output.")
]


@app.command("schedule")
def schedule(
    name: Annotated[str, typer.Argument(help="The schedule, as in zb_v.", metavar="NAME")],
    stages: Stages,
    microbatches: Microbatches,
    chunks: Chunks = None,
    f: ForwardTime = "1",
    b: InputTime = "1",
    w: WeightTime = "1",
    comm: LinkTime = "0",
    costs: CostsFile = None,
    s: ShardTime = "0",
    t: RestTime = "0",
    barrier: BarrierTime = "0",
    offload: AwayTime = None,
    reload: BackTime = None,
    memory_limit: Limit = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the schedule, as in alive=6."),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the schedule, .json or .txt; all schedules can be.")
    ] = None,
    by: By = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write PyTorch's schedule file.")] = None,
    communications: Annotated[
        bool, typer.Option("--communications", help="Write sends, receives and reductions into it, too.")
    ] = False,
    timeline: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a timeline for Perfetto.")] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw it: timeline and memory.")] = None,
    beside: Annotated[str, typer.Option(metavar="NAME,…", help="Show these beside it.")] = "",
    json_file: JsonFile = None,
) -> None:
    """Make a schedule, prove it, and say how long it takes and what it holds."""
    from poise.plan.train.command import Beyond, Files, Wish, make_schedule

    beyond = Beyond(s, t, barrier, offload, reload)
    wish = Wish(
        stages, microbatches, chunks, f, b, w, comm, memory_limit, json_file, beyond, tuple(given or ()), by, costs
    )
    make_schedule(name, wish, Files(csv, communications, timeline, page, beside, save))


@app.command("schedules")
def schedules(
    stages: Stages,
    microbatches: Microbatches,
    chunks: Chunks = None,
    f: ForwardTime = "1",
    b: InputTime = "1",
    w: WeightTime = "1",
    comm: LinkTime = "0",
    costs: CostsFile = None,
    s: ShardTime = "0",
    t: RestTime = "0",
    barrier: BarrierTime = "0",
    offload: AwayTime = None,
    reload: BackTime = None,
    memory_limit: Limit = None,
    by: By = None,
    json_file: JsonFile = None,
) -> None:
    """Compare all schedules on one input."""
    from poise.plan.train.command import Beyond, Wish, compare_schedules

    beyond = Beyond(s, t, barrier, offload, reload)
    compare_schedules(
        Wish(stages, microbatches, chunks, f, b, w, comm, memory_limit, json_file, beyond, by=by, costs_file=costs)
    )


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="PyTorch's .csv, or what --save wrote.", metavar="FILE")],
    memory_limit: Limit = None,
    json_file: JsonFile = None,
) -> None:
    """Prove that a schedule runs to its end and trains right, or name its fault."""
    from poise.plan.train.command import check_schedule

    check_schedule(file, memory_limit, json_file)


@app.command("compare")
def compare(
    recording: Annotated[Path, typer.Argument(help="What `poise train run --record` wrote.", metavar="STEP.json")],
    beside: Annotated[str, typer.Option(metavar="NAME,…", help="Other schedules, at the costs of this step.")] = "",
    page: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw them on one axis.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Compare a recorded step with its simulation, and with other schedules at the costs that it had."""
    from poise.plan.train.recorded import compare_recorded

    compare_recorded(recording, beside, page, json_file)


Degrees = Annotated[str, typer.Option(metavar="N,…", help="Degrees to search; all that divide, if empty.")]


@app.command("plan")
def plan(
    model: Annotated[str, typer.Argument(help="A built-in model, or its config.json.", metavar="MODEL")],
    devices: Annotated[str, typer.Option("--devices", metavar="NAME", help="The device, as in H100.")],
    gpus: Annotated[int, typer.Option("--gpus", metavar="N", help="How many of them.", min=1)],
    batch: Annotated[int, typer.Option("--batch", metavar="N", help="Sequences of a step.", min=1)],
    seq: Annotated[int, typer.Option("--seq", metavar="N", help="Tokens of a sequence.", min=1)],
    precision: Annotated[str, typer.Option("--precision", metavar="P", help="bf16 or fp8.")] = "bf16",
    tensor: Degrees = "",
    pipeline: Degrees = "",
    context: Degrees = "1",
    expert: Degrees = "",
    expert_tensor: Degrees = "1",
    micro_batch: Degrees = "",
    zero: Annotated[str, typer.Option(metavar="N,…", help="Sharding stages, 0 to 3.")] = "1,3",
    recompute: Annotated[str, typer.Option(metavar="HOW,…", help="none, selective, full.")] = "none,selective,full",
    schedules: Annotated[
        str, typer.Option("--schedules", metavar="NAME,…", help="Pipeline schedules.")
    ] = "one_f_one_b,interleaved,zb_h1",
    offload: Annotated[bool, typer.Option("--offload", help="Also optimizer states in host memory.")] = False,
    offload_activations: Annotated[
        str, typer.Option(metavar="PART,…", help="Parts of the activations in host memory, as in 0,0.5.")
    ] = "0",
    nic: Annotated[
        float, typer.Option("--nic", metavar="GBIT", help="Gbit/s of a device between servers; 0: the device's own.")
    ] = 0.0,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="DEVICE:N@GBIT", help="Another cluster of as many devices, with NICs of its own kind."),
    ] = None,
    between: Annotated[float, typer.Option(metavar="GBIT", help="Gbit/s of a device between clusters.")] = 0.0,
    bandwidths: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Gbit/s between every two servers: their order is searched, too."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write a page, JSON and other trainers' settings.")
    ] = None,
    layerwise: Annotated[
        bool, typer.Option("--layerwise", help="Also a strategy for each layer (Galvatron), for its file.")
    ] = False,
    reschedule: Annotated[
        bool, typer.Option("--reschedule", help="Also try schedules for the best layouts, within their memory.")
    ] = False,
    top: Annotated[int, typer.Option("--top", metavar="N", help="Layouts to show.", min=1)] = 8,
    json_file: JsonFile = None,
) -> None:
    """Find the layouts that train a model fastest, with what binds them and what memory they take."""
    from poise.plan.train.asked import space_of
    from poise.plan.train.plan import Ask, plan_training

    space = space_of(
        tensor=tensor, pipeline=pipeline, context=context, expert=expert, expert_tensor=expert_tensor,
        micro_batch=micro_batch, zero=zero, recompute=recompute, schedule=schedules, offload=offload,
        offload_activations=offload_activations,
    )  # fmt: skip
    ask = Ask(model, devices, gpus, batch, seq, precision, top, nic, space, json_file, out, bandwidths)
    plan_training(
        replace(ask, also=tuple(also or ()), between_gbit_s=between, reschedule=reschedule, layerwise=layerwise)
    )


@app.command("run")
def train_run(
    text: Annotated[Path, typer.Argument(help="A file whose bytes are the data.", metavar="TEXT")],
    schedule: Annotated[str, typer.Option(metavar="NAME|FILE", help="A schedule, or its file.")] = "one_f_one_b",
    ranks: Annotated[
        int | None, typer.Option(metavar="N", help="Of a pipeline: processes to start here.", min=1)
    ] = None,
    microbatches: Annotated[int | None, typer.Option(metavar="M", help="Of a step; default 2 a rank.", min=1)] = None,
    chunks: Chunks = None,
    layers: Annotated[int, typer.Option(help="Of the decoder.", min=1)] = 8,
    hidden: Annotated[int, typer.Option(help="Width.", min=1)] = 128,
    heads: Annotated[int, typer.Option(help="Attention heads.", min=1)] = 4,
    length: Annotated[int, typer.Option(help="Bytes of a sequence.", min=1)] = 128,
    rows: Annotated[int, typer.Option(help="Sequences of a microbatch.", min=1)] = 4,
    replicas: Annotated[int, typer.Option(metavar="D", help="Pipelines side by side.", min=1)] = 1,
    tensor: Annotated[int, typer.Option(metavar="T", help="Processes that share each rank's layers.", min=1)] = 1,
    steps: Annotated[int, typer.Option(help="Steps in all.", min=1)] = 200,
    optimizer: Annotated[str, typer.Option(metavar="NAME", help="adamw or sgd.")] = "adamw",
    lr: Annotated[float, typer.Option(help="Learning rate.", min=0.0)] = 1e-3,
    clip: Annotated[float | None, typer.Option(help="Clip gradients at this norm.", min=1e-12)] = None,
    late: Annotated[
        bool, typer.Option("--post-validate", help="Step before the norm is known; correct later.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of weights and data.", min=0)] = 0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where checkpoints and losses go.")] = Path("train-out"),
    every: Annotated[int, typer.Option("--checkpoint-every", metavar="N", help="Steps.", min=1)] = 100,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in DIR.")] = False,
    record: Annotated[Path | None, typer.Option(metavar="FILE", help="Write when the last step's work ran.")] = None,
    timeline: Annotated[Path | None, typer.Option(metavar="FILE", help="The same for Perfetto, and simulated.")] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", metavar="S", help="A stalled job ends.", min=1.0)] = 300.0,
) -> None:
    """Train a small decoder on a text under a schedule: here on N processes, or as a rank of torchrun."""
    from poise.runtime.command import Wish, run

    wish = Wish(
        text, schedule, ranks, microbatches, chunks, layers, hidden, heads, length, rows, replicas, tensor, steps,
        optimizer, lr, clip, late, seed, out, every, resume, record, timeline, timeout_s,
    )  # fmt: skip
    run(wish)
