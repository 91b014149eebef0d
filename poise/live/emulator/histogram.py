"""Prometheus histograms and text format, as far as `/metrics` needs them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence


class Histogram:
    """Counts of values by upper bound."""

    __slots__ = ("_counts", "bounds", "count", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self._counts = [0] * (len(self.bounds) + 1)
        self.count = 0
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value `times` times."""
        self._counts[bisect_left(self.bounds, value)] += times
        self.count += times
        self.total += value * times

    def samples(self, name: str, labels: str) -> Iterator[str]:
        """The lines of the histogram; labels: as `k="v"` pairs joined by commas."""
        below = 0
        for bound, count in zip((*map(_number, self.bounds), "+Inf"), self._counts, strict=True):
            below += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {float(below)}'
        yield f"{name}_count{{{labels}}} {float(self.count)}"
        yield f"{name}_sum{{{labels}}} {self.total}"


def _number(value: float) -> str:
    return repr(float(value))


def header(name: str, kind: str, purpose: str) -> Iterator[str]:
    """The two lines before a metric's samples."""
    yield f"# HELP {name} {purpose}"
    yield f"# TYPE {name} {kind}"


def labelled(labels: Mapping[str, object]) -> str:
    """Labels as written between braces, values escaped."""
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def lines(parts: Iterable[str]) -> bytes:
    """The body of an answer."""
    return ("\n".join(parts) + "\n").encode()
