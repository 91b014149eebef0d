"""Refuses a warm-up that leaves no request to count, before the run where arrival times are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from poise.core.errors import ScenarioError
from poise.core.units import SECOND, ps

if TYPE_CHECKING:
    from poise.workload import Workload

CURE = "shorten the warm-up, or give more requests (duration_s does not shrink with load)"


def check_warmup(workload: Workload, warmup_s: float, until_s: float | None = None, load: float = 1.0) -> None:
    """Raise ScenarioError where the last request arrives within the warm-up, so that none would count.

    Does not check loads whose requests wait for others: when these arrive is known only in the run (`check_counted`).
    """
    if not len(workload) or workload.concurrency or workload.after_offsets is not None:
        return
    stamps = workload.arrival
    known = stamps if until_s is None else stamps[: int(np.searchsorted(stamps, ps(until_s), side="right"))]
    if not len(known):
        raise ScenarioError(
            f"run.until_s = {until_s:g}: the first request arrives after {stamps[0] / SECOND:.4g} s; raise until_s"
        )
    if known[-1] < ps(warmup_s):
        at = "" if load == 1 else f"at load {load:g} "
        raise ScenarioError(
            f"run.warmup_s = {warmup_s:g}: {at}the last of {len(known)} requests arrives after "
            f"{known[-1] / SECOND:.4g} s, so none would count; {CURE}"
        )


def check_counted(requests: int, warmup_s: float) -> None:
    """Raise ScenarioError where a run is over and no request arrived after warm-up."""
    if not requests:
        raise ScenarioError(f"run.warmup_s = {warmup_s:g}: no request arrived after it, so none would count; {CURE}")
