"""Pipeline schedules of training: made, written and read, proven, timed.

schedule   Schedule of operations F, I, W, B and others (op.py); text.py (text, JSON), csv.py (PyTorch's files),
           communicate.py
proof      check (check.py): dependencies (graph.py), recomputing and copies (copies.py), vocabulary passes
           (vocabulary.py), versions (versions.py), deadlock (rows.py), message order (messages.py), memory (memory.py)
time       time (time.py) with Costs (costs.py): makespan, bubbles, memory over time; perfetto.py
made by    schedules/, a file each, found by name (find.py); from greedy.py, block.py and justify.py, shards.py
           (vocabulary), wave.py and offload.py (PipeOffload), conflicts.py and along.py (SkipPipe)
searched   for a shop.py: seeds from family.py and modulo.py, improved by squeeze.py and search.py, made long by
           steady.py, measured against bound.py or exact.py (certified.py)
beside     recompute.py; partition.py (layers to stages), placement.py (nodes to stages), delay.py (what optimizers do
           about late gradients)
"""

from __future__ import annotations

from poise.pipeline.check import Proof, check
from poise.pipeline.costs import Costs
from poise.pipeline.find import find, make, names
from poise.pipeline.memory import Weights
from poise.pipeline.op import B, F, I, Kind, Op, W
from poise.pipeline.schedule import Schedule
from poise.pipeline.time import Timing, time

__all__ = [
    "B",
    "Costs",
    "F",
    "I",
    "Kind",
    "Op",
    "Proof",
    "Schedule",
    "Timing",
    "W",
    "Weights",
    "check",
    "find",
    "make",
    "names",
    "time",
]
