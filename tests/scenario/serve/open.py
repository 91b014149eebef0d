"""A gateway as `poise serve` plans it, before emulated engines in the same loop."""

from __future__ import annotations

from typing import Any

from poise.scenario.serve.build import Plan, gateway_of
from tests.live.gateway.live import Live


class Open(Live):
    """`Live` with the gateway of a plan; the plan's own engines are not taken up."""

    def __init__(self, plan: Plan, engines: int | list[Any] = 2, speed: float = 20.0) -> None:
        super().__init__(engines, speed=speed, build=lambda control, settings, **given: gateway_of(plan))
        self.control = plan.control
