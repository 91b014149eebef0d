"""`poise calibrate` of a recorded training step: the measured costs, and the step next to its simulation."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from poise.pipeline.costs import Costs
from poise.pipeline.saved import costs_text
from poise.recordings.command import Fit
from poise.recordings.output import spoken
from poise.report.files import replacing
from poise.report.table import show
from poise.runtime.recording import Recording, costs_of
from poise.scenario.write import check_json, check_writable, put_json

_OPTIONS = ("f", "b", "w", "comm")


def calibrate_step(fit: Fit) -> None:
    """Read the recording, print what follows from it, and write its costs and figures where asked."""
    check_json(fit.json)
    if fit.out is not None:
        check_writable(fit.out, "--out")
    recording = Recording.load(fit.recording)
    costs = costs_of([recording])
    fields = figures(recording, costs)
    put_json(fields, fit.json)
    if not fit.quiet and fit.json != "-":
        _print(fit.recording, recording, costs, fields)
    if fit.out is not None:
        with replacing(fit.out) as file:
            file.write(costs_text(costs, unit="ms", source=fit.recording.name).encode())
        if not fit.quiet:
            print(f"Wrote {fit.out}; `poise train schedules --costs {fit.out}` takes it", file=spoken(fit.json))


def figures(recording: Recording, costs: Costs) -> dict[str, Any]:
    """The costs in milliseconds, the step as measured and as simulated with them, and the peak memory of each rank."""
    timing = recording.timing()
    chunk = recording.schedule.chunk
    return {
        "costs_ms": {name: [float(each) for each in getattr(costs, name)] for name in _OPTIONS},
        "measured_ms": recording.makespan_ms,
        "simulated_ms": float(timing.makespan),
        "peak_measured": [
            float(chunk * max((event.held for event in row), default=0)) for row in recording.ranks
        ],
        "peak_simulated": [float(each) for each in timing.memory.peaks],
        "bytes": [max((event.bytes for event in row), default=0) for row in recording.ranks],
    }  # fmt: skip


def options(costs: Costs) -> str:
    """The costs as options of `poise train schedule`, to three digits of a microsecond."""
    return " ".join(f"--{name} {','.join(map(_short, getattr(costs, name)))}" for name in _OPTIONS)


def _print(path: Path, recording: Recording, costs: Costs, fields: dict[str, Any]) -> None:
    schedule = recording.schedule
    rows = [
        (str(stage), *(f"{float(getattr(costs, name)[stage]):.4g}" for name in ("f", "b", "w")))
        for stage in range(schedule.stages)
    ]
    title = f"{path}: {schedule.name or 'a schedule'}, {schedule.microbatches} microbatches, medians in ms"
    show(title, ("stage", "forward", "input gradient", "weight gradient"), rows)
    measured, simulated = fields["measured_ms"], fields["simulated_ms"]
    print(f"step: {measured:.4g} ms measured, {simulated:.4g} ms simulated ({100 * (simulated / measured - 1):+.1f} %)")
    print("held:", " ".join(f"{each:g}" for each in fields["peak_measured"]), "full-stage activations at most, by rank")
    print(f"for poise train schedule: {options(costs)}")


def _short(value: Fraction) -> str:
    return f"{float(value):.6f}".rstrip("0").rstrip(".")
