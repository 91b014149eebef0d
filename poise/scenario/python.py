"""The Python interface: clusters and models by name, `simulate`, and a result with figures on demand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from poise.core.errors import ScenarioError, UserError
from poise.core.model import Model
from poise.core.records.records import Run
from poise.core.records.trace import Trace
from poise.core.spec import MOST_REPLICAS, Belief, Device, Pool, Slo, described
from poise.core.spec import Cluster as CoreCluster

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from poise.policies import Policies
    from poise.report.latency import Summary
    from poise.report.metrics import Metrics
    from poise.report.requests import RequestTable
    from poise.scenario.simulate import Cost
    from poise.workload import Workload

Thing = TypeVar("Thing", Device, Model)


class Named(Generic[Thing]):
    """A catalogue by attribute (`models.llama3_8b`), by call or key (`devices("H100")`), or as an iterable."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __call__(self, name: str) -> Thing:
        """The built-in one called `name`; for models also the path of a `config.json`. UserError lists the nearest."""
        from poise import catalogue

        found: Thing = getattr(catalogue, self._kind)(name)
        return found

    __getitem__ = __call__

    def __getattr__(self, name: str) -> Thing:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self(name)
        except UserError as error:
            raise AttributeError(str(error)) from None

    def __dir__(self) -> list[str]:
        """The names as attributes, for completion."""
        names = (re.sub(r"\W+", "_", each.name.rpartition("/")[2]) for each in self)
        return [name for name in names if name.isidentifier()]

    def __iter__(self) -> Iterator[Thing]:
        from poise import catalogue

        return iter(getattr(catalogue, f"{self._kind}s")())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, item: object) -> bool:
        """Whether one is built in, by itself or by any spelling of its name."""
        if isinstance(item, str):
            try:
                item = self(item)
            except UserError:
                return False
        return any(each == item for each in self)

    def __repr__(self) -> str:
        return f"{self._kind}s: {', '.join(each.name for each in self)}"

    def _repr_html_(self) -> str:
        from poise.core.card import card, paragraph

        return card(f"{len(self)} {self._kind}s", paragraph(", ".join(each.name for each in self)))


models: Named[Model] = Named("model")
"""The built-in models."""

devices: Named[Device] = Named("device")
"""The built-in devices."""


@dataclass(frozen=True, slots=True)
class Machines:
    """A number of devices of one kind, to be cut into replicas."""

    device: Device
    count: int

    def replicas(self, replicas: int, *, model: Model | str, **options: Any) -> Cluster:
        """A cluster of `replicas` equal instances of `model`; `options` are the further fields of `Pool`.

        The limits of an `engine` are those of its settings, for each data rank where it means them so
        (`poise.catalogue.engines.on_ranks`), as in a scenario. ScenarioError when the replicas need more devices than
        there are.
        """
        from poise.catalogue.engines import on_ranks

        pool = Pool(models(model) if isinstance(model, str) else model, self.device, replicas, **options)
        if replicas < 1 or pool.devices < 1:
            raise ScenarioError(f"replicas = {replicas} of {pool.devices} devices each; give 1 or more of both")
        if replicas > MOST_REPLICAS:
            raise ScenarioError(f"replicas = {replicas} are more than the {MOST_REPLICAS:,} of a cluster; give fewer")
        needed = replicas * pool.devices
        if needed > self.count:
            raise ScenarioError(
                f"replicas = {replicas} of tensor {pool.tensor} × pipeline {pool.pipeline} × data {pool.data} need "
                f"{needed} devices, and there are {self.count}; ask for fewer, or give count={needed}"
            )
        return Cluster((on_ranks(pool),))


class Cluster(CoreCluster):
    """`core.spec.Cluster`, which `Cluster.of(device, count=…).replicas(…)` builds from names."""

    __slots__ = ()

    @staticmethod
    def of(device: Device | str, *, count: int) -> Machines:
        """`count` devices, by name or description, still to be cut into replicas."""
        return Machines(devices(device) if isinstance(device, str) else device, count)

    def __repr__(self) -> str:
        return f"<Cluster: {described(self)}>"

    def _repr_html_(self) -> str:
        """A row for each pool."""
        from poise.core.card import card, table

        heads = ("pool", "replicas", "model", "devices of each", "layout", "weights", "engine")
        rows = [
            (
                pool.name or pool.role, f"{pool.replicas}", pool.model.name, f"{pool.devices} × {pool.device.name}",
                f"tensor {pool.tensor}, pipeline {pool.pipeline}, data {pool.data}", pool.weights,
                f"{pool.engine.name} {pool.engine.version}",
            )
            for pool in self.pools
        ]  # fmt: skip
        return card(
            f"Cluster of {sum(pool.replicas * pool.devices for pool in self.pools)} devices", table(heads, rows)
        )

    def __add__(self, other: CoreCluster) -> Cluster:
        """Both clusters' pools and faults in one; the other's replicas count on, and links are this one's."""
        from dataclasses import replace

        first = self.replicas
        shifted = tuple(replace(fault, replica=fault.replica + first) for fault in other.faults)
        rates = tuple(
            replace(rate, replicas=tuple(start + replica for replica in rate.replicas or range(cluster.replicas)))
            for start, cluster in ((0, self), (first, other))
            for rate in cluster.fault_rates
        )
        return replace(self, pools=self.pools + other.pools, faults=self.faults + shifted, fault_rates=rates)


