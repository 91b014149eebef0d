"""`Curve.seconds` for many shapes at once, as one array."""

from __future__ import annotations

import numpy as np

from poise.cost.efficiency import Efficiencies
from poise.cost.operator import Figures
from poise.cost.tables import Curve, Table, grid_of
from poise.cost.tables.blend import Blend
from poise.cost.typical import parts
from poise.recordings.profiles.fitting import Floats, columns, corners, log2


def answers(curve: Curve, coordinates: Floats) -> Floats:
    """Seconds of a curve at each row of coordinates, of all its lenders where it has several."""
    if not isinstance(curve, Blend):
        return predict(curve.table, curve.figures, coordinates)
    logs: Floats = sum(
        (part * np.log(answers(one, coordinates)) for one, part in curve.lenders), start=np.zeros(len(coordinates))
    )
    if curve.plain:
        kind, form = curve.table.kind, curve.table.format
        compute, moved, fixed = parts(kind, form, curve.figures, columns(coordinates), Efficiencies())
        logs += curve.plain * np.log(fixed + np.maximum(compute, moved))
    found: Floats = np.exp(logs)
    return found


def predict(table: Table, figures: Figures, coordinates: Floats) -> Floats:
    """Seconds at each row of coordinates."""
    grid, _ = grid_of(table, figures)
    values = np.array(grid.values)
    index, weight = corners(grid.axes, log2(coordinates))
    found: Floats = np.exp((weight * values[index]).sum(axis=1))
    arithmetic, moved = table.operator.least(columns(coordinates), table.format, figures)
    least: Floats = np.maximum(arithmetic, moved)
    return np.maximum(found, least)
