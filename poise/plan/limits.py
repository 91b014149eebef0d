"""Limits of every fleet: dollars, watts, devices of a kind, and the best objective found so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from poise.plan.fleet import Fleet
from poise.plan.goal import Goal


@dataclass(frozen=True, slots=True)
class Limits:
    """devices: the most of each, by name; a device that is not named has no limit.  most: of the objective, where
    that is known before a fleet is tried (devices or dollars per hour)."""

    goal: Goal
    devices: Mapping[str, int] = field(default_factory=dict)
    most: float = float("inf")

    def why(self, fleet: Fleet) -> str:
        """Why a fleet is not worth a trial; empty where it is."""
        for name, count in fleet.by_device.items():
            if count > self.devices.get(name, count):
                return f"{fleet.written} needs {count} × {name}, and there are {self.devices[name]}"
        if self.goal.budget is not None and fleet.price_per_hour > self.goal.budget:
            return (
                f"{fleet.written} costs ${fleet.price_per_hour:.2f} an hour, over the budget of ${self.goal.budget:g}"
            )
        if self.goal.power_w is not None and fleet.power_w > self.goal.power_w:
            return f"{fleet.written} may draw {fleet.power_w:,.0f} W, over the limit of {self.goal.power_w:,.0f} W"
        if value_of(fleet, self.goal) > self.most:
            return "dearer than what was found"
        return ""


def value_of(fleet: Fleet, goal: Goal) -> float:
    """The objective, where it is known before the fleet is tried: energy is not."""
    if goal.minimize == "cost":
        return fleet.price_per_hour
    return float(fleet.devices) if goal.minimize == "gpus" else 0.0
