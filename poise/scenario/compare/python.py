"""`ps.compare`: the Python interface of comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from poise.core.errors import UserError
from poise.core.spec import Belief, Cluster, Slo
from poise.experiment.workers import Workers
from poise.report.figures import ATTAINMENT, E2E, GOODPUT, Figure, deciding
from poise.scenario.compare.run import run
from poise.scenario.compare.study import SEEDS, Setting, Study
from poise.scenario.idle import check_called

if TYPE_CHECKING:
    from poise.experiment.progress import Meter
    from poise.policies import Policies
    from poise.scenario.compare.comparison import Comparison
    from poise.scenario.simulate import Cost
    from poise.workload import Workload


def compare(
    cluster: Cluster,
    workload: Workload | Callable[[int, float], Workload],
    policies: Mapping[str, Policies],
    *,
    loads: Sequence[float] = (1.0,),
    seeds: int | Sequence[int] | None = None,
    slo: Slo | None = None,
    by: str | None = None,
    target: float = 0.9,
    find_collapse: bool = False,
    cost: Cost | None = None,
    belief: Belief | None = None,
    warmup_s: float = 0.0,
    until: float | None = None,
    drain: bool = True,
    draw: bool = False,
    jobs: int = 1,
    ray: str = "",
    progress: Meter | None = None,
) -> Comparison:
    """Compare policies by name at several loads, all under the same requests, faults and ties.

    workload: a function of (seed, load) that makes generated traffic, or a `Workload` as it stands: a recording, which
    is scaled to each load, and whose intervals come from blocks of time.  loads: factors on its rate.
    seeds: how many, or which (default 5 for generated traffic, 1 for a recording).  by: the figure that decides, as in
    ttft_s.p99 (default: slo_attainment where `slo` is given, else e2e_s.mean).  target: the share of arrivals that must
    meet `slo` at a load that is carried.  find_collapse: search for the load that is not.
    draw: keep the distributions of latency, and timelines of the first seed's replicas.
    jobs: processes; with more than one a script needs its `if __name__ == "__main__":`, and policies must be defined in
    a module.  ray: the address of a Ray cluster, or local, in their place.
    Raises UserError for what cannot be compared.
    """
    workers = Workers(jobs, ray)
    _check(policies, loads, target)
    check_called(list(policies.values()), cluster)
    recorded = not callable(workload)
    slo = slo or Slo()
    study = Study(
        setting=Setting(cluster, cost, belief or Belief(), slo, warmup_s, until, drain),
        policies=dict(policies),
        make=workload if callable(workload) else _scaling(workload),
        recorded=recorded,
        by=_by(by, slo),
        loads=tuple(map(float, loads)),
        seeds=_seeds(seeds, recorded),
        target=target,
    )
    return run(study, workers=workers, draw=draw, find_collapse=find_collapse, progress=progress)


def _scaling(workload: Workload) -> Callable[[int, float], Workload]:
    return lambda seed, load: workload.scaled(load, seed=seed) if load != 1 else workload


def _by(by: str | None, slo: Slo) -> Figure:
    """The figure that decides."""
    if by is None:
        return E2E[0] if slo == Slo() else ATTAINMENT
    if by in (ATTAINMENT.name, GOODPUT.name) and slo == Slo():
        raise UserError(f"by = {by!r} needs an SLO to meet; give slo, or compare by another figure")
    return deciding(by)


def _seeds(seeds: int | Sequence[int] | None, recorded: bool) -> tuple[int, ...]:
    if seeds is None:
        seeds = 1 if recorded else SEEDS
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if isinstance(seeds, bool) or not chosen or len(set(chosen)) < len(chosen) or min(chosen) < 0:
        raise UserError(f"seeds = {seeds!r}: give how many there are, as in 5, or different ones, as in [3, 7]")
    return chosen


def _check(policies: Mapping[str, Policies], loads: Sequence[float], target: float) -> None:
    if not policies:
        raise UserError("policies is empty; give at least one, as in {'mine': Policies(router=Mine())}")
    if not loads or not all(0 < load < inf for load in loads) or len(set(loads)) < len(loads):
        raise UserError(f"loads = {list(loads)}: give different factors above 0, as in [0.5, 1, 2]")
    if not 0 < target <= 1:
        raise UserError(f"target = {target}: must be above 0 and at most 1; give a share, as in 0.9")
