"""One measured training configuration, as its source states it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from poise.cost.training import Job, Layout

Metric = Literal["step_time", "peak_memory", "fits"]
Conditions = tuple[Job, Layout, str, tuple[str, ...], bool]
"""Job, layout, quality, what is assumed, and whether the step ends for all ranks at once."""


@dataclass(frozen=True, slots=True)
class Run:
    """A value in seconds, in bytes, or 1 and 0 for what fitted and what ran out of memory.

    cluster: what names the machines, to hold groups out by.  sweep: runs of one condition, between whose layouts one
    may choose ("" where the row is none's).  quality: A complete conditions, B some assumed.  why: what is missing,
    where there is no prediction.  synchronous: whether the step ends for all ranks at once (else it is a span).
    """

    source: str
    place: str
    engine: str
    device: str
    model: str
    cluster: str
    metric: Metric
    value: float
    job: Job | None = None
    layout: Layout | None = None
    sweep: str = ""
    quality: str = "A"
    assumed: tuple[str, ...] = ()
    why: str = ""
    synchronous: bool = True
