"""The options of `poise ui`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer


@dataclass(frozen=True, slots=True, kw_only=True)
class UiOptions:
    """The options."""

    folder: Annotated[Path, typer.Argument(help="Folder for traces and runs.", metavar="[DIR]")] = Path("poise-ui")
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; this machine's own by default.")
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option(metavar="N", help="Port; 0 takes a free one.", min=0, max=65535)] = 8642
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True
