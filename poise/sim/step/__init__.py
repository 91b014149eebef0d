"""One training step in simulated time: a pipeline schedule with its messages, gradients and optimizer on shared links.

traffic    what moves between devices (traffic.py); wiring: which links it uses (poise.sim.links)
simulate   the step as a Program, which poise.sim.program runs (simulate.py); the result (read.py, result.py)
layouts    the step of a layout (layout.py), with recorded times (recorded.py), or with its transfers on links
           (linked.py, weighed.py), by layers (parts.py) and with passes (edits.py)
"""

from __future__ import annotations

from poise.sim.links import Wiring
from poise.sim.step.result import Step
from poise.sim.step.simulate import simulate_step
from poise.sim.step.traffic import Traffic

__all__ = ["Step", "Traffic", "Wiring", "simulate_step"]
