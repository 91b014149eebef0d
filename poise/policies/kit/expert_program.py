"""An integer program of zeros and ones whose largest of several sums is least, for balancers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ExpertProgram:
    """Rows over `columns` unknowns that are 0 or 1, and one more unknown: the largest of the sums, which is least.

    gap: how far above the optimum the answer may be, as a part of it.  nodes: branches after which HiGHS stops with the
    best answer so far; a limit in time would make answers depend on the machine.
    """

    def __init__(self, columns: int, gap: float, nodes: int) -> None:
        self._columns, self._gap, self._nodes = columns, gap, nodes
        self._rows: list[tuple[list[int], list[float], float, float]] = []

    def row(self, columns: Sequence[int], low: float, high: float) -> None:
        """The sum of these unknowns lies between two values."""
        self._rows.append((list(columns), [1.0] * len(columns), low, high))

    def below_largest(self, columns: Sequence[int], weights: Sequence[float], plus: float = 0.0) -> None:
        """This weighted sum, and a fixed value, is one of those whose largest is least."""
        self._rows.append(([*columns, self._columns], [*map(float, weights), -1.0], -float("inf"), -plus))

    def solve(self) -> NDArray[Any] | None:
        """The unknowns, without the largest sum; None where HiGHS found nothing within its limit."""
        import highspy
        import numpy as np

        inf = highspy.kHighsInf
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self._columns + 1, len(self._rows)
        model.col_cost_ = np.array([0.0] * self._columns + [1.0])
        model.col_lower_ = np.zeros(self._columns + 1)
        model.col_upper_ = np.array([1.0] * self._columns + [inf])
        model.row_lower_ = np.array([max(low, -inf) for _, _, low, _ in self._rows])
        model.row_upper_ = np.array([high for _, _, _, high in self._rows])
        model.integrality_ = [highspy.HighsVarType.kInteger] * self._columns + [highspy.HighsVarType.kContinuous]
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.cumsum([0, *(len(columns) for columns, *_ in self._rows)])
        model.a_matrix_.index_ = np.concatenate([columns for columns, *_ in self._rows])
        model.a_matrix_.value_ = np.concatenate([weights for _, weights, *_ in self._rows])
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("mip_rel_gap", self._gap)
        solver.setOptionValue("mip_max_nodes", self._nodes)
        solver.setOptionValue("threads", 1)
        solver.passModel(model)
        solver.run()
        if solver.getInfo().primal_solution_status != 2:  # feasible
            return None
        found: NDArray[Any] = np.asarray(solver.getSolution().col_value)[: self._columns]
        return found
