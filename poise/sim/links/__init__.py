"""Links between ranks, and transfers that share them: wiring.py says which links there are, flows.py shares them."""

from __future__ import annotations

from poise.sim.links.flows import Flows
from poise.sim.links.wiring import Path, Wiring

__all__ = ["Flows", "Path", "Wiring"]
