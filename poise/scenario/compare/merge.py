"""`poise merge`: joins the parts of a comparison or a tournament, as if one process had run all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from poise.experiment.parts import join
from poise.scenario.compare.command import compare_file
from poise.scenario.options import CompareOptions
from poise.scenario.write import check_writable


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
