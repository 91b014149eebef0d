"""The options of `poise whatif`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from poise.scenario.options import By, Jobs, Json, Quiet, Ray


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingOptions:
    """The options; `json` is a file or `-`."""

    recordings: Annotated[
        list[Path],
        typer.Argument(
            help="A recording of `poise serve --record`, or those of all its workers.",
            metavar="RECORDING",
        ),
    ]
    routers: Annotated[
        list[str], typer.Option("--router", metavar="NAME", help="Router to try; each one given is a candidate.")
    ] = field(default_factory=list)
    policies: Annotated[
        list[str], typer.Option(metavar="SLOT=NAME", help="Policy of another slot, in all candidates.")
    ] = field(default_factory=list)
    replicas: Annotated[int | None, typer.Option(metavar="N", help="Number of engines in all candidates.")] = None
    cost: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use this cost of `poise calibrate`; do not fit.")
    ] = None
    by: By = None
    jobs: Jobs = None
    ray: Ray = None
    json: Json = None
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write report, JSON and cost.")] = None
    quiet: Quiet = False
