"""Tools that the answers of sessions call, some of which hang."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from poise.core.errors import ScenarioError
from poise.core.request import NO_TOOL
from poise.workload.draw import durations, positive, stream
from poise.workload.lengths import Spec, length
from poise.workload.rows import later
from poise.workload.table import Workload


def with_tool(workload: Workload, tool: str, *, hung: float = 0.0, hung_s: Spec = 300, seed: int = 0) -> Workload:
    """Return sessions whose every answer but the last calls `tool`, so that policies know that they go on.

    hung: the share of calls that take `hung_s` seconds, a number or a distribution, instead of the time to the next
    turn. Raises ScenarioError for a workload without sessions.
    """
    if workload.endless is not None:
        return later(workload, lambda rows: with_tool(rows, tool, hung=hung, hung_s=hung_s, seed=seed))
    if workload.after_ids is None or workload.delay is None:
        raise ScenarioError("there are no sessions whose answers could call a tool; build them by sessions")
    called = np.full(len(workload), NO_TOOL, np.int16)
    called[workload.after_ids] = 0
    delay = workload.delay
    if positive("hung", hung, zero=True):
        rng = stream(seed, "hung tools")
        long = durations("hung_s", length(hung_s, "hung_s").draw(rng, len(workload)))
        chosen = (rng.random(len(workload)) < hung) & (delay > 0)
        delay = np.where(chosen, long, delay).astype(np.int64)
    return replace(workload, tool=called, tools=(tool,), delay=delay)
