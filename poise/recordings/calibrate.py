"""Calibration: a first fit of an engine's step cost to a recording of it.

The latencies that a gateway observes give coefficients that are somewhat off, because it does not see the steps. So
the recording itself is simulated, each request sent when and where it was, and observed in the same way: where the
simulation differs from what it was made with, the coefficients are off by that much, and are corrected by it (indirect
inference: Gourieroux, Monfort and Renault, Journal of Applied Econometrics 8, 1993).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from poise.core.action import Route
from poise.core.chance import Chance
from poise.core.errors import TraceError
from poise.core.records.records import Run
from poise.core.request import RequestView
from poise.core.units import SECOND
from poise.core.view import ClusterView
from poise.cost.fitted import COEFFICIENTS, Fitted
from poise.experiment.progress import Meter
from poise.policies import Policies
from poise.recordings.cluster import cluster_of
from poise.recordings.fit import Fit, FitRows, regress, rows_of, standard_errors
from poise.recordings.observed import guessed_hits, seen
from poise.recordings.recording import Recorded
from poise.recordings.runs import LATENCIES, Floats, Mask, durations, middle, only, relative
from poise.report.latency import finished
from poise.scenario.simulate import simulate
from poise.workload.rows import take

HELD_OUT = 0.2
"""The share of the requests, the last in time, that is held out of the fit to judge it."""

FIRST = 20_000
"""Requests of the first rounds; the last ones use all."""

MOST_ROUNDS = 8
"""Rounds on the first requests at most."""

STILL = 1e-3
"""The fit has converged once no coefficient moves a typical latency by more than this share."""

LEAST = 50
"""Least requests of a fit."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """cost: the fitted recipe.  errors: the standard error of each coefficient, None where the recording is too short.
    kept: coefficients that the load does not identify, and why.  held_out: of each latency the median and 90th
    percentile of relative errors, over the held-out requests.  bias: of each replica, the median of simulated over
    observed end-to-end time.
    """

    cost: Fitted
    errors: dict[str, float | None]
    kept: dict[str, str]
    held_out: dict[str, dict[str, float]]
    bias: dict[int, float]
    requests: int
    rounds: int
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON, the coefficients apart."""
        return {
            "standard_errors": self.errors,
            "not_identified": self.kept,
            "held_out": self.held_out,
            "replica_bias": {str(replica): value for replica, value in self.bias.items()},
            "requests": self.requests,
            "rounds": self.rounds,
            "notes": self.notes,
        }


class AsRecorded:
    """A router that sends every request where it was sent in the recording, by its row."""

    needs = ()

    def __init__(self, places: list[int]) -> None:
        self.places = places

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route:
        """The recorded replica, or the first that can take it."""
        able = cluster.able(request)
        place = self.places[request.id]
        return Route(place if place in able else able[0])


def calibrate(day: Recorded, *, prior: Fitted | None = None, progress: Meter | None = None) -> Calibration:
    """Fit a step cost to a recording; coefficients that the load does not identify keep their `prior` (or no effect).

    TraceError for too few requests and for pairs of prefill and decode replicas.
    """
    _check(day)
    before = np.array([getattr(prior, name, 0.0) for name in COEFFICIENTS])
    fitting = _Fitting(day, before, progress or _silent)
    fit = fitting.fit()
    return fitting.calibration(fit)


def _silent(label: str, done: int, total: int) -> None:
    """No progress callback."""


def _check(day: Recorded) -> None:
    if any(spec.role != "mixed" for spec in day.replicas):
        raise TraceError(
            "the recording has prefill and decode replicas, and calibration knows engines that do both; give a cost "
            "by --cost FILE"
        )
    usable = int((day.fair & ~day.resent).sum())
    if usable < LEAST:
        raise TraceError(
            f"the recording has {usable} requests to fit to, and it takes {LEAST}; record for longer, or give a "
            "cost by --cost FILE"
        )


