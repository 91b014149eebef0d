"""A plan beside the next best fleets as a matplotlib figure (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from poise.plan.goal import Goal
from poise.plan.trial import Trial
from poise.report.plots import Column, dots
from poise.report.wording import write

SHOWN = 12
"""Fleets at most."""

LATENCIES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "end to end", "program_s": "program"}


def beside(trials: Sequence[Trial], goal: Goal) -> Figure:
    """Price, devices, power, the share that met the SLO with its interval, and the latencies that the goal limits.

    trials: in order, the plan first; those that were cut short have no latencies.
    """
    some = trials[:SHOWN]
    columns = [
        Column("price", "$/h", [each.fleet.price_per_hour or None for each in some]),
        Column("devices", "", [float(each.fleet.devices) for each in some], kind="count"),
        Column("power drawn", "kW", [each.watts / 1000 for each in some]),
        Column(
            "SLO met", "", [each.attainment for each in some], [each.spread for each in some], "share",
            (f"target {write(goal.attainment, 'share')}", goal.attainment),
        ),
    ]  # fmt: skip
    for name, title in LATENCIES.items():
        if (limit := getattr(goal.slo, name)) is not None:
            values = [getattr(each, name) for each in some]
            at = f"{title} at {write(goal.attainment, 'share')}"
            columns.append(Column(at, "", values, kind="seconds", limit=(f"limit {write(limit, 'seconds')}", limit)))
    return dots([f"{each.fleet.written}, {each.fleet.router}" for each in some], columns)
