"""One cell of a comparison: one simulation and its stored results, in this process or in another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import Run
from poise.core.units import ps
from poise.policies import Policies
from poise.report.backlog import backlog_growth
from poise.report.blocks import Blocks, Latency, bins_of, cut
from poise.report.metrics import measure
from poise.report.shares import independent
from poise.scenario.compare.study import Place, Setting
from poise.scenario.run import SLICED, period
from poise.scenario.simulate import simulate
from poise.sim.terms import Saving, Stopping, Watching
from poise.workload.begin import leaders

if TYPE_CHECKING:
    from poise.report.blame import Means
    from poise.report.figures import Curves
    from poise.report.worst import Rows
    from poise.workload import Workload

Arrays = dict[str, NDArray[Any]]
"""Arrays by a path with slashes, as in `blocks/sums/met`."""


@dataclass(frozen=True, slots=True)
class Task:
    """A cell to be simulated. cut: keep the run in bins of time.  draw: keep curves.  timeline: and samples of the
    replicas and the slowest requests.  rows: and a row for each request."""

    place: Place
    setting: Setting
    workload: Workload
    policies: Policies
    cut: bool = False
    draw: bool = False
    timeline: bool = False
    rows: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """The results of one simulation. figures: `Metrics` as plain data.  growth: of the backlog, per arrival.

    growth_half: half of the growth's interval, from chance in this run.
    independent: its effective number of independent requests (see `shares.independent`).
    arrays: points of curves as [2, points], `latency/NAME` (distributions, see `latency_curves`) and
    `timeline/WHAT/replica N` (see `replica_curves`); `worst/NAME` (see `worst.worst`); `blame/SAMPLE` (see
    `blame.packed`); `blocks/…`, the run cut in time.
    rows: a row for each request as a Parquet file, on request.
    """

    place: Place
    figures: dict[str, Any]
    growth: float | None
    refusals: dict[str, int] = field(default_factory=dict)
    wall_s: float = 0.0
    cpu_s: float = 0.0
    arrays: Arrays = field(default_factory=dict)
    independent: float = 1.0
    growth_half: float | None = None
    rows: bytes | None = None

    def blocks(self) -> Blocks | None:
        """The run cut into bins of time; None where it was not, or had no length."""
        return _unpacked(self.arrays)

    def curves(self, kind: str) -> dict[str, Any]:
        """`latency`: curves by name.  `timeline`: curves by what they show and by line."""
        fields: dict[str, Any] = {}
        for name, points in self.arrays.items():
            first, *parts = name.split("/", 2)
            if first == kind:
                home = fields if len(parts) == 1 else fields.setdefault(parts[0], {})
                home[parts[-1]] = (points[0].tolist(), points[1].tolist())
        return fields

    def blame(self) -> dict[str, Means] | None:
        """Latency attribution (see `blame.samples`); None where it was not recorded."""
        from poise.report.blame import unpacked

        found = {name: each for name, each in self.arrays.items() if name.startswith("blame/")}
        return {name.removeprefix("blame/"): unpacked(each) for name, each in found.items()} or None

    def worst(self) -> dict[str, Rows]:
        """The slowest requests by latency."""
        from poise.report.worst import as_rows

        return {
            name.removeprefix("worst/"): as_rows(each) for name, each in self.arrays.items() if name[:6] == "worst/"
        }


def simulated(task: Task, stopped: Callable[[], bool]) -> Cell | None:
    """Simulate a cell; None when `stopped` asks for an end meanwhile."""
    run = run_of(task, stopped)
    if run is None:
        return None
    cell = cell_of(task, run)
    if not task.rows:
        return cell
    from poise.report.requests import packed_requests

    return replace(cell, rows=packed_requests(run))


def run_of(task: Task, stopped: Callable[[], bool]) -> Run | None:
    """The simulation of a cell; None when `stopped` asks for an end meanwhile."""
    setting, workload = task.setting, task.workload

    def progress(ended: int, total: int) -> None:
        if stopped():
            raise KeyboardInterrupt

    run = simulate(
        setting.cluster,
        workload,
        task.policies,
        cost=setting.cost,
        belief=setting.belief,
        seed=task.place.seed,
        known=setting.known,
        stopping=Stopping(until_s=setting.until_s, drain=setting.drain),
        saving=Saving(
            sample_s=period(workload) if task.timeline else 0.0, blame=task.timeline and len(workload) <= SLICED
        ),
        watching=Watching(progress=progress),
    )
    return None if run.interrupted or stopped() else run


def cell_of(task: Task, run: Run) -> Cell:
    """The stored results of a run."""
    setting, leading = task.setting, leaders(task.workload)
    stamps = task.workload.arrival[leading]
    known = stamps if setting.until_s is None else stamps[stamps <= ps(setting.until_s)]
    last = int(known.max()) if len(known) else 0
    arrays = _curves(run, task) if task.draw else {}
    if task.cut and (bins := bins_of(known, ps(setting.warmup_s))):
        arrays |= _packed(cut(run, setting.slo, stamps, bins, warmup_s=setting.warmup_s))
    growth = backlog_growth(run, last, warmup_s=setting.warmup_s, leaders=leading)
    return Cell(
        task.place,
        replace(measure(run, setting.cluster, setting.slo, warmup_s=setting.warmup_s), blame=None).as_dict(),
        growth.value,
        dict(run.refusals),
        run.wall_s,
        run.cpu_s,
        arrays,
        independent(run, setting.warmup_s),
        growth.half,
    )


def _curves(run: Run, task: Task) -> Arrays:
    """The charts' data of a run."""
    from poise.report.blame import packed, samples
    from poise.report.curves import latency_curves, replica_curves
    from poise.report.faults import fault_curves
    from poise.report.scaling import pool_curves
    from poise.report.worst import worst

    drawn: dict[str, Curves] = {"latency": latency_curves(run, task.setting.warmup_s)}
    if task.timeline:
        sized = pool_curves(run, [pool.name or str(at) for at, pool in enumerate(task.setting.cluster.pools)])
        timeline = replica_curves(run) | sized | fault_curves(run)
        drawn |= {f"timeline/{what}": lines for what, lines in timeline.items()}
    arrays = {f"{kind}/{name}": np.array(points) for kind, lines in drawn.items() for name, points in lines.items()}
    if task.timeline:
        arrays |= {f"worst/{name}": each for name, each in worst(run, task.setting.warmup_s).items()}
        arrays |= {f"blame/{name}": packed(each) for name, each in (samples(run, task.setting.warmup_s) or {}).items()}
    return arrays


def _packed(blocks: Blocks) -> Arrays:
    arrays: Arrays = {f"blocks/sums/{name}": each for name, each in blocks.sums.items()}
    for name, latency in blocks.latencies.items():
        arrays[f"blocks/edges/{name}"] = latency.edges
        arrays[f"blocks/counts/{name}"] = latency.counts
        arrays[f"blocks/totals/{name}"] = latency.totals
        arrays[f"blocks/variance/{name}"] = np.array(latency.variance)
    return arrays


def _unpacked(arrays: Arrays) -> Blocks | None:
    def under(part: str) -> Arrays:
        start = f"blocks/{part}/"
        return {name.removeprefix(start): each for name, each in arrays.items() if name.startswith(start)}

    sums, edges, counts, totals, variance = map(under, ("sums", "edges", "counts", "totals", "variance"))
    if not sums:
        return None
    latencies = {name: Latency(edges[name], counts[name], totals[name], float(variance[name])) for name in edges}
    return Blocks(len(sums["counted"]), sums, latencies)
