"""One run divided into equal time bins, so that its metrics can be recomputed over any choice of bins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import Run
from poise.core.spec import Slo
from poise.core.units import SECOND
from poise.report.bootstrap import Floats, Path, Sample
from poise.report.latency import PERCENTILES, Mask, column, counted, durations, finished
from poise.report.metrics import met
from poise.report.programs import spans

BINS, REQUESTS = 256, 4
"""The most bins of a run, and the requests that a bin has on average at least."""

GROUPS = (128, 64, 64)
"""Groups of equal rank that latencies are counted in: below rank 0.9, from there to 0.99, and above."""

_RATIOS: dict[Path, tuple[str, str]] = {
    ("slo_attainment",): ("met", "counted"),
    ("programs", "attainment"): ("programs met", "programs"),
    ("prefix_hit_rate",): ("cached", "prompt"),
}
_TOTALS: dict[Path, tuple[str, int]] = {
    ("goodput_rps",): ("met", 1),
    ("requests_per_s",): ("finished", 1),
    ("output_tokens_per_s",): ("output", 1),
    ("total_tokens_per_s",): ("tokens", 1),
    ("cost_usd_per_mtok",): ("tokens", -1),
    ("cost_usd_per_mtok_output",): ("output", -1),
    ("energy_j_per_mtok",): ("tokens", -1),
    ("energy_j_per_mtok_output",): ("output", -1),
}
"""Figures that rise with a sum over requests, or fall with it; time, dollars and joules are taken as given."""


@dataclass(frozen=True, slots=True)
class Bins:
    """Equal bins between two instants (picoseconds), the last one with its end; `count` is a power of two."""

    start: int
    end: int
    count: int

    @property
    def seconds(self) -> float:
        """The length of a bin."""
        return (self.end - self.start) / self.count / SECOND

    def of(self, instants: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bin of each instant; instants outside the range belong to the first or the last bin."""
        width = (self.end - self.start) // self.count + 1
        return np.asarray(np.clip((instants - self.start) // width, 0, self.count - 1))


def bins_of(begins: NDArray[np.int64], since: int) -> Bins | None:
    """Bins from `since`, or the first of `begins` if that is later, to the last; None where there is no time between.

    There are enough bins for `REQUESTS` requests per bin on average, and at most `BINS`.
    """
    known = begins[begins >= since]
    if not len(known) or int(known.max()) <= (since := max(since, int(begins.min()))):
        return None
    count = min(BINS, 1 << max((len(known) // REQUESTS).bit_length() - 1, 0))
    return Bins(since, int(known.max()), count)


@dataclass(frozen=True, slots=True)
class Latency:
    """One latency of finished requests, in groups of neighbouring rank.

    edges: the highest value of each group in seconds.  counts: requests of each group in each bin.
    totals: the seconds of each bin summed.  variance: over requests.
    """

    edges: Floats
    counts: Floats
    totals: Floats
    variance: float


@dataclass(frozen=True, slots=True)
class Blocks:
    """A run in bins: sums over the requests that began in each, by name, and its latencies."""

    bins: int
    sums: Mapping[str, Floats]
    latencies: Mapping[str, Latency]

    def resample(self, family: str, result: Mapping[str, Any], weights: Floats) -> dict[Path, Sample]:
        """The figures of a latency, or with `""` the others, under resamples; `result` has those of the run itself."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._latency(family, weights) if family else self._sums(result, weights)

    def _sums(self, result: Mapping[str, Any], weights: Floats) -> dict[Path, Sample]:
        sums = {name: weights @ each for name, each in self.sums.items()}
        fields: dict[Path, Sample] = {}
        for path, (part, whole) in _RATIOS.items():
            if part not in sums:
                continue
            if _at(result, path) is not None:
                fields[path] = Sample(_finite(sums[part] / sums[whole]))
        for path, (part, power) in _TOTALS.items():
            if (value := result.get(path[0])) is not None:
                fields[path] = Sample(_finite(value * (sums[part] / self.sums[part].sum()) ** power))
        return fields

    def _latency(self, name: str, weights: Floats) -> dict[Path, Sample]:
        latency = self.latencies.get(name)
        if latency is None or not latency.counts.sum():
            return {}
        counts = (weights.astype(np.float32) @ latency.counts.T).astype(np.float64)
        cumulative = np.cumsum(counts, axis=1)
        means = weights @ latency.totals / cumulative[:, -1]
        fields: dict[Path, Sample] = {
            (name, "mean"): Sample(means, latency.variance / max(float(means.var(ddof=1)), 1e-300))
        }
        ranks = np.cumsum(latency.counts.sum(axis=1))
        for percent in PERCENTILES:
            share = percent / 100
            values = _quantile(latency.edges, counts, cumulative, share)
            at = int(np.searchsorted(ranks, share * ranks[-1]))
            beyond = 1 - cumulative[:, at] / cumulative[:, -1]
            fields[name, f"p{percent}"] = Sample(values, _pieces(beyond, 1 - float(ranks[at] / ranks[-1])))
        return fields


def _at(result: Mapping[str, Any], path: Path) -> float | None:
    for name in path[:-1]:
        result = result.get(name) or {}
    return result.get(path[-1])


def _finite(values: Floats) -> Floats:
    """NaN where a resample without requests or tokens has no such figure."""
    return np.where(np.isfinite(values), values, np.nan)


def _pieces(shares: Floats, share: float) -> float:
    """Independent events of the rarer kind behind a share, from how much it varies over resamples.

    Of n independent requests a share s varies by s(1 − s)/n; n · min(s, 1 − s) of them are of the rarer kind.
    """
    variance = float(shares.var(ddof=1))
    rare = min(share, 1 - share)
    return share * (1 - share) / variance * rare if variance > 0 else math.inf


def _quantile(edges: Floats, counts: Floats, cumulative: Floats, share: float) -> Floats:
    """The value at rank `share` of each resample, on a straight line within its group."""
    wanted = share * cumulative[:, -1:]
    at = np.argmax(cumulative >= wanted, axis=1)
    rows = np.arange(len(at))
    inside = 1 - (cumulative[rows, at] - wanted[:, 0]) / counts[rows, at]
    low = np.where(at > 0, edges[np.maximum(at - 1, 0)], edges[0])
    return np.asarray(low + inside * (edges[at] - low))


def cut(run: Run, slo: Slo, begins: NDArray[np.int64], bins: Bins, *, warmup_s: float = 0.0) -> Blocks:
    """Cut the requests of a run that arrived after warm-up into `bins` by `begins`, an instant for each row."""
    records, rows, done = run.records, counted(run, warmup_s), finished(run, warmup_s)
    place, meeting = bins.of(begins), met(run, slo, warmup_s)

    def added(which: Mask, *columns: NDArray[Any]) -> Floats:
        total = sum(columns[1:], columns[0])[which].astype(np.float64) if columns else None
        return np.asarray(np.bincount(place[which], total, bins.count), dtype=np.float64)

    prompt, output, cached = (
        column(each).astype(np.int64) for each in (records.prompt_tokens, records.output_tokens, records.cached_tokens)
    )
    admitted = rows & (column(records.first_token_at) >= 0)
    sums = {
        "counted": added(rows),
        "finished": added(done),
        "met": added(meeting),
        "output": added(done, output),
        "tokens": added(done, prompt, output),
        "prompt": added(admitted, prompt),
        "cached": added(admitted, cached),
    }
    taken = durations(run, warmup_s).items()
    latencies = {f"{name}_s": _grouped(values / SECOND, place[rows], bins.count) for name, (rows, values) in taken}
    if (found := spans(run, warmup_s)) is not None:
        here = place[found.first]
        for name, which in (("programs", found.begun), ("programs met", found.begun & found.all_of(meeting))):
            sums[name] = np.bincount(here[which], minlength=bins.count).astype(np.float64)
        latencies["program_s"] = _grouped(found.took[found.finished] / SECOND, here[found.finished], bins.count)
    return Blocks(bins.count, sums, latencies)


def _grouped(values: Floats, place: NDArray[np.int64], bins: int) -> Latency:
    """A column of seconds in groups of rank."""
    rows = len(values)
    if not rows:
        return Latency(np.zeros(0), np.zeros((0, bins), np.float32), np.zeros(bins), 0.0)
    body, shoulder, tail = GROUPS
    shares = np.concatenate(
        [
            np.linspace(0, 0.9, body + 1)[1:],
            np.linspace(0.9, 0.99, shoulder + 1)[1:],
            np.linspace(0.99, 1, tail + 1)[1:],
        ]
    )
    last = np.unique(np.maximum(np.ceil(shares * rows).astype(np.int64), 1)) - 1
    order = np.argsort(values, kind="stable")
    group = np.searchsorted(last, np.arange(rows))
    flat = np.bincount(group * bins + place[order], minlength=len(last) * bins)
    counts = flat.reshape(-1, bins).astype(np.float32)
    totals = np.bincount(place, values, bins).astype(np.float64)
    return Latency(values[order][last], counts, totals, float(values.var(ddof=1)) if rows > 1 else 0.0)
