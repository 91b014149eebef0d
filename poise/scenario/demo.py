"""`poise demo`: four routers at four loads on eight replicas, on generated traffic or on a recorded trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from poise.core.compiled import CORE
from poise.core.errors import TraceError, UserError
from poise.core.spec import Belief, Cluster, Pool, Slo
from poise.core.units import SECOND
from poise.core.version import version
from poise.experiment.progress import Meter
from poise.report.figures import ATTAINMENT
from poise.report.wording import significant
from poise.sim.terms import Saving

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison
    from poise.workload import Workload

REPLICAS = 8
MODEL, DEVICE = "llama-3.1-8b", "H100"
ROUTERS = ("round_robin", "least_requests", "least_tokens", "prefix_cache")
SHARES = (0.3, 0.6, 0.9, 1.2)
"""Loads as shares of what the cluster finishes when it is never idle: from light to overload."""

SHOWN = (0.9, "prefix_cache")
"""The load and the router whose run becomes the Perfetto timeline."""

REQUESTS = 3000
"""Requests of each generated load and seed, and of the heaviest load of a trace."""

LEAST, PIECE, MOST = 20, 64, 4
"""Least requests of a trace; least rows to take; the factor by which `REQUESTS` may be exceeded."""

JOBS = 4
"""The most processes; more would spend their time on starting."""

SLO = Slo(ttft_s=1.0, tpot_s=0.05)


@dataclass(slots=True)
class Demo:
    """The cluster, and the traffic under a seed at each share of its capacity.

    capacity: requests per second when the cluster is never idle.  recorded: whether the loads are pieces of a trace,
    which has one seed, for others would change nothing.
    """

    cluster: Cluster
    capacity: float
    make: Callable[[int, float], Workload]
    recorded: bool
    belief: Belief = field(default_factory=Belief)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of every load."""
        from poise.scenario.compare.study import SEEDS

        return (0,) if self.recorded else tuple(range(SEEDS))

    def run(self, progress: Meter | None = None) -> Comparison:
        """Simulate every router at every load; Ctrl-C ends it with what is done."""
        from poise.experiment.workers import Workers, processors
        from poise.policies import Policies
        from poise.policies.find import build
        from poise.scenario.compare.run import run
        from poise.scenario.compare.study import Setting, Study

        study = Study(
            setting=Setting(self.cluster, belief=self.belief, slo=SLO),
            policies={name: Policies(router=build("router", name)) for name in ROUTERS},
            make=self.make,
            recorded=self.recorded,
            by=ATTAINMENT,
            loads=SHARES,
            seeds=self.seeds,
        )
        return run(study, workers=Workers(min(processors(), JOBS)), draw=True, progress=progress)

    @property
    def one(self) -> str:
        """The meaning of load 1."""
        return f"the {significant(self.capacity, 3)} req/s that are served when no replica ever idles"

    def write(self, comparison: Comparison, folder: Path) -> tuple[Path, Path]:
        """Write the report and one timeline into `folder`; returns their paths."""
        from poise.cost import Roofline
        from poise.report.html import About, html_report
        from poise.report.perfetto import timeline
        from poise.scenario.compare.findings import findings
        from poise.scenario.run import period
        from poise.scenario.simulate import simulate

        report, perfetto = folder / "report.html", folder / "timeline.json.gz"
        load, router = SHOWN
        pool, shown = self.cluster.pools[0], self.make(self.seeds[0], load)
        about = About(
            title=title(self.cluster),
            belief=self.belief,
            engine=f"{pool.engine.name} {pool.engine.version}",
            cost=Roofline().build(pool).describe(),
            seeds=self.seeds,
            slo=SLO,
            workload=comparison.offered[load],
            version=f"{version()} ({CORE} core)",
        )
        html_report(report, comparison.cases(), about, findings(comparison, self.one), data=True)
        policies = comparison.study.policies[router]
        run = simulate(
            self.cluster, shown, policies, belief=self.belief, saving=Saving(sample_s=period(shown), slices=True)
        )
        timeline(run, perfetto, cluster=self.cluster)
        return report, perfetto


def title(cluster: Cluster) -> str:
    """The cluster in a few words."""
    pool = cluster.pools[0]
    return f"Four routers on {pool.replicas} × {pool.model.name} on {pool.device.name}"


