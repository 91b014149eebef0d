"""ERC loss: a router's row is to excite its own expert more than others, and an expert its own row more than others'.

Lv et al. (2512.23447). The rows R of the router stand for the tokens of their experts. Each is scaled by noise within
1 ± ε_i, ε_i = ‖R_i − R_j‖ / (2 ‖R_i‖) for its nearest j, so that it stays nearer to itself. M_ij = ‖R_i W_j‖ is what
expert j's gate makes of it. The loss is the mean over pairs of what M_ij and M_ji have beyond α M_ii, i ≠ j; 1 is its
usual weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def bounds(rows: NDArray[Any]) -> NDArray[Any]:
    """(experts) ε, from (experts × width) rows of the router."""
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    found: NDArray[Any] = apart.min(axis=1) / (2 * np.linalg.norm(rows, axis=1))
    return found


def scaled(rows: NDArray[Any], draw: np.random.Generator) -> NDArray[Any]:
    """The rows with noise: each entry times its own draw, even within 1 ± ε."""
    noise = draw.uniform(-1, 1, rows.shape)
    found: NDArray[Any] = rows * (1 + bounds(rows)[:, None] * noise)
    return found


def activations(rows: NDArray[Any], gates: NDArray[Any]) -> NDArray[Any]:
    """(experts × experts) M: norm of row i through the gate of expert j. gates: (experts × width × inner)."""
    found: NDArray[Any] = np.linalg.norm(np.einsum("id,jdk->ijk", rows, gates), axis=2)
    return found


def erc_loss(m: NDArray[Any], alpha: float = 1.0) -> float:
    """The loss of M; 0 where each diagonal entry times alpha is at least all others of its row and column."""
    return float(sum(each.sum() for each in _beyond(m, alpha)) / len(m) ** 2)


def erc_gradient(m: NDArray[Any], alpha: float = 1.0) -> NDArray[Any]:
    """(experts × experts) the gradient of the loss by M."""
    rows, columns = ((each > 0).astype(float) for each in _beyond(m, alpha))
    found = rows + columns.T
    found[np.diag_indices(len(m))] -= alpha * (rows + columns).sum(axis=1)
    gradient: NDArray[Any] = found / len(m) ** 2
    return gradient


def _beyond(m: NDArray[Any], alpha: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """What M_ij, and what M_ji, have beyond α M_ii, at (i, j); 0 on the diagonal."""
    own = alpha * np.diag(m)[:, None]
    apart = ~np.eye(len(m), dtype=bool)
    return np.maximum(m - own, 0.0) * apart, np.maximum(m.T - own, 0.0) * apart
