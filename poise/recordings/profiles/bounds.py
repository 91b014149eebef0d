"""Finds rows that are faster than the device allows: kernels whose profile times something else than it states."""

from __future__ import annotations

import numpy as np
import polars as pl

from poise.catalogue import device as find_device
from poise.core.errors import UserError
from poise.core.spec import Device
from poise.cost.operator import FORMATS, OPERATORS
from poise.recordings.profiles.fitting import Floats, columns
from poise.recordings.profiles.rows import ABOUT, CONTRADICTORY, coordinates

MOST = 0.5
"""The share of a kernel's rows that may undercut the datasheet: some shapes stay in a cache, most do not."""


def known_device(name: str) -> Device | None:
    """The catalogue's device of a profile's name, None for one that it lacks."""
    try:
        return find_device(name)
    except UserError:
        return None


def possible(kind: str, rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The rows of kernels that respect the datasheet, and how many rows the others had.

    A kernel that most often moves its bytes faster than memory could, or computes faster than the peak, was fed
    otherwise than stated: with one sequence's cache for a whole batch, for example. None of its rows can be trusted.
    """
    if kind not in OPERATORS or rows.is_empty():
        return rows, 0
    kept = []
    for key, part in rows.group_by(*ABOUT, maintain_order=True):
        if np.mean(_undercuts(kind, str(key[1]), str(key[4]), part)) <= MOST:
            kept.append(part)
    found = pl.concat(kept) if kept else rows.clear()
    return found, rows.height - found.height


def _undercuts(kind: str, name: str, form: str, rows: pl.DataFrame) -> Floats:
    """1 for each row that is shorter than the device's figures allow, by more than repeats differ; 0 for others."""
    device, operator = known_device(name), OPERATORS[kind]
    if device is None or form not in FORMATS or operator.link or operator.cached:
        return np.zeros(rows.height)
    at = columns(coordinates(kind, rows).to_numpy())
    least = np.maximum(*operator.least(at, form, operator.figures(device, form)))
    return np.asarray(least * 1e6 > (1 + CONTRADICTORY) * rows["us"].to_numpy(), dtype=np.float64)
