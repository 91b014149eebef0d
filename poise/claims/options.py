"""The options of `poise claim`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from poise.scenario.options import Json, Quiet, Ray


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOptions:
    """The options; `json` is a file or `-`."""

    name: Annotated[str, typer.Argument(help="A system that `poise systems` lists.", metavar="NAME")]
    quick: Annotated[bool, typer.Option("--quick", help="Run a tenth of the requests; not a result to keep.")] = False
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of traces; default: POISE_DATA.")] = None
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write report.html and result.json.")] = None
    json: Json = None
    save: Annotated[bool, typer.Option("--save", help="Keep the result; `poise systems` then lists it.")] = False
    jobs: Annotated[str | None, typer.Option(metavar="N", help="Worker processes; default: 1.")] = None
    ray: Ray = None
    quiet: Quiet = False
