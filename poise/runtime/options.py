"""The options of `poise train run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options."""

    text: Annotated[
        Path, typer.Argument(help="The training data: a text file, or documents in a .jsonl file.", metavar="TEXT")
    ]
    model: Annotated[
        Path | None,
        typer.Option(metavar="config.json", help="The model; default: a small decoder of the sizes below."),
    ] = None
    data: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="bytes, packed or padded; default: packed documents of .jsonl, else bytes."),
    ] = None
    schedule: Annotated[str, typer.Option(metavar="NAME|FILE", help="A schedule by name or file.")] = "one_f_one_b"
    ranks: Annotated[int | None, typer.Option(metavar="N", help="Pipeline ranks: processes to start here.", min=1)] = (
        None
    )
    microbatches: Annotated[
        int | None, typer.Option(metavar="M", help="Microbatches per step; default: 2 per rank.", min=1)
    ] = None
    chunks: Annotated[int | None, typer.Option(metavar="V", help="Model chunks per rank.", min=1)] = None
    layers: Annotated[int | None, typer.Option(help="Layers of the small decoder; default: 8.", min=1)] = None
    hidden: Annotated[int | None, typer.Option(help="Its hidden size; default: 64.", min=1)] = None
    heads: Annotated[int | None, typer.Option(help="Its attention heads; default: 4.", min=1)] = None
    length: Annotated[int, typer.Option(help="Tokens per sequence.", min=1)] = 128
    rows: Annotated[int, typer.Option(help="Sequences per microbatch.", min=1)] = 4
    replicas: Annotated[int, typer.Option(metavar="D", help="Data-parallel pipelines.", min=1)] = 1
    bucket_mb: Annotated[
        float | None,
        typer.Option(metavar="MIB", help="Gradients of replicas that are summed at once; default: 25 MiB.", min=0.0),
    ] = None
    tensor: Annotated[int, typer.Option(metavar="T", help="Tensor-parallel degree within a rank.", min=1)] = 1
    steps: Annotated[int, typer.Option(help="Training steps.", min=1)] = 100
    optimizer: Annotated[str, typer.Option(metavar="NAME", help="Optimizer: adamw or sgd.")] = "adamw"
    lr: Annotated[float, typer.Option(help="Learning rate, the peak of its schedule.", min=0.0)] = 1e-3
    lr_schedule: Annotated[
        str, typer.Option(metavar="NAME", help="constant, linear, cosine, wsd, uba:phi=1 or refined:norms=FILE.")
    ] = "constant"
    warmup: Annotated[int, typer.Option(metavar="N", help="First steps, in which the rate rises.", min=0)] = 0
    weight_decay: Annotated[
        float | None, typer.Option(help="Of matrices; default: 0.01 with adamw, 0 with sgd.", min=0.0)
    ] = None
    precision: Annotated[str, typer.Option(metavar="TYPE", help="fp32, or bf16 or fp16 by autocast.")] = "fp32"
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Keep inputs of layers alone; run them again in the backward.")
    ] = False
    compiled: Annotated[bool, typer.Option("--compile", help="Compile layers by torch.compile.")] = False
    clip: Annotated[float | None, typer.Option(help="Clip gradients at this norm.", min=1e-12)] = None
    late: Annotated[
        bool, typer.Option("--post-validate", help="Update before the gradient norm is known; correct afterwards.")
    ] = False
    seed: Annotated[int, typer.Option(help="Random seed for weights and data.", min=0)] = 0
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for checkpoints and losses.")] = Path("train-out")
    every: Annotated[int, typer.Option("--checkpoint-every", metavar="N", help="Steps between checkpoints.", min=1)] = (
        100
    )
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint in DIR.")] = False
    metrics: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Write loss, rate, norms and speed of each step.")
    ] = None
    tensorboard: Annotated[Path | None, typer.Option(metavar="DIR", help="Write them for TensorBoard, too.")] = None
    recording: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Write the last step's operation times.")
    ] = None
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the last step and its simulation for Perfetto.")
    ] = None
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="S", help="Seconds after which a stalled job is stopped.", min=1.0)
    ] = 300.0
