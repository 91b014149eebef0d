"""What a step of training costs: seconds and bytes of a job under a layout.

job        Job (model, cluster, batch, software) and Layout (layout.py: degrees, sharding, recomputation, schedule)
of layers  flops.py, kernels.py (measured tables), layer.py; network.py for collectives by where ranks lie
of steps   step.py: predict one layout, evaluate many (columns.py); memory.py: bytes by class;
           stages.py, transfers.py: seconds and bytes of parts, for a simulation
fitted     figures.py and figures.json, by `bench/fit_training.py`
"""

from __future__ import annotations

from poise.cost.training.job import Job, shape
from poise.cost.training.layout import Layout
from poise.cost.training.step import Prediction, predict

__all__ = ["Job", "Layout", "Prediction", "predict", "shape"]
