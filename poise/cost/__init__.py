"""Estimators: what a step costs, from the hardware's datasheet and the model's shape."""

from poise.cost.memory import kv_blocks
from poise.cost.roofline import Roofline
from poise.cost.step import RooflineEstimator

__all__ = ["Roofline", "RooflineEstimator", "kv_blocks"]
