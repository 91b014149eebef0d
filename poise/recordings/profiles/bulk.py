"""`Curve.seconds` of a table for many shapes at once, as one array."""

from __future__ import annotations

import numpy as np

from poise.cost.operator import Figures
from poise.cost.tables import Table, grid_of
from poise.recordings.profiles.fitting import Floats, columns, corners, log2


def predict(table: Table, figures: Figures, coordinates: Floats) -> Floats:
    """Seconds at each row of coordinates."""
    grid, _ = grid_of(table, figures)
    values = np.array(grid.values)
    index, weight = corners(grid.axes, log2(coordinates))
    found: Floats = np.exp((weight * values[index]).sum(axis=1))
    arithmetic, moved = table.operator.least(columns(coordinates), table.format, figures)
    least: Floats = np.maximum(arithmetic, moved)
    return np.maximum(found, least)
