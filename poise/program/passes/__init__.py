"""Edits that make a Program of another, one a file. Each is proven like any other Program.

as_messages    broadcasts as messages (broadcasts.py)
sized          bytes of messages (messages.py)
reduced        gradients reduced over replicas of the Program (gradients.py)
bucketed       reductions one after the other as one, as PyTorch DDP has them (buckets.py)
replicated     several replicas of the Program, with those reductions among them (replicas.py)
data_parallel  the three of them (data_parallel.py)
tied           gradients of weights that several stages have summed (ties.py)
gathered       sharded weights made whole for each run (gather.py)
side_by_side   a forward and a backward at once (side_by_side.py)
optimized      one optimizer behind all gradients, new weights gathered behind it (optimizer.py)

Of layers of experts (`poise.program.expert_layer`), each with its makespan as a closed form:

chunked        exchange, collectives of a node and products in chunks side by side (fsmoe.py)
sliced         sums of gradients in slices (slices.py)
fine_grained   tiles that begin as their tokens arrive, blocks of columns that go home when done (comet.py)
shortcut       experts that read what was there before the block (scmoe.py)
"""

from __future__ import annotations

from poise.program.passes.broadcasts import as_messages
from poise.program.passes.buckets import bucketed
from poise.program.passes.data_parallel import data_parallel
from poise.program.passes.gather import gathered
from poise.program.passes.gradients import reduced
from poise.program.passes.messages import sized
from poise.program.passes.optimizer import optimized
from poise.program.passes.replicas import replica, replicated
from poise.program.passes.side_by_side import side_by_side
from poise.program.passes.ties import tied

__all__ = [
    "as_messages", "bucketed", "data_parallel", "gathered", "optimized", "reduced", "replica", "replicated",
    "side_by_side", "sized", "tied",
]  # fmt: skip
