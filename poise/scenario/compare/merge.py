"""`poise merge`: joins the parts of a comparison or a tournament, as if one process had run all of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from poise.experiment.parts import finish, join
from poise.experiment.run import Shard
from poise.scenario.compare.command import CompareOptions, compare_file
from poise.scenario.write import check_writable

_OWN = ("jobs", "ray", "out", "resume", "json", "quiet", "shard")
"""Options that may differ between parts."""


def finish_part(options: CompareOptions, shard: Shard, out: Path) -> None:
    """Mark the part in a folder as complete, with its options."""
    asked = {name: value for name, value in asdict(options).items() if name not in _OWN}
    finish(out, shard, {**asked, "scenario": str(options.scenario.resolve())})


def merge_parts(
    out: Path, parts: list[Path], *, jobs: str | None, ray: str | None, json: str | None, quiet: bool
) -> bool:
    """Join the parts in `out`, run what could not be known before all were there, and write the result.

    Returns whether it was interrupted.
    """
    check_writable(out, "OUT", folder=True)
    options: dict[str, Any] = join(out, parts)
    options["scenario"] = Path(options["scenario"])
    return compare_file(
        CompareOptions(**options, jobs=jobs, ray=ray, out=out, resume=True, json=json, quiet=quiet, shard=None)
    )
