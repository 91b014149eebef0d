"""A schedule by its name and the options of a command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poise.pipeline import Costs, Schedule
    from poise.plan.training.schedule_options import PipelineOptions


def named(name: str, options: PipelineOptions, costs: Costs, *, by: str | None, given: Sequence[str]) -> Schedule:
    """The schedule of a name, made with the options that it takes."""
    from poise.pipeline import make
    from poise.pipeline.find import read_given

    chosen = {"chunks": options.chunks, "by": by}
    more: dict[str, Any] = {word: value for word, value in chosen.items() if value is not None}
    more |= read_given(name, given)
    return make(name, options.ranks, options.microbatches, costs=costs, memory_limit=options.limit, **more)
