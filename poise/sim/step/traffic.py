"""The transfers of a step between devices, and the work after its last gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from poise.core.errors import ScheduleError


@dataclass(frozen=True)
class Traffic:
    """Bytes of one pipeline, and seconds of its optimizer; one number for all stages, or one per stage of the schedule.

    message_bytes: what a stage sends to the next one, and gets back as a gradient.  sync_bytes: what a rank sends to
    reduce the gradients of a stage over its copies in other pipelines, once behind the last backward (`sync` "end") or
    behind each run of them (`sync` "run", as sharded gradients do).  gather_bytes: what a rank receives to have a
    stage's weights whole (FSDP, ZeRO-3): before each run of operations on the stage, from the start of the run before
    on.  optimizer_s: of each rank, when its gradients are there.  update_bytes: what a rank then receives to have the
    weights of a stage again (ZeRO-1, ZeRO-2).  sync_latency_s: of each of these collectives, besides its bytes.
    """

    message_bytes: float | Sequence[float] = 0.0
    sync_bytes: float | Sequence[float] = 0.0
    sync: Literal["end", "run"] = "end"
    gather_bytes: float | Sequence[float] = 0.0
    update_bytes: float | Sequence[float] = 0.0
    optimizer_s: float | Sequence[float] = 0.0
    sync_latency_s: float = 0.0


def spread(name: str, given: float | Sequence[float], count: int, of: str = "stages") -> list[float]:
    """`given` for each of `count`; ScheduleError where the numbers do not fit or are negative."""
    found = [float(given)] * count if isinstance(given, int | float) else [float(each) for each in given]
    if len(found) != count:
        raise ScheduleError(f"{name}: {len(found)} values for {count} {of}; give one, or {count}")
    if not all(each >= 0 for each in found):
        raise ScheduleError(f"{name}: {min(found):g} is negative; give 0 or more")
    return found
