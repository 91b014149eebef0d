"""Estimators: what a step costs, from the hardware's datasheet and the model's shape, or from a recording."""

from poise.cost.fitted import Fitted, FittedEstimator
from poise.cost.measured import Measured, MeasuredEstimator
from poise.cost.memory import held_tokens, kv_blocks
from poise.cost.roofline import Roofline
from poise.cost.step import RooflineEstimator

__all__ = [
    "Fitted",
    "FittedEstimator",
    "Measured",
    "MeasuredEstimator",
    "Roofline",
    "RooflineEstimator",
    "held_tokens",
    "kv_blocks",
]
