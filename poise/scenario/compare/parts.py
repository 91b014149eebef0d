"""One part of a comparison or a tournament that is run in parts (`poise compare --shard`)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from poise.experiment.parts import finish
from poise.experiment.run import Shard

if TYPE_CHECKING:
    from poise.scenario.options import CompareOptions

_OWN = ("jobs", "ray", "out", "resume", "json", "quiet", "shard")
"""Options in which parts may differ."""


def part_done(options: CompareOptions, shard: Shard, cells: int, interrupted: bool) -> bool:
    """Say that a part is done, in its folder and to the user; returns whether it was interrupted."""
    assert options.out is not None
    if not interrupted:
        given = {name: value for name, value in asdict(options).items() if name not in _OWN}
        finish(options.out, shard, {**given, "scenario": str(options.scenario.resolve())})
    if not options.quiet:
        state = "was interrupted; --resume goes on with it" if interrupted else "is done; `poise merge` joins all parts"
        print(f"Part {shard.number}/{shard.parts} in {options.out}: {cells:,} simulations are there. It {state}.")
    return interrupted
