"""A line through points by least squares, with neither slope nor intercept below 0."""

from __future__ import annotations

from collections.abc import Sequence


def fitted(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Slope and intercept; through the origin where the points lie above one another, or the line would not."""
    n = len(points)
    x, y = sum(each[0] for each in points) / n, sum(each[1] for each in points) / n
    spread = sum((each[0] - x) ** 2 for each in points)
    if spread > 1e-12:
        slope = sum((each[0] - x) * (each[1] - y) for each in points) / spread
        if slope <= 0:
            return 0.0, y
        if slope * x <= y:
            return slope, y - slope * x
    squares = sum(each[0] ** 2 for each in points)
    return (sum(each[0] * each[1] for each in points) / squares, 0.0) if squares else (0.0, y)
