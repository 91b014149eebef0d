"""Caveats of a recording, and of a cost that was fitted to it."""

from __future__ import annotations

from poise.core.records.records import STATUS
from poise.recordings.calibrate import Calibration
from poise.recordings.cluster import BATCHING, unknown
from poise.recordings.recording import Recorded
from poise.report.wording import significant

MISSING = 0.05
"""The least share of requests that are not simulated for a caveat."""

BIASED = 0.1
"""The ratio of observed to simulated times from which a replica is named."""


def of_the_recording(day: Recorded) -> list[str]:
    """What the recording lacks, or changed."""
    lines = list(day.notes)
    total = sum(day.counts[name] for name in STATUS)
    missing = total - len(day.workload)
    if missing > MISSING * total:
        lines.append(
            f"{missing:,} of {total:,} requests have no end whose tokens are known; they are not simulated, and the "
            "load is less than it was"
        )
    if names := unknown(day.header):
        what = "how the engines batch" if len(names) == len(BATCHING) else f"the engines' {', '.join(names)}"
        lines.append(f"the recording does not say {what}; vLLM's defaults stand in")
    return lines


def of_the_cost(calibration: Calibration | None) -> list[str]:
    """Coefficients that the load did not identify, and engines that differ from the others."""
    if calibration is None:
        return []
    lines = [f"{name} is not known from the recording: {why}" for name, why in calibration.kept.items()]
    for replica, ratio in calibration.bias.items():
        if abs(ratio - 1) > BIASED:
            much = f"{significant(100 * abs(1 / ratio - 1), 2)} % {'slower' if ratio < 1 else 'faster'}"
            lines.append(f"replica {replica} is {much} than simulated: the fit knows one kind of engine")
    return lines
