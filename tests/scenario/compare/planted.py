"""Comparisons made of M/M/1 queues, so that how much one policy is slower than another is known."""

from __future__ import annotations

import numpy as np

from poise.core.spec import Slo
from poise.policies import Policies
from poise.report.figures import deciding
from poise.scenario.compare.cell import Task, cell_of
from poise.scenario.compare.comparison import Comparison
from poise.scenario.compare.study import Place, Setting, Study
from poise.workload import Workload

from ...report.queues import Floats, mm1, run_of
from ...report.runs import a_cluster

LOAD = 0.5


def comparison(
    key: int,
    requests: int,
    slower: float,
    *,
    seeds: int = 1,
    others: float = 0.1,
    load: float = LOAD,
    slo_s: float = 2.0,
) -> Comparison:
    """Two policies on the same arrivals; B's times are A's with a share `others` of services drawn anew, × `slower`.

    With one seed it is a recording, whose intervals come from blocks of time; with more it is generated load.
    """
    setting = Setting(a_cluster(), slo=Slo(e2e_s=slo_s))
    policies = {"A": Policies(), "B": Policies()}
    by = deciding("e2e_s.mean")
    study = Study(setting, policies, _no_workload, seeds == 1, by, seeds=tuple(range(seeds)))
    cells = {}
    for seed in study.seeds:
        stamps, first, second = mm1(key * 1000 + seed, requests, load, others=others)
        for name, times in (("A", first), ("B", second * slower)):
            place = Place(1.0, name, seed)
            task = Task(place, setting, _workload(stamps), policies[name], cut=not study.by_seeds)
            cells[place] = cell_of(task, run_of(stamps, times))
    return Comparison(study, cells)


def _workload(stamps: Floats) -> Workload:
    ones = np.ones(len(stamps), dtype=np.int32)
    return Workload(np.rint(stamps * 1e12).astype(np.int64), ones, ones)


def _no_workload(seed: int, load: float) -> Workload:
    raise AssertionError("these cells are simulated already")