class _Fitting:
    """The rounds of one calibration."""

    def __init__(self, day: Recorded, prior: Floats, progress: Meter) -> None:
        self.day, self.prior, self.progress = day, prior, progress
        self.cluster, self.specs = cluster_of(day.replicas, day.header, day.faults)
        order = np.argsort(day.sent_at, kind="stable")
        self.workload = replace(take(day.workload, order), arrival=day.sent_at[order])
        self.day_run = only(day.observed, order)
        self.places = list(self.day_run.records.replica)
        self.cached = guessed_hits(self.workload, self.places, [spec.cache_tokens for spec in self.specs])
        self.use: Mask = (day.fair & ~day.resent)[order]
        self.train = max(int(len(order) * (1 - HELD_OUT)), 1)
        self.rounds = 0

    def fit(self) -> Fit:
        """The bias of the observation: from observed coefficients to those that simulate to the same observation.

        A simulation continues past the last row of the fit, so that its rows meet the load that they met.
        """
        first = min(self.train, FIRST)
        fit = self._settled(self._regressed(self.day_run, first), first, MOST_ROUNDS)
        return self._settled(fit, self.train, 2) if self.train > first else fit

    def _settled(self, fit: Fit, rows: int, most: int) -> Fit:
        """Iterate until the coefficients converge, else return those closest to what was observed."""
        target = self._regressed(self.day_run, rows)
        values = best = rounded(fit.values)
        least = np.inf
        typical = target.typical(self._rows(self.day_run, rows))
        for number in range(most):
            self.progress("calibration", number, most)
            run = self._simulated(values, min(int(rows / (1 - HELD_OUT)) + 1, len(self.workload)))
            self.rounds += 1
            off = self._off(run, rows)
            if off < least:
                best, least = values, off
            step = target.values - self._regressed(run, rows, target.free).values
            values = rounded(np.maximum(values + step, 0.0))
            if (np.abs(step) * typical).max() < STILL:
                best = values
                break
        self.progress("calibration", most, most)
        return replace(target, values=best)

    def _simulated(self, values: Floats, rows: int) -> Run:
        """The first `rows` requests sent where they were; TraceError where engines as in the header hold few."""
        policies = Policies(router=AsRecorded(self.places))
        workload = self.workload.head(rows)
        run = simulate(self.cluster, workload, policies, cost=recipe(values), known=self.specs)
        if run.interrupted:
            raise KeyboardInterrupt
        if (done := int(finished(run).sum())) < len(workload) / 2:
            raise TraceError(
                f"only {done} of {len(workload)} recorded requests fit the engines of the header; give it their true "
                "capacity_tokens and blocks"
            )
        return run

    def _regressed(self, run: Run, rows: int, free: Mask | None = None) -> Fit:
        return regress(self._rows(run, rows), self.prior, free)

    def _rows(self, run: Run, rows: int) -> FitRows:
        """The rows of the regression from both kinds of latency of the first `rows` requests of a run."""
        done = np.flatnonzero(finished(run))
        workload, run = take(self.workload, done), only(run, done)
        sums = seen(workload, run, self.cached[done], self.cluster.pools[0].engine.token_budget)
        use, spans = self.use[done] & (done < rows), durations(run)
        first = rows_of(sums[0], spans["ttft_s"], 0, workload.arrival, use)
        return first + rows_of(sums[1], spans["tpot_s"], 1, workload.arrival, use)

    def _off(self, run: Run, rows: int) -> float:
        """The distance of a simulation from what was observed: the error of a typical end-to-end time plus that of a
        typical time to first token. Each alone depends on the step that its request met by chance.
        """
        errors = self._errors(run)
        return middle(np.abs(errors["e2e_s"][:rows])) + abs(middle(errors["ttft_s"][:rows]))

    def _errors(self, run: Run) -> dict[str, Floats]:
        """Simulated over observed latencies, less one, by row; NaN for rows that do not count."""
        use = self.use[: run.records.rows] & finished(run)
        simulated, observed = durations(run), durations(self.day_run)
        return {name: relative(simulated[name], observed[name][: len(use)], use) for name in LATENCIES}

    # Results ----------------------------------------------------------------------------------------------------------

    def calibration(self, fit: Fit) -> Calibration:
        """The fit judged: its standard errors, and the errors of the held-out requests."""
        run = self._simulated(fit.values, len(self.workload))
        errors = standard_errors(self._rows(self.day_run, self.train), fit, self.prior)
        kept = {
            name: f"the load hardly varies in it; kept at {self.prior[at]:g} s"
            for at, name in enumerate(COEFFICIENTS)
            if not fit.free[at]
        }
        cost = recipe(fit.values)
        found = Calibration(
            cost,
            {name: error for name, error in zip(COEFFICIENTS, errors, strict=True) if name not in kept},
            kept,
            self._held_out(run),
            self._bias(run),
            int(self.use.sum()),
            self.rounds,
            list(self.day.notes),
        )
        return replace(found, cost=replace(cost, about=found.as_dict()))

    def _held_out(self, run: Run) -> dict[str, dict[str, float]]:
        errors = self._errors(run)
        return {
            name: {"median": middle(off), "p90": float(np.nanquantile(off, 0.9))}
            for name in LATENCIES
            if not np.isnan(off := np.abs(errors[name][self.train :])).all()
        }

    def _bias(self, run: Run) -> dict[int, float]:
        whole, places = self._errors(run)["e2e_s"], np.array(self.places)
        known = np.unique(places[~np.isnan(whole)])
        return {int(number): 1 + middle(whole[places == number]) for number in known}


def rounded(values: Floats) -> Floats:
    """To six digits, so that rounding of one machine does not decide which step a simulated request meets."""
    return np.array([float(f"{value:.6g}") for value in values])


def recipe(values: Floats) -> Fitted:
    """Coefficients in the order of `COEFFICIENTS` as a cost; a step takes some time."""
    step, prompt_token, pair, sequence, kv_token = map(float, values)
    return Fitted(max(step, 1 / SECOND), prompt_token, pair, sequence, kv_token)