def demo(trace: Path | None = None, *, skip_bad: bool = False, columns: Mapping[str, str] | None = None) -> Demo:
    """The demo on generated traffic with shared prefixes, or on a recorded `trace`; only its capacity is simulated."""
    from poise.catalogue import device, model

    cluster = Cluster((Pool(model(MODEL), device(DEVICE), REPLICAS),))
    return _generated(cluster) if trace is None else _recorded(cluster, trace, skip_bad, columns)


def _generated(cluster: Cluster) -> Demo:
    """400 system prompts of 4,000 tokens, of which one replica's cache holds about a quarter and eight hold all."""
    from poise.workload import lognormal, poisson, shared_prefixes

    prompt, output = lognormal(400, 1.0), lognormal(200, 1.0)

    def made(seed: int, rate: float) -> Workload:
        requests = poisson(rate, requests=REQUESTS, prompt_tokens=prompt, output_tokens=output, seed=seed)
        return shared_prefixes(requests, groups=400, prefix_tokens=4000, seed=seed)

    capacity = _capacity(cluster, made(0, 1.0), "the generated load")
    return Demo(cluster, capacity, lambda seed, share: made(seed, share * capacity), recorded=False)


def _recorded(cluster: Cluster, trace: Path, skip_bad: bool, columns: Mapping[str, str] | None) -> Demo:
    """The beginning of a trace, thinned and superposed to about `REQUESTS` requests at the heaviest load.

    Of a trace that begins slowly at least `PIECE` rows are taken, and more requests for it, up to `MOST` times as many.
    """
    from dataclasses import replace

    head = replace(_head(trace, skip_bad, columns), model=None, models=())
    capacity = _capacity(cluster, head, str(trace))
    piece = head.head(_rows(head, SHARES[-1] * capacity))
    heaviest = min(SHARES[-1] * capacity / rate(piece), MOST * REQUESTS / len(piece))
    loads = {share: piece.scaled(share / SHARES[-1] * heaviest) for share in SHARES}
    return Demo(cluster, capacity, lambda seed, share: loads[share], recorded=True)


def _head(trace: Path, skip_bad: bool, columns: Mapping[str, str] | None) -> Workload:
    """The first `REQUESTS` rows of a trace; TraceError names the option of the demo that passes over bad ones."""
    from poise.workload import read

    try:
        return read(trace, skip_bad=skip_bad, limit=REQUESTS, columns=columns)
    except TraceError as error:
        raise TraceError(str(error).replace("pass skip_bad=True", "give --skip-bad")) from None


def _rows(head: Workload, rate: float) -> int:
    """How many rows of `head`, superposed to `REQUESTS` requests, come nearest to `rate` requests per second."""
    import numpy as np

    rows = np.arange(min(PIECE, len(head)), len(head) + 1)
    spans = (head.arrival[rows - 1] - head.arrival[0]) / SECOND
    offered = REQUESTS * (rows - 1) / rows / np.maximum(spans, 1e-9)
    return int(rows[np.argmin(np.abs(np.log(offered / rate)))])


def rate(workload: Workload) -> float:
    """Requests per second over the span of the stamps; one a second where there is no span."""
    span = float(workload.arrival[-1] - workload.arrival[0]) / SECOND
    return max(len(workload) - 1, 1) / span if span else 1.0


def _capacity(cluster: Cluster, workload: Workload, name: str) -> float:
    """Requests per second between the first and the last tenth of the ends, when all arrive at once."""
    from dataclasses import replace

    from poise.core.records.records import FINISHED
    from poise.scenario.simulate import simulate

    run = simulate(cluster, replace(workload, arrival=workload.arrival * 0))
    if run.interrupted:
        raise KeyboardInterrupt
    records = run.records
    ends = sorted(end for end, status in zip(records.ended_at, records.status, strict=True) if status == FINISHED)
    if len(ends) < LEAST:
        raise UserError(f"{name}: {len(ends)} of its requests fit {MODEL}; the demo needs {LEAST}; give a longer trace")
    low, high = len(ends) // 10, len(ends) * 9 // 10
    return (high - low) * SECOND / max(ends[high] - ends[low], 1)
