"""Experts to ranks, equally many to each, at the largest total gain: a transportation problem, solved exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from poise.core.errors import PolicyError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def assigned(gain: NDArray[Any]) -> NDArray[Any]:
    """(experts,) the rank of each, with experts / ranks on each rank, so that the sum of gains is largest.

    gain: (experts × ranks); ranks divide experts. The corners of this linear program are whole numbers, so HiGHS'
    simplex solves it exactly.
    """
    import highspy
    import numpy as np

    experts, ranks = gain.shape
    scale = np.abs(gain).max() or 1.0
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = experts * ranks, experts + ranks
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_ = (gain / scale).ravel()
    model.col_lower_, model.col_upper_ = np.zeros(experts * ranks), np.ones(experts * ranks)
    total = np.concatenate([np.ones(experts), np.full(ranks, experts / ranks)])
    model.row_lower_ = model.row_upper_ = total
    columns = np.arange(experts * ranks)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.arange(experts * ranks + 1) * 2
    model.a_matrix_.index_ = np.stack([columns // ranks, experts + columns % ranks], axis=1).ravel()
    model.a_matrix_.value_ = np.ones(2 * experts * ranks)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("solver", "simplex")
    solver.passModel(model)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise PolicyError("experts: HiGHS found no assignment; counts must be numbers, and ranks must divide experts")
    found: NDArray[Any] = np.asarray(solver.getSolution().col_value).reshape(experts, ranks).argmax(axis=1)
    return found
