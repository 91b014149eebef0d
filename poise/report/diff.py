"""Compares two runs of the same requests: how much longer they took, in which part, and for which requests.

Requests are paired by id; only those that arrived after warm-up and finished in both runs are compared. Means of parts
add up, so their changes do; percentiles do not, so the tail has its own column: the mean parts of the slowest 1 % of
each run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import UserError
from poise.core.records.blame import PARTS
from poise.report.blame import STRETCHES, slowest
from poise.report.cause import Cause, first_cause
from poise.report.seeds import half_width
from poise.report.split import Split, best_split

if TYPE_CHECKING:
    from polars import DataFrame

LATENCIES = {"ttft_s": "TTFT", "e2e_s": "E2E"}

BLOCKS = 20
"""Blocks of consecutive requests whose mean changes are treated as independent."""


@dataclass(frozen=True, slots=True)
class Change:
    """A figure in both runs, in seconds."""

    before: float
    after: float

    @property
    def by(self) -> float:
        """How much more it is in the second run."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Part:
    """One part of one stretch: its mean, and its mean among the slowest requests of each run."""

    stretch: str
    name: str
    mean: Change
    tail: Change


@dataclass(frozen=True, slots=True)
class Diff:
    """The comparison of run B with run A.

    requests: number that finished in both.  only: number that finished in A only, and in B only.
    figures: mean and p99 of the latencies, by name.  parts: those that are not zero in both.
    margin: half of the 95 % interval of the change in mean end-to-end time, in seconds (`margin`).
    cause: the cause named first, None where no difference is significant.  splits: groups of requests, best split first
    """

    requests: int
    only: tuple[int, int]
    figures: dict[str, Change]
    parts: list[Part]
    margin: float
    cause: Cause | None
    splits: list[Split]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON: seconds, `a` and `b` for the two runs."""
        return {
            "requests": self.requests,
            "only_a": self.only[0],
            "only_b": self.only[1],
            **{name: _plain(change) for name, change in self.figures.items()},
            "parts": [
                {"stretch": part.stretch, "part": part.name, **_plain(part.mean), "slowest": _plain(part.tail)}
                for part in self.parts
            ],
            "margin": self.margin,
            "cause": self.cause and {"name": self.cause.name, "change": self.cause.change, "text": self.cause.text},
            "splits": [split.as_dict() for split in self.splits],
        }


def _plain(change: Change) -> dict[str, float]:
    return {"a": change.before, "b": change.after, "change": change.by}


def diff(before: DataFrame, after: DataFrame, *, warmup_s: float = 0.0) -> Diff:
    """Compare two frames of `requests_frame` with blame.

    UserError where they lack it, are of different requests, or no request finished in both.
    """
    import polars as pl

    pairs, only = _paired(before, after, warmup_s)
    parts = list(_parts(pairs))
    means = [dict.fromkeys(PARTS, 0.0), dict.fromkeys(PARTS, 0.0)]
    for part in parts:
        means[0][part.name] += part.mean.before
        means[1][part.name] += part.mean.after
    figures = {f"{name}.{figure}": change for name in LATENCIES for figure, change in _figures(pairs, name)}
    changes = pairs.sort("arrival_s", "request").select(pl.col("e2e_s_b") - pl.col("e2e_s")).to_series().to_numpy()
    luck = margin(changes)
    cause = first_cause(*means) if abs(figures["e2e_s.mean"].by) > luck else None
    return Diff(len(pairs), only, figures, parts, luck, cause, best_split(pairs))


def margin(changes: NDArray[np.floating[Any]]) -> float:
    """Half of the 95 % interval of the mean change; `changes` are those of paired requests in order of arrival.

    A request that did not change is certain. The others are divided into `BLOCKS` blocks of equal size, whose means are
    compared, because neighbouring requests share batches and are not independent. 0 where fewer requests changed than
    there are blocks: such a run is too short for an interval.
    """
    changed = changes[changes != 0]
    if len(changed) < BLOCKS:
        return 0.0
    means = [float(block.mean()) for block in np.array_split(changed, BLOCKS)]
    return half_width(means) * len(changed) / len(changes)


def _paired(before: DataFrame, after: DataFrame, warmup_s: float) -> tuple[DataFrame, tuple[int, int]]:
    """One row for each request that finished in both, B's columns with the suffix `_b`."""
    import polars as pl

    for name, frame in (("A", before), ("B", after)):
        if not {f"{stretch}_{part}_s" for stretch in STRETCHES for part in PARTS} <= set(frame.columns):
            raise UserError(f"{name} does not say where the time of its requests went; give a result of --blame")
    both = before.join(after, on="request", suffix="_b", maintain_order="left")
    same = both["prompt_tokens"] == both["prompt_tokens_b"]
    if not len(both) or not same.all() or both["arrival_s"][0] != both["arrival_s_b"][0]:
        raise UserError(
            "A and B are of different requests, so they cannot be paired; take two runs of one workload and seed"
        )
    done = both.filter((pl.col("status") == "finished") & (pl.col("status_b") == "finished"))
    counted = done.filter((pl.col("arrival_s") >= warmup_s) & (pl.col("arrival_s_b") >= warmup_s))
    if not len(counted):
        raise UserError(
            f"no request after {warmup_s:g} s finished in both A and B, so there is nothing to compare; "
            "give both runs time to drain, or shorten the warm-up"
        )
    ended = [int((frame["status"] == "finished").sum()) - len(done) for frame in (before, after)]
    return counted, (ended[0], ended[1])


def _figures(pairs: DataFrame, name: str) -> list[tuple[str, Change]]:
    columns = [np.sort(pairs[each].to_numpy()) for each in (name, f"{name}_b")]
    rank = max(-(-99 * len(pairs) // 100), 1) - 1
    means, tails = (
        [float(each) for each in values] for values in zip(*((c.mean(), c[rank]) for c in columns), strict=True)
    )
    return [("mean", Change(*means)), ("p99", Change(*tails))]


def _parts(pairs: DataFrame) -> Any:
    """Every part that either run has."""
    slow = [slowest(pairs[name].to_numpy()) for name in ("e2e_s", "e2e_s_b")]
    for stretch in STRETCHES:
        for name in PARTS:
            one, other = (pairs[f"{stretch}_{name}_s{which}"].to_numpy() for which in ("", "_b"))
            if one.any() or other.any():
                mean = Change(float(one.mean()), float(other.mean()))
                yield Part(stretch, name, mean, Change(float(one[slow[0]].mean()), float(other[slow[1]].mean())))
