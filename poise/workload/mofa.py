"""MOFA: a campaign that generates candidates, simulates them on pools of workers, and trains its model again.

Yan et al. (arXiv 2501.10651) and the code. Of the workers a share generates, and of the others a share runs DFT and the
rest MD. Generated ligands come in batches into a queue that drops its oldest; assembly makes frameworks of them where
no more are ready than MD has workers; these lie on a stack that holds 8 for each MD worker and drops its oldest, and MD
takes the newest. Stable ones go to DFT, the most stable first. After every 8 results the model is trained again, while
it goes on generating; what is generated later is of the new version.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import exp, log
from typing import Literal

import numpy as np

from poise.core.errors import UserError
from poise.workload.draw import count, positive, stream

Order = Literal["newest", "oldest"]

BATCH, PER_CALL, RETRAIN, STACK, LIGANDS, MD_FOR_ASSEMBLY = 16, 128, 8, 8, 50, 256
"""The code's: ligands of a batch; frameworks of a call at most; results before training; of the stack for each MD
worker; of the queue for each generating one; MD workers for one that assembles."""

SECONDS: Mapping[str, float] = {"generation": 30, "assembly": 60, "md": 300, "dft": 1500, "training": 100}
"""Of a batch, a call, a run of MD, one of DFT and what follows, a training. Ours."""


@dataclass(slots=True)
class Campaign:
    """What came of it. hours: from the first framework that MD took on.  screened, finished: MD and DFT runs.

    late: of each MD run, by how many versions the model was ahead.  generated, dropped: ligands.
    """

    hours: float
    workers: dict[str, int]
    screened: int = 0
    finished: int = 0
    generated: int = 0
    dropped: int = 0
    late: list[int] = field(default_factory=list)

    def rate(self) -> float:
        """Frameworks that ended DFT, per hour."""
        return self.finished / self.hours

    def screening(self) -> float:
        """Runs of MD per hour."""
        return self.screened / self.hours

    def lag(self) -> float:
        """Versions by which the model was ahead when MD took a framework, mean."""
        return float(np.mean(self.late)) if self.late else 0.0


def workers(nodes: int, ai: float, dft: float) -> dict[str, int]:
    """Return the workers of each pool: four a node for generation, MD and DFT, and beside them those that assemble."""
    total = 4 * count("nodes", nodes)
    generating = max(1, round(ai * total))
    quantum = max(1, round(dft * (total - generating)))
    dynamics = total - generating - quantum
    if dynamics < 1:
        raise UserError(
            f"nodes {nodes}: {generating} and {quantum} of {total} workers leave none for MD; give more nodes"
        )
    return {"generation": generating, "dft": quantum, "md": dynamics, "assembly": max(1, dynamics // MD_FOR_ASSEMBLY)}


def campaign(
    nodes: int = 32, hours: float = 3.0, order: Order = "newest", ai: float = 0.1, dft: float = 0.25,
    stable: float = 0.1, spread: float = 0.3, seconds: Mapping[str, float] | None = None, seed: int = 0,
) -> Campaign:  # fmt: skip
    """Return a campaign of so many hours on so many nodes.

    order: in which MD takes frameworks.  ai: the share of workers that generate; dft: of the others that of DFT.
    stable: the share of MD runs that DFT takes on.  spread: coefficient of variation of all times (lognormal).
    seconds: means, in place of `SECONDS`.
    """
    if order not in ("newest", "oldest"):
        raise UserError(f"order is {order!r}; give newest or oldest")
    means = {name: positive(name, value) for name, value in {**SECONDS, **(seconds or {})}.items()}
    return _Thinker(workers(nodes, ai, dft), order, stable, spread, means, seed).run(positive("hours", hours) * 3600)


class _Thinker:
    """Gives work to whoever is free. The version of a ligand or a framework is that of the model that generated it."""

    def __init__(
        self, slots: dict[str, int], order: Order, stable: float, spread: float, means: Mapping[str, float], seed: int,
    ) -> None:  # fmt: skip
        self._free = {**slots, "training": 1}
        self._order, self._stable, self._means = order, stable, means
        self._sigma = log(1 + spread**2) ** 0.5
        self._rng = stream(seed, "campaign")
        self._ligands: deque[int] = deque(maxlen=LIGANDS * slots["generation"])
        self._stack: deque[int] = deque(maxlen=STACK * slots["md"])
        self._ready: list[float] = []  # strains of stable frameworks, the least first
        self._version = self._results = self._order_of = 0
        self._heap: list[tuple[float, int, str, int]] = []
        self._done = Campaign(0.0, slots)

    def run(self, until: float) -> Campaign:
        """Until all seconds are over; work under way then does not count."""
        self._give(0.0)
        begun = 0.0
        while self._heap[0][0] <= until:
            now, _, pool, version = heappop(self._heap)
            self._free[pool] += 1
            getattr(self, f"_{pool}")(version)
            self._give(now)
            begun = begun or (now if self._done.late else 0.0)
        self._done.hours = (until - begun) / 3600
        return self._done

    def _give(self, now: float) -> None:
        slots = self._done.workers
        while self._free["generation"]:
            self._begin(now, "generation", self._version)
        per_call = min(slots["md"] + 4, PER_CALL)
        while self._free["assembly"] and len(self._stack) <= slots["md"] and len(self._ligands) >= BATCH:
            self._begin(now, "assembly", per_call)
        while self._free["md"] and self._stack:
            version = self._stack.pop() if self._order == "newest" else self._stack.popleft()
            self._done.late.append(self._version - version)
            self._begin(now, "md", version)
        while self._free["dft"] and self._ready:
            heappop(self._ready)
            self._begin(now, "dft", 0)
        if self._free["training"] and self._results >= RETRAIN:
            self._results = 0
            self._begin(now, "training", 0)

    def _begin(self, now: float, pool: str, what: int) -> None:
        mean, sigma = self._means[pool], self._sigma
        took = mean * exp(float(self._rng.standard_normal()) * sigma - sigma**2 / 2)
        self._free[pool] -= 1
        self._order_of += 1
        heappush(self._heap, (now + took, self._order_of, pool, what))

    def _generation(self, version: int) -> None:
        over = max(len(self._ligands) + BATCH - (self._ligands.maxlen or 0), 0)
        self._done.generated, self._done.dropped = self._done.generated + BATCH, self._done.dropped + over
        self._ligands.extend([version] * BATCH)

    def _assembly(self, frameworks: int) -> None:
        chosen = self._rng.integers(len(self._ligands), size=frameworks)
        self._stack.extend(self._ligands[int(each)] for each in np.sort(chosen))

    def _md(self, _: int) -> None:
        self._done.screened += 1
        strain = float(self._rng.random())
        if strain < self._stable:
            heappush(self._ready, strain)

    def _dft(self, _: int) -> None:
        self._done.finished += 1
        self._results += 1

    def _training(self, _: int) -> None:
        self._version += 1
