"""A comparison as data: a curve over load, and rows for a table of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from poise.core.errors import UserError
from poise.report.figures import DECIDING, KEY, SERIES, deciding

if TYPE_CHECKING:
    from poise.scenario.compare.comparison import Comparison


class Point(NamedTuple):
    """A figure at one load: requests per second (None where the load has no rate), value and ends of its interval."""

    load: float
    rate: float | None
    value: float | None
    low: float | None
    high: float | None


def curve(comparison: Comparison, policy: str, figure: str) -> list[Point]:
    """A figure of a policy over every load that is done, with those tried in search of the collapse."""
    deciding(figure)
    if policy not in comparison.study.policies:
        known = ", ".join(comparison.study.policies)
        raise UserError(f"{policy!r} is not a policy of this comparison; give one of {known}")
    loads = sorted({place.load for place in comparison.cells if place.policy == policy})
    points = []
    for load in loads:
        found = comparison.interval(policy, figure, load)
        points.append(Point(load, comparison.rate(load), found.value, found.low, found.high))
    return points


def rows(comparison: Comparison, *, each_seed: bool = False) -> list[dict[str, Any]]:
    """A row for each load and policy, or for each seed of them, of plain values by name, as in ttft_s.p99.

    FIGURE.half is half of a 95 % interval, None where there is none; rows of seeds have none.
    """
    found = []
    for load in sorted({place.load for place in comparison.cells}):
        for policy in comparison.policies(load):
            head = {"load": load, "rate": comparison.rate(load), "policy": policy}
            result = comparison.result(policy, load)
            if each_seed:
                found += [head | {"seed": seed["seed"]} | dict(_values(seed)) for seed in result["per_seed"]]
            else:
                found.append(head | dict(_values(result)) | dict(_halves(result)))
    return found


_FIGURES = (*KEY, *(figure for series in SERIES.values() for figure in series))


def _values(result: dict[str, Any]) -> Iterator[tuple[str, float | None]]:
    for figure in _FIGURES:
        yield figure.name, figure.value(result)
    yield "backlog_growth", result["backlog_growth"]


def _halves(result: dict[str, Any]) -> Iterator[tuple[str, float | None]]:
    for figure in _FIGURES:
        if figure.name in DECIDING:
            yield f"{figure.name}.half", figure.half_width(result)
