"""Which requests changed: the grouping that explains most of the difference between them.

For each grouping, the share of the variance of the changes that is between groups (η²), corrected for the number of
groups as in an adjusted R²: 1 − (1 − η²)(n − 1)/(n − k). Otherwise many small groups would explain anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from poise.report.wording import duration

if TYPE_CHECKING:
    from polars import DataFrame

BANDS = 4
"""Bands of prompt length, of equally many requests each."""

WINDOWS = 8
"""Windows of time, equally long."""

MOST = 100
"""Most groups of a way of grouping; more would be unreadable."""


@dataclass(frozen=True, slots=True)
class Group:
    """requests: in the group.  change: of their mean end-to-end time, in seconds.  share: of the change of all."""

    name: str
    requests: int
    change: float
    share: float


@dataclass(frozen=True, slots=True)
class Split:
    """by: the attribute of the groups.  explains: share of the variance between groups, corrected.

    groups: the one with most of the change first.
    """

    by: str
    explains: float
    groups: list[Group]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        groups = [
            {"group": each.name, "requests": each.requests, "change": each.change, "share": each.share}
            for each in self.groups
        ]
        return {"by": self.by, "explains": self.explains, "groups": groups}


def best_split(pairs: DataFrame) -> list[Split]:
    """All splits of paired requests (as `diff` pairs them) into two or more groups, most explanatory first."""
    changes = (pairs["e2e_s_b"] - pairs["e2e_s"]).to_numpy()
    splits = [_split(by, names, codes, changes) for by, names, codes in _groupings(pairs)]
    return sorted(filter(None, splits), key=lambda split: -split.explains)


def _split(by: str, names: list[str], codes: NDArray[np.intp], changes: NDArray[np.float64]) -> Split | None:
    counts = np.bincount(codes, minlength=len(names))
    present, requests = int((counts > 0).sum()), len(changes)
    spread = float(((changes - changes.mean()) ** 2).sum())
    if not 1 < present <= MOST or requests <= present or not spread:
        return None
    sums = np.bincount(codes, changes, len(names))
    means = sums / np.maximum(counts, 1)
    between = float((counts * (means - changes.mean()) ** 2).sum())
    explains = 1 - (1 - between / spread) * (requests - 1) / (requests - present)
    whole = float(changes.sum())
    groups = [
        Group(name, int(count), float(change), float(part) / whole if whole else 0.0)
        for name, count, change, part in zip(names, counts, means, sums, strict=True)
        if count
    ]
    return Split(by, explains, sorted(groups, key=lambda group: -group.share))


def _groupings(pairs: DataFrame) -> Iterator[tuple[str, list[str], NDArray[np.intp]]]:
    """Every grouping: the attribute it groups by, the names of its groups and the group of each request."""
    for by in ("model", "tenant", "turn"):
        if by in pairs.columns:
            yield by, *_named(pairs[by].to_numpy(), by)
    yield "prompt length", *_bands(pairs["prompt_tokens"].to_numpy())
    for which, suffix in (("A", ""), ("B", "_b")):
        yield f"replica in {which}", *_named(pairs[f"replica{suffix}"].to_numpy(), "replica")
        if (pairs[f"decode_replica{suffix}"] != pairs[f"replica{suffix}"]).any():
            yield f"decode replica in {which}", *_named(pairs[f"decode_replica{suffix}"].to_numpy(), "replica")
    hits = [(pairs[f"cached_tokens{suffix}"] > 0).to_numpy() for suffix in ("", "_b")]
    words = ["missed in both", "hit in A, missed in B", "missed in A, hit in B", "hit in both"]
    yield "prefix cache", words, (hits[0] + 2 * hits[1]).astype(np.intp)
    yield "time of arrival", *_windows(pairs["arrival_s"].to_numpy())


def _named(values: NDArray[Any], word: str) -> tuple[list[str], NDArray[np.intp]]:
    found, codes = np.unique(values, return_inverse=True)
    return [f"{word} {each}" for each in found.tolist()], codes


def _bands(tokens: NDArray[Any]) -> tuple[list[str], NDArray[np.intp]]:
    """Quantiles; where many prompts are equally long, fewer bands."""
    edges = np.unique(np.quantile(tokens, np.arange(1, BANDS) / BANDS, method="inverted_cdf"))
    edges = edges[edges < tokens.max()]
    codes = np.searchsorted(edges, tokens)
    lows = [int(tokens.min()), *(int(edge) + 1 for edge in edges)]
    highs = [*map(int, edges), int(tokens.max())]
    names = [f"{low:,} to {high:,}" if low < high else f"{low:,}" for low, high in zip(lows, highs, strict=True)]
    return [f"{name} tokens" for name in names], codes


def _windows(arrival: NDArray[np.float64]) -> tuple[list[str], NDArray[np.intp]]:
    start, width = float(arrival.min()), float(np.ptp(arrival)) / WINDOWS
    if not width:
        return ["all at once"], np.zeros(len(arrival), dtype=np.intp)
    codes = np.minimum(((arrival - start) / width).astype(np.intp), WINDOWS - 1)
    ends = [duration(start + at * width, 3) for at in range(WINDOWS + 1)]
    return [f"{low} to {high}" for low, high in pairwise(ends)], codes
