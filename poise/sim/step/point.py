"""One simulated step as a point of a table: a schedule by name with its transfers over links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from poise.pipeline.costs import Costs
from poise.pipeline.find import make
from poise.sim.links import Wiring
from poise.sim.step.result import Step
from poise.sim.step.simulate import simulate_step
from poise.sim.step.traffic import Traffic


def transferred(
    schedule: str, ranks: int, microbatches: int, costs: Costs, traffic: Traffic | None = None, *, per_node: int = 1,
    scaleup_bw: float = 450e9, scaleout_bw: float = 50e9, given: Mapping[str, Any] | None = None,
) -> Step:  # fmt: skip
    """The schedule of a name, run once with `costs` in seconds and its bytes over links (bytes/s, without latency).

    Ranks of a pipeline lie side by side on servers of `per_node`; `given` are the schedule's own parameters.
    ScheduleError for what cannot be.
    """
    made = make(schedule, ranks, microbatches, costs=costs, **(given or {}))
    wiring = Wiring.nodes(ranks, per_node, scaleup_bw=scaleup_bw, scaleout_bw=scaleout_bw)
    return simulate_step(made, costs, traffic or Traffic(), wiring)
