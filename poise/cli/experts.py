"""`poise experts`: where the copies of experts live. The work is in `plan.experts`."""

from __future__ import annotations

import typer

from poise.cli.reading import reads
from poise.plan.experts.options import ExpertOptions

app = typer.Typer(help="Place the experts of a mixture on ranks, from a recorded load.", no_args_is_help=True)


@app.callback()
def _experts() -> None:
    """One command so far; a callback keeps its name."""


@app.command("plan")
@reads(ExpertOptions)
def plan(options: ExpertOptions) -> None:
    """Plan which rank holds which expert: balance by layer, step times, bytes to move, and files for engines."""
    from poise.plan.experts.command import plan_experts

    plan_experts(options)
