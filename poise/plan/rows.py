"""Fleets that were simulated as data: rows for frames, and tidy figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from poise.plan.goal import Goal
from poise.plan.share import in_table
from poise.plan.trial import Trial
from poise.report.tidy import Row, between

HEADS = (
    "fleet", "router", "$/h", "devices", "SLO met", "confidence", "TTFT s", "TPOT ms", "kW", "$/Mtok", "J/token"
)  # fmt: skip

UNITS = {
    "price_per_hour": "USD/h", "devices": "", "attainment": "1", "confidence": "1", "ttft_s": "s", "tpot_s": "s",
    "e2e_s": "s", "program_s": "s", "watts": "W", "usd_per_mtok": "USD/Mtok", "j_per_mtok": "J/Mtok", "busy_time": "1",
}  # fmt: skip
"""The figures of a fleet, with their units."""


def record(trial: Trial, goal: Goal, best: Trial | None) -> dict[str, Any]:
    """A plain row: the fleet, whether it is the plan, whether it holds, and its figures; seconds, dollars, watts.

    attainment_half: half of its 95 % interval.  cut: ended early, so that attainment is what it could reach at most.
    """
    fleet = trial.fleet
    figures = {name: _figure(trial, name) for name in UNITS}
    about = {"fleet": fleet.written, "router": fleet.router, "chosen": trial is best, "holds": trial.meets(goal)}
    return {**about, **figures, "attainment_half": trial.spread, "cut": trial.cut}


def tidy(trials: Iterable[Trial], rate: float) -> Iterator[Row]:
    """One row for each figure of each fleet; the share that met the SLO with its interval."""
    for trial in trials:
        for name, unit in UNITS.items():
            if (value := _figure(trial, name)) is None:
                continue
            half = trial.spread if name == "attainment" else None
            ends = between(value, half, share=True)
            yield Row(f"{trial.fleet.written}, {trial.fleet.router}", 1.0, rate, None, name, unit, value, *ends)


def _figure(trial: Trial, name: str) -> float | None:
    if name in ("price_per_hour", "devices"):
        return float(getattr(trial.fleet, name))
    value = getattr(trial, name)
    return None if value is None else float(value)


def cells(trial: Trial) -> Sequence[str]:
    """A fleet's row of a table under `HEADS`."""
    fleet = trial.fleet
    return (
        fleet.written, fleet.router, f"{fleet.price_per_hour:.2f}" if fleet.price_per_hour else "–",
        str(fleet.devices), in_table(trial),
        "–" if trial.confidence is None or trial.cut else f"{100 * trial.confidence:.0f} %",
        _number(trial.ttft_s, 1, ".3f"), _number(trial.tpot_s, 1000, ".1f"), f"{trial.watts / 1000:.2f}",
        _number(trial.usd_per_mtok, 1, ".3f"), _number(trial.j_per_mtok, 1e-6, ".3f"),
    )  # fmt: skip


def _number(value: float | None, times: float, form: str) -> str:
    return "–" if value is None else f"{value * times:{form}}"
