"""Mélange: the cheapest mix of units that carries a histogram of request sizes, as an integer program.

Griggs, Liu, Yu, Kim, Chiang, Cheung and Stoica, arXiv 2404.14527 (2024); code: tyler-griggs/melange-release, solver.py.
Each bucket is cut into `slice_factor` slices, each of which goes whole to one kind of unit; a slice of rate r loads a
unit that serves at most m of its bucket by r/m, and of each kind there must be as many as its loads sum up to. The sum
of prices is least.

Parameters: `slice_factor` (4, as the paper finds enough; its code has 1): more slices pack closer and take longer to
solve. `gap` (0): how far above the least price the answer may be, as a part of it.

Deviations. Slices of one bucket are alike, so they are counted, not named: the same placements with fewer unknowns.
The published solver writes a huge load where a unit cannot serve a bucket; here it may not take any. It knows no limits
of availability; here there may be some. It is solved by HiGHS, not CBC. The loads of a placement may sum to a whole
number, which leaves no room for chance: `rates` are where that belongs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from poise.core.errors import CapacityError, PolicyError
from poise.core.placement import Demand, Placement, Share, Unit
from poise.policies.kit.demand_checks import UNLIMITED, check, served, short

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Way(NamedTuple):
    """One unknown of the program: how many slices of a bucket go to a unit, and what one loads it by."""

    bucket: int
    unit: int
    load: float


@dataclass(frozen=True, slots=True)
class Melange:
    """Choose counts and shares at the least price. See the module for the rule and its parameters."""

    slice_factor: int = 4
    gap: float = 0.0

    def __post_init__(self) -> None:
        if self.slice_factor < 1:
            raise ValueError(f"slice_factor {self.slice_factor} cuts nothing; give 1 or more")
        if not 0 <= self.gap < 1:
            raise ValueError(f"gap {self.gap} is no part of a price; give 0 or more, less than 1")

    def place(self, demand: Demand, units: Sequence[Unit], available: Mapping[str, int] = UNLIMITED) -> Placement:
        """The cheapest placement; CapacityError where a bucket fits nowhere, or what is available does not do."""
        check(demand, units, available)
        loaded = served(demand, units)
        if not loaded:
            return Placement((0,) * len(units), (), (0.0,) * len(units), 0.0, 0.0)
        ways = [
            Way(bucket, unit, demand.buckets[bucket].rate / self.slice_factor / each.rates[bucket])
            for bucket in loaded
            for unit, each in enumerate(units)
            if each.rates[bucket]
        ]
        program = Program(ways, loaded, units, available, self.slice_factor)
        found = program.solve(self.gap)
        if found is None:
            free = replace(program, available=UNLIMITED).solve(self.gap) or [0] * (len(ways) + len(units))
            raise CapacityError(short(free[len(ways) :], units, available, "the cheapest mix"))
        return self._placement(demand, units, ways, found, program.bound())

    def _placement(
        self, demand: Demand, units: Sequence[Unit], ways: Sequence[Way], found: Sequence[int], bound: float
    ) -> Placement:
        slices, counts = found[: len(ways)], tuple(found[len(ways) :])
        loads = [0.0] * len(units)
        for way, count in zip(ways, slices, strict=True):
            loads[way.unit] += way.load * count
        shares = tuple(
            Share(way.bucket, way.unit, demand.buckets[way.bucket].rate * count / self.slice_factor)
            for way, count in zip(ways, slices, strict=True)
            if count
        )
        price = sum(count * unit.price for count, unit in zip(counts, units, strict=True))
        return Placement(counts, shares, tuple(loads), price, min(bound, price))


@dataclass(frozen=True, slots=True)
class Program:
    """The integer program: unknowns are the slices of each way, then the count of each unit."""

    ways: Sequence[Way]
    loaded: Sequence[int]
    units: Sequence[Unit]
    available: Mapping[str, int]
    slices: int

    def solve(self, gap: float) -> list[int] | None:
        """Whole slices and counts at the least price, None where there are none."""
        found = self._run(whole=True, gap=gap)
        return None if found is None else [round(value) for value in found]

    def bound(self) -> float:
        """The least price if slices and units could be divided."""
        found = self._run(whole=False, gap=0.0) or [0.0] * (len(self.ways) + len(self.units))
        counts = found[len(self.ways) :]
        return sum(count * unit.price for count, unit in zip(counts, self.units, strict=True))

    def _run(self, *, whole: bool, gap: float) -> list[float] | None:
        import highspy

        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("mip_rel_gap", gap)
        solver.passModel(self._model(whole))
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise PolicyError(f"melange: HiGHS found no answer ({solver.modelStatusToString(status)})")
        return list(solver.getSolution().col_value)

    def _model(self, whole: bool) -> Any:
        """The program as HiGHS takes it, prices as parts of the highest; whole: in integers."""
        import highspy
        import numpy as np

        price = np.array([0.0] * len(self.ways) + [unit.price for unit in self.units])
        rows, low, high = self._rows()
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = rows.shape
        model.col_cost_ = price / price.max()
        model.col_lower_ = np.zeros(len(price))
        model.col_upper_ = np.array([float(self.slices)] * len(self.ways) + [np.inf] * len(self.units))
        model.row_lower_, model.row_upper_ = np.array(low), np.array(high)
        row, column = rows.nonzero()
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.concatenate(([0], np.cumsum(np.count_nonzero(rows, axis=1))))
        model.a_matrix_.index_, model.a_matrix_.value_ = column, rows[row, column]
        if whole:
            model.integrality_ = [highspy.HighsVarType.kInteger] * len(price)
        return model

    def _rows(self) -> tuple[NDArray[Any], list[float], list[float]]:
        """Every slice goes somewhere; no unit is overloaded; no device is taken more often than there are."""
        import numpy as np

        limits = list(self.available.items())
        first_load, first_limit = len(self.loaded), len(self.loaded) + len(self.units)
        rows = np.zeros((first_limit + len(limits), len(self.ways) + len(self.units)))
        row_of = {bucket: row for row, bucket in enumerate(self.loaded)}
        for column, way in enumerate(self.ways):
            rows[row_of[way.bucket], column] = 1.0
            rows[first_load + way.unit, column] = way.load
        for index, unit in enumerate(self.units):
            rows[first_load + index, len(self.ways) + index] = -1.0
            for row, (device, _) in enumerate(limits):
                rows[first_limit + row, len(self.ways) + index] = unit.devices if unit.device == device else 0.0
        low = [float(self.slices)] * len(self.loaded) + [-np.inf] * (len(self.units) + len(limits))
        high = [float(self.slices)] * len(self.loaded) + [0.0] * len(self.units) + [float(most) for _, most in limits]
        return rows, low, high
