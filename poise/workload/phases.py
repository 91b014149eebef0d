"""Phases of load after one another, each with a rate and lengths of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from poise.core.errors import ScenarioError
from poise.core.units import ps
from poise.workload.draw import positive
from poise.workload.generate import gamma
from poise.workload.table import Workload


def phases(steps: Sequence[Mapping[str, Any]], *, seed: int = 0) -> Workload:
    """Return Poisson arrivals in phases, as in [{"rate": 15, "duration_s": 300, "prompt_tokens": 3000}, …].

    Each has a `rate` in requests per second and a `duration_s`, and takes what `gamma` does (`cv` 1 is Poisson).
    """
    if not steps:
        raise ScenarioError("there is no phase; give one or more, as in [{rate: 15, duration_s: 300}]")
    made, begins, begin = [], [], 0.0
    for number, step in enumerate(steps):
        made.append(gamma(**{"cv": 1.0, **step}, seed=len(steps) * seed + number))
        begins.append(ps(begin))
        begin += positive("duration_s", step["duration_s"])
    parts = zip(made, begins, strict=True)
    facts = {"kind": "phases", "rate": sum(map(len, made)) / begin, "requests": sum(map(len, made)), "seed": seed}
    return Workload(
        np.concatenate([some.arrival + at for some, at in parts]),
        np.concatenate([some.prompt for some in made]),
        np.concatenate([some.output for some in made]),
        source=facts,
    )
