"""A Program in simulated time, on links that its transfers share.

clock      seconds of tasks and latencies (clock.py)
routes     which links each transfer uses (routes.py)
share      computations of one device at once (share.py)
simulate   the loop over lanes and links (loop.py), and the result (result.py)
"""

from __future__ import annotations

from poise.sim.program.clock import Clock
from poise.sim.program.result import Simulated
from poise.sim.program.simulate import simulate

__all__ = ["Clock", "Simulated", "simulate"]
