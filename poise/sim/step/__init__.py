"""One training step in simulated time: a pipeline schedule with its messages, gradients and optimizer on shared links.

traffic    what moves between devices (traffic.py); wiring: which links it uses (poise.sim.links)
simulate   the graph of all operations (step_graph.py), the loop (simulate.py), and the result (result.py)
lowered    the same by way of a Program (lowered.py, read.py)
"""

from __future__ import annotations

from poise.sim.links import Wiring
from poise.sim.step.lowered import lowered_step
from poise.sim.step.result import Step
from poise.sim.step.simulate import simulate_step
from poise.sim.step.traffic import Traffic

__all__ = ["Step", "Traffic", "Wiring", "lowered_step", "simulate_step"]
