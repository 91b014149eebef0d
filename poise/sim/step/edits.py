"""Passes by name with their parameters, as edits of the Program of a step."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf

from poise.core.errors import ScenarioError
from poise.program import Program, Task
from poise.program.passes import bucketed, side_by_side
from poise.program.passes.buckets import CAP, FIRST, MIB
from poise.program.passes.simple_fsdp import wrapped
from poise.sim.program.share import SLOWDOWN

Seconds = Callable[[Task], float]
"""Of a computation, and of a collective alone on its link."""


@dataclass(frozen=True, slots=True)
class Bucketed:
    """Sums of gradients joined until they have `cap_mb` MiB of gradients, a rank's first ones `first_mb`."""

    cap_mb: float = CAP / MIB
    first_mb: float = FIRST / MIB

    def __post_init__(self) -> None:
        for name in ("cap_mb", "first_mb"):
            if not getattr(self, name) >= 0:
                raise ScenarioError(f"{name}: {getattr(self, name):g} MiB; give 0 (each gradient alone) or more")

    def edit(self, program: Program, seconds: Seconds) -> Program:
        """The Program with its buckets."""
        cap = self.cap_mb * MIB
        return bucketed(program, cap, min(cap, self.first_mb * MIB))


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Gathers and scatters of sharded weights merged as long as they hide (SimpleFSDP).

    memory_gb: for the whole weights of two buckets.
    """

    memory_gb: float = inf

    def __post_init__(self) -> None:
        if not self.memory_gb > 0:
            raise ScenarioError(f"memory_gb: {self.memory_gb:g}; give more than 0")

    def edit(self, program: Program, seconds: Seconds) -> Program:
        """The Program with merged collectives."""
        return wrapped(program, seconds, self.memory_gb * 1e9)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Each forward and the backward behind it at once on a device; each then takes `slowdown` times as long."""

    serial: Collection[int] = ()
    together: bool = False
    slowdown: float = SLOWDOWN

    def __post_init__(self) -> None:
        if not 1 <= self.slowdown < inf:
            raise ScenarioError(f"slowdown: {self.slowdown:g} times as long; give 1 or more")

    def edit(self, program: Program, seconds: Seconds) -> Program:
        """The Program with pairs."""
        return side_by_side(program, self.serial, self.together)


Edit = Bucketed | Wrapped | SideBySide

EDITS: dict[str, type[Edit]] = {"bucketed": Bucketed, "wrapped": Wrapped, "side_by_side": SideBySide}
"""The passes that a step may be given, by their names."""

OF_THE_LAYOUT = {
    "as_messages": "every step has it",
    "sized": "bytes of messages are those of the layout",
    "reduced": "gradients are summed by the layout's data, context and zero",
    "gathered": "weights are gathered by the layout's zero",
    "optimized": "the optimizer is that of the layout",
    "replicated": "replicas are the layout's data",
    "data_parallel": "replicas are the layout's data, and bucketed gives the buckets",
    "tied": "tied weights are counted in the layout's sums",
}
"""Passes that follow from the layout, and why."""


def check_order(names: list[str]) -> None:
    """ScenarioError for passes that cannot stand in this order, or not together."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ScenarioError(f"{twice} stands twice; keep it once")
    if "wrapped" in names and "bucketed" in names:
        raise ScenarioError("wrapped makes buckets of its own, so bucketed cannot stand beside it; leave one out")
    if "wrapped" in names and "side_by_side" in names[: names.index("wrapped")]:
        raise ScenarioError(
            "side_by_side stands before wrapped, which then misses the backwards on the second lane; put wrapped first"
        )
