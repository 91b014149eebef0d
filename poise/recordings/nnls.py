"""Least squares whose solution has no negative part, on the normal equations of a few unknowns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def nnls(products: Floats, target: Floats) -> Floats:
    """The x ≥ 0 that minimises x'Ax − 2b'x, for A = X'WX (positive semidefinite) and b = X'Wy.

    Active sets (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23), on unknowns scaled to A_jj = 1.
    """
    scale = np.sqrt(np.maximum(np.diag(products), 0.0))
    used = scale > 0
    scale = np.where(used, scale, 1.0)
    a, b = products / np.outer(scale, scale), target / scale
    x = np.zeros(len(b))
    free = np.zeros(len(b), dtype=bool)
    tolerance = 1e-12 * max(float(np.abs(b).max(initial=0.0)), 1e-300)
    for _ in range(10 * len(b)):
        slope = np.where(used & ~free, b - a @ x, -np.inf)
        if slope.max() <= tolerance:
            break
        free[int(slope.argmax())] = True
        while True:
            wanted = np.zeros(len(b))
            wanted[free] = np.linalg.lstsq(a[np.ix_(free, free)], b[free], rcond=1e-12)[0]
            low = free & (wanted <= 0)
            if not low.any():
                x = wanted
                break
            reach = x[low] / (x[low] - wanted[low])
            x = x + float(reach.min()) * (wanted - x)
            free &= ~(low & (x <= 1e-15))
            x[~free] = 0.0
    return x / scale
