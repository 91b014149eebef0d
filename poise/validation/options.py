"""The options of `poise validate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from poise.scenario.options import Jobs, Quiet, Ray


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """The options; `json` is a file or `-`."""

    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of measurements; default: POISE_DATA.", metavar="[DIR]", show_default=False),
    ] = None
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the scores as JSON; - for standard output.")
    ] = None
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Scores of an earlier run; exit code 1 if a group got worse.")
    ] = None
    page: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write a page of predicted over measured.")
    ] = None
    answers: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every prediction as a CSV table.")] = None
    spread: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the errors of held-out devices, by kind.")
    ] = None
    jobs: Jobs = None
    ray: Ray = None
    quiet: Quiet = False
