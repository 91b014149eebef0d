"""Where a look-up's time comes from: the evidence that accuracy depends on, handed on to whoever states an interval."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class How(Enum):
    """The evidence behind a look-up, the best first.

    MEASURED: all shapes around it were measured on the device.
    INTERPOLATED: most of them were.
    EXTRAPOLATED: it lies outside what was measured on the device; a form continues from the edge.
    BORROWED: another device's or format's efficiencies at the device's own figures.
    ROOFLINE: efficiencies typical of all measured devices at the device's own figures.
    """

    MEASURED = "measured"
    INTERPOLATED = "interpolated"
    EXTRAPOLATED = "extrapolated"
    BORROWED = "borrowed"
    ROOFLINE = "roofline"


class Error(NamedTuple):
    """How far answers are off: the median and the 90th percentile of absolute relative errors."""

    median: float
    p90: float


class Origin(NamedTuple):
    """One operator's evidence.

    kind, form: the operator and the format that was looked up.  device: whose measurements answer, "" for the roofline.
    table: the table in one line.  error: by cross-validation of such answers.
    """

    kind: str
    form: str
    how: How
    device: str
    table: str
    error: Error


def origins_of(estimator: object) -> tuple[Origin, ...]:
    """The evidence behind each operator of an estimator, through its wrappers; empty where it has no tables."""
    while not hasattr(estimator, "origins"):
        if not hasattr(estimator, "inner"):
            return ()
        estimator = estimator.inner
    found: tuple[Origin, ...] = estimator.origins()
    return found
