"""The graph of a training step: all operations, in picoseconds and bytes, before any is timed."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from poise.core.units import SECOND, ps
from poise.pipeline.costs import Costs
from poise.pipeline.gathers import WITH_WEIGHTS
from poise.pipeline.graph import Graph
from poise.pipeline.op import Kind
from poise.pipeline.rows import OP, rows_of
from poise.pipeline.time import ticks_of
from poise.sim.step.traffic import Traffic, spread

_BACKWARDS = (Kind.B, Kind.W)


class StepGraph:
    """Entries of `pipeline.rows`, with their durations and their users.

    row, op, real: of an entry its row, its operation, and whether it is that operation itself.  ticks: picoseconds.
    users: the entries that wait for its result.  reduces: behind which entries gradients are reduced, and their bytes.
    runs: for each rank the entries that need weights gathered, with the bytes; starting: their places in that list.
    update: bytes of weights that a rank receives behind its optimizer.
    """

    def __init__(self, graph: Graph, costs: Costs, traffic: Traffic) -> None:
        self.graph, self.ranks, stages = graph, len(graph.schedule.ranks), graph.schedule.stages
        self.rows = rows = rows_of(graph, costs.shared_copy)
        self.row = [row for row, (low, high) in enumerate(pairwise(rows.first)) for _ in range(low, high)]
        count, entries = rows.first[-1], rows.entries
        self.op: list[int] = list(range(count)) if entries is None else entries.number.tolist()
        self.real: list[bool] = [True] * count if entries is None else (entries.role == OP).tolist()
        self.stage, self.kind = graph.stage.tolist(), graph.kind.tolist()
        self.ticks = self._ticks(costs)
        self.users: dict[int, list[int]] = {}
        for at, need in enumerate(rows.needs):
            if need >= 0:
                self.users.setdefault(need, []).append(at)
        self._message = spread("message_bytes", traffic.message_bytes, stages)
        self.reduces = self._reductions(spread("sync_bytes", traffic.sync_bytes, stages), traffic.sync)
        gather = spread("gather_bytes", traffic.gather_bytes, stages)
        update = spread("update_bytes", traffic.update_bytes, stages)
        self.runs = [self._runs(rank, gather) for rank in range(self.ranks)]
        self.starting = {at: place for run in self.runs for place, (at, _) in enumerate(run)}
        self.update = [sum(update[stage] for stage in self._own(rank)) for rank in range(self.ranks)]
        self.optimizer = [ps(each) for each in spread("optimizer_s", traffic.optimizer_s, self.ranks, "ranks")]
        self.latency = ps(traffic.sync_latency_s)

    def name(self, at: int) -> str:
        """The operation of an entry."""
        return str(self.graph.at(self.op[at])[2])

    def about(self, at: int) -> str:
        """The stage of an entry."""
        return f"stage {self.stage[self.op[at]]}"

    def message(self, at: int, user: int) -> float:
        """Bytes of the result of an entry: what a stage sends, and gets back as a gradient."""
        sender = at if self.kind[self.op[at]] == Kind.F else user
        size: float = self._message[self.stage[self.op[sender]]]
        return size

    def _ticks(self, costs: Costs) -> list[int]:
        schedule = self.graph.schedule
        durations = costs.at(self.ranks, schedule.stages, schedule.microbatches)
        own = [ticks * SECOND // durations.scale for ticks in ticks_of(self.graph, durations)]
        return self.rows.columns(own, [0] * len(own), durations.barrier * SECOND // durations.scale)[0]

    def _ops(self, rank: int) -> list[tuple[int, int, int]]:
        """Entry, kind and stage of a rank's operations."""
        low, high = self.rows.first[rank], self.rows.first[rank + 1]
        return [(at, self.kind[self.op[at]], self.stage[self.op[at]]) for at in range(low, high) if self.real[at]]

    def _own(self, rank: int) -> set[int]:
        """The stages of a rank."""
        return {stage for _, kind, stage in self._ops(rank) if kind == Kind.F}

    def _runs(self, rank: int, gather: list[float]) -> list[tuple[int, float]]:
        """Where operations on another stage begin. Weight gradients need no weights, so they are part of any run."""
        found, last = [], -1
        for at, kind, stage in self._ops(rank):
            if kind in WITH_WEIGHTS and stage != last:
                last = stage
                if gather[stage]:
                    found.append((at, gather[stage]))
        return found

    def _reductions(self, sync: list[float], when: Literal["end", "run"]) -> dict[int, float]:
        """Behind the last backward of each stage, or of each run of them."""
        found: dict[int, float] = {}
        for rank in range(self.ranks):
            last: dict[int, int] = {}
            for at, kind, stage in self._ops(rank):
                if kind in _BACKWARDS:
                    if when == "run" and last and stage not in last:
                        found |= {behind: sync[before] for before, behind in last.items()}
                        last.clear()
                    last[stage] = at
            found |= {behind: sync[before] for before, behind in last.items()}
        return found
