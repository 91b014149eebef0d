"""The figures of one schedule with given costs: time, bubbles of each kind, memory, messages, gathers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from poise.pipeline.check import check
from poise.pipeline.costs import Costs
from poise.pipeline.find import make, takes
from poise.pipeline.gathers import gathers
from poise.pipeline.memory import Weights
from poise.pipeline.time import time


@dataclass(frozen=True, slots=True)
class Figures:
    """Times in the unit of the costs, memory in activations that a full stage keeps of one microbatch.

    makespan: from the first start to the last end.  work: of the busiest rank.  bubble: what the rank that idles most
    waits of the makespan.  span: the longest from first start to last end of a rank.  span_bubble: the largest wait
    within it.  peak, least_peak: of the ranks that hold most and least.  messages: tensors of a whole boundary between
    two ranks.  gathers: full-stage weights that a rank receives where they are sharded.  copies: full stages of
    weights that a rank keeps.
    """

    makespan: float
    work: float
    bubble: float
    span: float
    span_bubble: float
    peak: float
    least_peak: float
    messages: int
    gathers: float
    copies: float

    @property
    def bubble_part(self) -> float:
        """The bubble as a part of the makespan."""
        return self.bubble / self.makespan

    @property
    def bubble_ratio(self) -> float:
        """The bubble over the time without any."""
        return self.bubble / (self.makespan - self.bubble)

    @property
    def span_part(self) -> float:
        """The part of the longest span that the busiest rank does not work: as Zero Bubble counts."""
        return 1 - self.work / self.span


def figures(
    schedule: str, ranks: int, microbatches: int, costs: Costs | None = None, *, kept: float = 1.0,
    limit: float | None = None, fitted: bool = True, given: Mapping[str, Any] | None = None,
) -> Figures:  # fmt: skip
    """Make the schedule of a name, prove it and run it; ScheduleError for what cannot be.

    `costs` also reach schedules whose order depends on them, unless not `fitted`. `kept` is the part of an activation
    that stays from the input gradient to the weight gradient, `limit` the most activations of a rank over the number of
    ranks, `given` the schedule's own parameters.
    """
    more = {name: int(each) if _whole(each) else each for name, each in (given or {}).items()}
    more |= {"kept": Fraction(str(kept))} if "kept" in takes(schedule) else {}
    most = None if limit is None else limit * ranks
    made = make(schedule, ranks, microbatches, costs=costs if fitted else None, memory_limit=most, **more)
    weights = Weights(kept=Fraction(str(kept)))
    proof, timing = check(made, memory_limit=most, weights=weights), time(made, costs, weights=weights)
    numbers = {
        "makespan": timing.makespan, "work": max(timing.busy), "bubble": timing.bubble_global,
        "span": max(timing.spans), "span_bubble": timing.bubble_span, "peak": max(proof.peak_memory),
        "least_peak": min(proof.peak_memory), "gathers": max(gathers(made)),
        "copies": max(sum(rank in home for home in made.homes) for rank in range(ranks)) * made.chunk,
    }  # fmt: skip
    return Figures(messages=proof.messages, **{name: float(each) for name, each in numbers.items()})


def _whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()