class Result:
    """One simulated run: figures on demand; `run` has the raw columns."""

    def __init__(self, run: Run, cluster: CoreCluster, trace: Trace | None, again: Callable[[], Trace]) -> None:
        self.run = run
        self.cluster = cluster
        self._trace = trace
        self._again = again

    def metrics(self, slo: Slo | None = None, *, warmup_s: float = 0.0) -> Metrics:
        """All figures, of requests that arrived after `warmup_s` seconds."""
        from poise.report.metrics import measure

        return measure(self.run, self.cluster, slo or Slo(), warmup_s=warmup_s)

    @cached_property
    def _whole(self) -> Metrics:
        return self.metrics()

    @property
    def ttft(self) -> Summary:
        """Time to first token in seconds: mean, p50, p90, p95, p99; None where nothing finished."""
        return self._whole.ttft_s

    @property
    def tpot(self) -> Summary:
        """Time per output token in seconds."""
        return self._whole.tpot_s

    @property
    def e2e(self) -> Summary:
        """Time from arrival to end in seconds."""
        return self._whole.e2e_s

    @property
    def program(self) -> Summary | None:
        """Time of a program, from its first arrival to its last end, in seconds; None where there are none."""
        return self._whole.program_s

    def goodput(self, slo: Slo, *, warmup_s: float = 0.0) -> float | None:
        """Requests per second that met every part of `slo`; None for a run without length."""
        return self.metrics(slo, warmup_s=warmup_s).goodput_rps

    @property
    def trace(self) -> Trace:
        """All events and actions; where they were not recorded, the same run is simulated again with a record."""
        if self._trace is None:
            self._trace = self._again()
        return self._trace

    def save_requests(self, path: str | Path) -> None:
        """Write a row for each request to a `.parquet`, `.csv` or `.jsonl` file."""
        from poise.report.requests import save_requests

        save_requests(self.run, path)

    def save_timeline(self, path: str | Path) -> None:
        """Write a Perfetto timeline; batches and counters are in it when simulated with `slices` and `sample_s`."""
        from poise.report.perfetto import timeline

        timeline(self.run, path, cluster=self.cluster)

    @property
    def requests(self) -> RequestTable:
        """A row for each request: `.frame()` is a polars frame, `.to_pandas()` one of pandas."""
        from poise.report.requests import RequestTable

        return RequestTable(self.run)

    def plot(self) -> Figure:
        """The distributions of TTFT, TPOT and end-to-end time as a matplotlib figure (extra `plot`)."""
        from poise.report.curves import latency_curves
        from poise.report.optional import needed

        needed("matplotlib", "plot", "Result.plot")
        from poise.report.plots import distributions

        return distributions(latency_curves(self.run))

    def _repr_html_(self) -> str:
        """Key figures and latencies."""
        from poise.core.card import card, table
        from poise.report.figures import KEY, SERIES
        from poise.report.wording import MISSING

        result = self._whole.as_dict()
        key = [(figure.label, figure.text(result)) for figure in KEY if figure.value(result)]
        latencies = [(label, *(each.text(result) for each in series)) for label, series in SERIES.items()]
        latencies = [row for row in latencies if set(row[1:]) != {MISSING}]
        heads = ("finished requests", "mean", "p50", "p90", "p95", "p99")
        return card(repr(self).strip("<>"), table(heads, latencies), table(("", ""), key, head=False))

    def __repr__(self) -> str:
        metrics = self._whole
        return f"<Result: {metrics.finished} of {metrics.requests} requests finished in {metrics.duration_s:.6g} s>"


def simulate(
    cluster: CoreCluster,
    workload: Workload,
    policies: Policies | None = None,
    *,
    cost: Cost | None = None,
    belief: Belief | None = None,
    seed: int = 0,
    until: float | None = None,
    drain: bool = True,
    sample_s: float = 0.0,
    slices: bool = False,
    trace: Trace | bool = False,
    blame: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Simulate one run; an argument that is not given has the recommended default (see `scenario.simulate.simulate`).

    trace: True records events and actions for `Result.trace`; a `Trace` of your own may stream them to a file.
    blame: charge the time of every request to its parts, for `Result.metrics` and `Result.save_requests`.
    Raises ScenarioError for a policy that would never be called on this cluster, besides invalid input.
    """
    from poise.scenario import simulate as room
    from poise.scenario.idle import check_called
    from poise.sim.terms import Saving, Stopping, Watching

    if policies is not None:
        check_called([policies], cluster)
    kept = Trace({"seed": seed}) if trace is True else (trace or None)
    once = partial(
        room.simulate, cluster, workload, policies,
        cost=cost, belief=belief, seed=seed, stopping=Stopping(until, drain),
    )  # fmt: skip

    def again() -> Trace:
        record = Trace({"seed": seed})
        once(saving=Saving(trace=record))
        return record

    run = once(saving=Saving(sample_s, slices, kept, blame), watching=Watching(progress))
    return Result(run, cluster, kept, again)
