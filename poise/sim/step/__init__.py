"""One training step in simulated time: a pipeline schedule with its messages, gradients and optimizer on shared links.

traffic    what moves between devices (traffic.py); wiring: which links it uses (wiring.py)
flows      transfers that share links (flows.py)
simulate   the graph of all operations (step_graph.py), the loop (simulate.py), and the result (result.py)
"""

from __future__ import annotations

from poise.sim.step.result import Step
from poise.sim.step.simulate import simulate_step
from poise.sim.step.traffic import Traffic
from poise.sim.step.wiring import Wiring

__all__ = ["Step", "Traffic", "Wiring", "simulate_step"]
