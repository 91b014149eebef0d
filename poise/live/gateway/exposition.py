"""Prometheus' text format, written in slices, so that a long page never blocks the loop.

Format: Prometheus documentation, "Exposition formats", text version 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from poise.live.gateway.counts import BOUNDS, Histogram

LINES: Final = 500
"""Lines of one slice, about a millisecond's work."""

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_BOUNDS: Final = (*map(str, BOUNDS), "+Inf")


class Family(NamedTuple):
    """One metric: `kind` is counter, gauge or histogram, `lines` are made when they are read."""

    name: str
    kind: str
    text: str
    lines: Iterable[str]


def labels(*pairs: tuple[str, str]) -> str:
    """Labels as written within braces."""
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)


def sample(name: str, labels: str, value: float) -> str:
    """One line; `labels` is empty for none."""
    return f"{name}{{{labels}}} {float(value)}\n" if labels else f"{name} {float(value)}\n"


def histogram(name: str, labels: str, of: Histogram) -> Iterator[str]:
    """The lines of one histogram: cumulative buckets, count and sum."""
    total = 0
    for bound, number in zip(_BOUNDS, of.counts, strict=True):
        total += number
        yield f'{name}_bucket{{{labels},le="{bound}"}} {float(total)}\n'
    yield sample(f"{name}_count", labels, total)
    yield sample(f"{name}_sum", labels, of.sum)


def counter(name: str, text: str, rows: Iterable[tuple[str, float]]) -> Family:
    """A counter; `rows` are labels and values."""
    name = f"{name}_total"
    return Family(name, "counter", text, (sample(name, labels, value) for labels, value in rows))


def gauge(name: str, text: str, rows: Iterable[tuple[str, float]]) -> Family:
    """A gauge; `rows` are labels and values."""
    return Family(name, "gauge", text, (sample(name, labels, value) for labels, value in rows))


def slices(families: Iterable[Family], most: int = LINES) -> Iterator[bytes]:
    """The page in pieces of at most `most` lines, each made only when it is read."""
    lines = _lines(families)
    while piece := list(islice(lines, most)):
        yield "".join(piece).encode()


def _lines(families: Iterable[Family]) -> Iterator[str]:
    for family in families:
        yield f"# HELP {family.name} {family.text}\n"
        yield f"# TYPE {family.name} {family.kind}\n"
        yield from family.lines


def histograms(name: str, text: str, rows: Sequence[tuple[str, Histogram]]) -> Family:
    """A histogram for each label."""
    return Family(name, "histogram", text, (line for labels, of in rows for line in histogram(name, labels, of)))
